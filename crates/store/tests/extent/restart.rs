//! How a store is opened after a crash: what the log names comes from the device many at once.

use crate::disk::Still;
use crate::driver::{Driven, assert_clean, contents, formatted, options};
use crate::workload::{collection, object};
use base::Rng;
use bytes::Bytes;
use store::extent::device::{DeviceFailed, IoBuf, ReadAt};
use store::extent::open;
use store::{ExtentOptions, Op, Transaction};

const OBJECTS: u64 = 2_000;

/// A device that counts how it is read.
struct Counting {
    still: Still,
    alone: usize,
    together: Vec<usize>,
    /// Whether it can do only one thing at a time.
    fails_together: bool,
}

impl ReadAt for Counting {
    fn read_at(&mut self, offset: u64, buf: &mut IoBuf) -> Result<(), DeviceFailed> {
        self.alone += 1;
        self.still.read_at(offset, buf)
    }

    fn read_all(&mut self, places: &[(u64, usize)]) -> Result<Vec<IoBuf>, DeviceFailed> {
        self.together.push(places.len());
        if self.fails_together { Err(DeviceFailed) } else { self.still.read_all(places) }
    }

    fn size(&self) -> u64 {
        self.still.size()
    }
}

/// A store that was cut off after it had changed all its objects, and how it was allowed to keep pages.
fn cut_off() -> (Vec<u8>, ExtentOptions) {
    let options = ExtentOptions { cache_bytes: 16 << 20, ..options() };
    let mut driven = Driven::open(formatted(64 << 20, 16 << 20), options, Rng::new(1));
    let id = collection(1);
    driven.commit(Transaction::create(id)).expect("new");
    let change = |driven: &mut Driven, value: u8| {
        for index in 0..OBJECTS {
            let mut t = Transaction::new(id);
            t.push(&object(index), Op::SetAttr("value".into(), Bytes::from(vec![value; 300])));
            driven.commit(t).expect("there is room");
        }
    };
    change(&mut driven, 1);
    driven.checkpoint();
    change(&mut driven, 2);
    let Driven { disk, mut rng, .. } = driven;
    (disk.cut(&mut rng), options)
}

#[test]
fn the_pages_of_what_the_log_names_are_read_together() {
    let (media, options) = cut_off();
    assert_clean(&media, "after the cut");
    let opened = |fails_together| {
        let still = Still(media.clone());
        let mut device = Counting { still, alone: 0, together: Vec::new(), fails_together };
        open(&mut device, options).expect("it opens");
        device
    };
    let device = opened(false);
    let pages: usize = device.together.iter().sum();
    assert!(pages >= 40 && device.together.iter().any(|count| *count > 20), "{:?}", device.together);
    assert!(device.alone < 30, "{} by themselves", device.alone);
    let device = opened(true);
    assert!(device.alone > pages, "what is not had together is had one by one");
    let mut driven = Driven::open(media, options, Rng::new(2));
    let objects = contents(collection(1), &mut |request| driven.ask(request)).expect("it is there");
    assert_eq!(objects.len() as u64, OBJECTS);
    assert!(objects.iter().all(|(_, view)| view.attr(b"value").is_some_and(|value| value[..] == [2; 300])));
}
