//! Readers before `qos::Cfq` before a model of a device, in virtual time.

use super::{Case, FairnessOptions, Mode, WEIGHTS, put_rates};
use crate::latency::Latencies;
use crate::measurement::Measurement;
use crate::progress::Progress;
use base::{Duration, Instant, Rng};
use device::{Device, DeviceModel, Io, IoId, IoKind};
use qos::{Cfq, CfqConfig, Class, Cost, Dequeued, GroupId, Priority, Scheduler, StreamId, Work};
use std::collections::{BTreeMap, BTreeSet};

/// From the end of a read to the reader's running on: an interrupt, a switch of contexts. Some 10 us on processors of
/// the last twenty years.
const WAKE: Duration = Duration::from_micros(10);
/// Bytes a second that a reader copies out of the page cache, 4 KiB a call.
const COPY_BYTES_PER_S: f64 = 2.0e9;
/// Room for a reader's file. Files lie one behind the other, as a new file system puts them.
const FILE_BYTES: u64 = 4 << 30;
/// What is not measured: the scheduler learns how long readers think, heads find their tracks.
const WARM_UP: Duration = Duration::from_secs(2);
const BEGIN: Instant = Instant::from_secs(1);

/// One sequential reader.
struct Reader {
    group: usize,
    file: u64,
    within: u64,
    /// When it will have taken in what was read so far.
    busy_until: Instant,
    asked: Instant,
}

struct Run {
    window_bytes: u64,
    readers: Vec<Reader>,
    queue: Cfq<usize>,
    device: Device,
    under_way: BTreeMap<IoId, (Work, usize)>,
    next_io: u64,
    /// When readers ask for their next window.
    asking: BTreeSet<(Instant, usize)>,
    /// When the scheduler wants to be asked again.
    timer: Option<Instant>,
    bytes: [u64; 8],
    latencies: Latencies,
}

/// One run.
pub(super) fn run(
    options: &FairnessOptions,
    model: &DeviceModel,
    case: &Case,
    seed: u64,
    progress: &Progress,
) -> Measurement {
    let mut run = Run::new(options, model, case, seed);
    let measured_from = BEGIN + WARM_UP;
    let end = measured_from + Duration::from_secs(u64::from(options.seconds));
    let mut steps = 0u64;
    while let Some(now) = run.next_event().filter(|now| *now < end) {
        run.step(now, now >= measured_from);
        steps += 1;
        if steps.is_multiple_of(4096) {
            progress.part(now.since(BEGIN).as_secs_f64() / end.since(BEGIN).as_secs_f64());
        }
    }
    let mut measurement = Measurement::default();
    put_rates(&mut measurement, run.bytes, f64::from(options.seconds));
    measurement.put_latencies("read", &run.latencies);
    measurement
}

impl Run {
    fn new(options: &FairnessOptions, model: &DeviceModel, case: &Case, seed: u64) -> Run {
        let idle = Duration::from_millis(if case.mode == Mode::Time { 8 } else { 0 });
        let config = CfqConfig { slice_idle: idle, ..CfqConfig::default() };
        let mut queue = Cfq::new(config);
        for (place, weight) in (1..).zip(WEIGHTS) {
            queue.set_weight(Class::Client, GroupId(place), Some(weight));
        }
        let mut rng = Rng::new(seed);
        let count = WEIGHTS.len() * case.readers as usize;
        let room = FILE_BYTES.min(model.capacity_bytes / count as u64);
        let readers: Vec<Reader> = (0..count)
            .map(|place| Reader {
                group: place % WEIGHTS.len(),
                file: place as u64 * room,
                within: rng.below(room / 2) / 4096 * 4096,
                busy_until: BEGIN,
                asked: BEGIN,
            })
            .collect();
        // They do not begin in one moment.
        let asking = (0..count).map(|reader| (BEGIN + Duration::from_micros(rng.below(10_000)), reader)).collect();
        Run {
            window_bytes: u64::from(options.read_ahead_kib) * 1024,
            readers,
            queue,
            device: Device::new(model.clone(), seed),
            under_way: BTreeMap::new(),
            next_io: 0,
            asking,
            timer: None,
            bytes: [0; 8],
            latencies: Latencies::default(),
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let asks = self.asking.first().map(|(at, _)| *at);
        [asks, self.timer, self.device.next_wakeup()].into_iter().flatten().min()
    }

    fn step(&mut self, now: Instant, measured: bool) {
        while let Some(io) = self.device.poll(now) {
            self.read(now, io, measured);
        }
        while let Some((_, reader)) = self.asking.first().copied().filter(|(at, _)| *at <= now) {
            self.asking.pop_first();
            self.ask(now, reader);
        }
        self.dispatch(now);
    }

    /// A reader's window has been read: it goes on, and asks for the next as it enters this one.
    fn read(&mut self, now: Instant, io: IoId, measured: bool) {
        let (work, place) = self.under_way.remove(&io).expect("it was submitted");
        self.queue.completed(now, &work);
        let reader = &mut self.readers[place];
        if measured {
            self.bytes[reader.group] += self.window_bytes;
            self.latencies.record(now.since(reader.asked));
        }
        let enters = (now + WAKE).max(reader.busy_until);
        reader.busy_until = enters + Duration::from_secs_f64(self.window_bytes as f64 / COPY_BYTES_PER_S);
        self.asking.insert((enters, place));
    }

    fn ask(&mut self, now: Instant, place: usize) {
        let reader = &mut self.readers[place];
        reader.asked = now;
        let work = Work {
            class: Class::Client,
            group: GroupId(reader.group as u32 + 1),
            stream: StreamId(place as u64),
            priority: Priority(1),
            cost: Cost::one(self.window_bytes),
        };
        self.queue.enqueue(now, work, place).expect("a reader has one request");
    }

    fn dispatch(&mut self, now: Instant) {
        self.timer = None;
        while self.device.outstanding() < self.device.model().queue_depth as usize {
            match self.queue.dequeue(now) {
                Dequeued::Ready(work, place) => {
                    let reader = &mut self.readers[place];
                    let offset = reader.file + reader.within;
                    reader.within = (reader.within + self.window_bytes) % FILE_BYTES;
                    let id = IoId(self.next_io);
                    self.next_io += 1;
                    self.under_way.insert(id, (work, place));
                    self.device.submit(now, id, Io { kind: IoKind::Read, offset, bytes: self.window_bytes });
                }
                Dequeued::NotBefore(at) => {
                    self.timer = Some(at);
                    break;
                }
                Dequeued::Empty => break,
            }
        }
    }
}
