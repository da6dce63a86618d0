//! What a learnt window is worth on models of devices: nearly all of the throughput, and next to no queue in the device.

use base::{Duration, Instant, Rng};
use device::{Device, DeviceModel, Io, IoId, IoKind};
use qos::{Load, Way, Window};
use std::collections::BTreeMap;

/// What an OSD's options say: operations at once, on flash and on rotating disks.
const FLASH_IOS: usize = 128;
const DISK_IOS: usize = 32;
/// What an operator should say of an array of twelve.
const ARRAY_IOS: usize = 128;

fn most(ios: usize) -> Load {
    Load { ios, bytes: 64 << 20, units: ios as f64 }
}

/// What a client got: requests a second, and what they took in the device, their mean and 99th percentile in microseconds.
#[derive(Debug)]
struct Got {
    iops: f64,
    mean_us: f64,
    p99_us: f64,
}

/// Somebody who keeps `depth` requests at random places under way.
struct Sender {
    kind: IoKind,
    depth: usize,
    /// Sizes and costs, each as likely as the others.
    sizes: &'static [(u64, f64)],
}

const SMALL: &[(u64, f64)] = &[(4096, 1.0)];
const MIXED: &[(u64, f64)] = &[(4096, 1.0), (4096, 1.0), (4096, 1.0), (65_536, 11.6)];

/// Lets it send for so long; measured is the second half.
fn run(model: &str, sender: &Sender, time: Duration, window: &mut Window) -> Got {
    let mut device = Device::new(DeviceModel::named(model).expect("a model"), 1);
    let (begin, mut rng) = (Instant::from_secs(1), Rng::new(7));
    let (mut now, mut waiting, mut next, mut latencies) = (begin, sender.depth, 0, Vec::new());
    let mut under_way = BTreeMap::new();
    while now < begin + time {
        while waiting > 0 && window.has_room() {
            let (bytes, units) = sender.sizes[rng.below(sender.sizes.len() as u64) as usize];
            let work = Load::one(bytes, units);
            (waiting, next) = (waiting - 1, next + 1);
            window.begin(now, work, Way::Scheduled);
            device.submit(now, IoId(next), Io { kind: sender.kind, offset: rng.u64(), bytes });
            under_way.insert(IoId(next), (now, work));
        }
        now = device.next_wakeup().expect("it has work");
        while let Some(io) = device.poll(now) {
            let (began, work) = under_way.remove(&io).expect("it was submitted");
            window.end(now, work, Way::Scheduled);
            waiting += 1;
            if now > begin + time / 2 {
                latencies.push(now.since(began).as_nanos() as f64 / 1e3);
            }
        }
    }
    latencies.sort_by(f64::total_cmp);
    Got {
        iops: latencies.len() as f64 / (time / 2).as_secs_f64(),
        mean_us: latencies.iter().sum::<f64>() / latencies.len() as f64,
        p99_us: latencies[latencies.len() * 99 / 100],
    }
}

/// At depth 64 no more than 3% of throughput is lost on any device, whatever is asked for; where the device's own queue was
/// long it is short.
#[test]
fn a_learnt_window_costs_next_to_no_throughput() {
    for (model, ios, seconds) in [("nvme", FLASH_IOS, 3), ("ssd", FLASH_IOS, 6), ("hdd", DISK_IOS, 200)] {
        for kind in [IoKind::Read, IoKind::Write] {
            for sizes in [SMALL, MIXED] {
                let (sender, time) = (Sender { kind, depth: 64, sizes }, Duration::from_secs(seconds));
                let without = run(model, &sender, time, &mut Window::new(most(1 << 20), false));
                let with = run(model, &sender, time, &mut Window::new(most(ios), true));
                assert!(with.iops >= 0.97 * without.iops, "{model} {kind:?}: {with:?} of {without:?}");
                if model == "ssd" {
                    assert!(with.mean_us < 0.3 * without.mean_us, "{model} {kind:?}: {with:?} of {without:?}");
                }
            }
        }
    }
}

/// An array of twelve disks reads a quarter less when it is given 32 at once, learnt or not: some disks have nothing to do
/// then, and the others little to choose from. With ten for each disk nothing is lost; and of what would be too much for its
/// disks' patience the window keeps enough out to make it faster than without. A single disk gains nothing by more than 32
/// but a longer queue, so that is what its OSD begins with.
#[test]
fn an_array_wants_as_much_at_once_as_its_disks() {
    for sizes in [SMALL, MIXED] {
        let time = Duration::from_secs(200);
        let rate = |depth, window: &mut Window| {
            run("hdd-array", &Sender { kind: IoKind::Read, depth, sizes }, time, window).iops
        };
        let part = |depth, ios| {
            rate(depth, &mut Window::new(most(ios), true)) / rate(depth, &mut Window::new(most(1 << 20), false))
        };
        let (of_one_disk, of_all) = (part(64, DISK_IOS), part(64, ARRAY_IOS));
        assert!((0.7..0.85).contains(&of_one_disk) && of_all >= 0.97, "{of_one_disk} {of_all}");
        assert!(part(256, ARRAY_IOS) > 1.5);
    }
}

/// What was learnt of one kind of work gives way when another comes: nvme's writes need a window of four, its reads fifty.
#[test]
fn a_window_follows_the_work() {
    let mut window = Window::new(most(FLASH_IOS), true);
    let sender = |kind| Sender { kind, depth: 128, sizes: SMALL };
    for _ in 0..2 {
        let writes = run("nvme", &sender(IoKind::Write), Duration::from_secs(4), &mut window);
        assert!(writes.iops > 0.97 * 200_000.0 && window.most().units < 10.0, "{writes:?} {window:?}");
        window = Window::new(Load { units: window.most().units, ..most(FLASH_IOS) }, true);
        let reads = run("nvme", &sender(IoKind::Read), Duration::from_secs(4), &mut window);
        assert!(reads.iops > 0.97 * 640_000.0 && reads.p99_us < 200.0, "{reads:?} {window:?}");
        assert!((45.0..75.0).contains(&window.most().units), "{reads:?} {window:?}");
        window = Window::new(Load { units: window.most().units, ..most(FLASH_IOS) }, true);
    }
}

/// Who sends little is never kept waiting: a device that is not at its limit takes what comes when it comes.
#[test]
fn little_work_waits_for_nothing() {
    let mut window = Window::new(most(FLASH_IOS), true);
    let few = Sender { kind: IoKind::Write, depth: 1, sizes: SMALL };
    run("nvme", &few, Duration::from_secs(2), &mut window);
    for (depth, iops) in [(4, 0.9 * 200_000.0), (16, 0.97 * 200_000.0)] {
        let got = run("nvme", &Sender { depth, ..few }, Duration::from_secs(4), &mut window);
        assert!(got.iops >= iops, "{depth}: {got:?}");
        window = Window::new(Load { units: window.most().units, ..most(FLASH_IOS) }, true);
    }
}

/// What is due finds room where nothing else does, but not without bound.
#[test]
fn a_full_window_has_a_little_room_for_what_is_due() {
    let (now, of_forty) = (Instant::from_secs(1), Load { units: 40.0, ..most(100) });
    let mut window = Window::new(of_forty, false);
    let mut begun = |has_room: fn(&Window) -> bool| {
        let mut count = 0;
        while has_room(&window) {
            window.begin(now, Load::one(4096, 1.0), Way::Scheduled);
            count += 1;
        }
        count
    };
    assert_eq!(begun(Window::has_room), 40);
    assert_eq!(begun(Window::has_room_for_due), 14);
    assert_eq!(begun(Window::has_room), 0);
    window.set(most(54), false);
    assert!(!window.has_room_for_due(), "who says how many requests means so many");
}
