//! A device against the figures of its own model.

use super::*;
use crate::model::DeviceModel;

/// Keeps `depth` requests under way until `count` have ended: I/Os per second and mean latency in microseconds.
fn load(model: DeviceModel, depth: u64, count: u64, mut next: impl FnMut(&mut Rng) -> Io) -> (f64, f64) {
    let mut device = Device::new(model, 7);
    let mut rng = Rng::new(11);
    let mut began = BTreeMap::new();
    let (mut now, mut ended, mut latency_ns) = (Instant::from_secs(1), 0, 0);
    let start = now;
    for id in 0..depth {
        device.submit(now, IoId(id), next(&mut rng));
        began.insert(IoId(id), now);
    }
    while ended < count {
        now = device.next_wakeup().expect("something is under way");
        while let Some(id) = device.poll(now) {
            latency_ns += now.0 - began.remove(&id).expect("each ends once").0;
            ended += 1;
            let new = IoId(depth + ended);
            device.submit(now, new, next(&mut rng));
            began.insert(new, now);
        }
        assert_eq!(device.outstanding() as u64, depth);
    }
    (ended as f64 / now.since(start).as_secs_f64(), latency_ns as f64 / ended as f64 / 1e3)
}

fn random(kind: IoKind, bytes: u64, within: u64) -> impl FnMut(&mut Rng) -> Io {
    move |rng| Io { kind, offset: rng.below(within / bytes) * bytes, bytes }
}

fn sequential(kind: IoKind, bytes: u64) -> impl FnMut(&mut Rng) -> Io {
    let mut at = 0;
    move |_| {
        at += bytes;
        Io { kind, offset: at - bytes, bytes }
    }
}

fn about(found: f64, expected: f64, tolerance: f64) {
    let off = (found / expected - 1.0).abs();
    assert!(off <= tolerance, "{found:.1} is {:.1}% off {expected:.1}", off * 100.0);
}

const SPACE: u64 = 1 << 40;

#[test]
fn flash_keeps_its_data_sheet() {
    let nvme = DeviceModel::nvme;
    // Alone: the latency, and 4 KiB at the drive's rate.
    let (_, latency) = load(nvme(), 1, 20_000, random(IoKind::Read, 4096, SPACE));
    about(latency, 77.0 + 4096.0 / 3.2e9 * 1e6, 0.01);
    let (_, latency) = load(nvme(), 1, 20_000, random(IoKind::Write, 4096, SPACE));
    about(latency, 18.0 + 4096.0 / 2.1e9 * 1e6, 0.01);
    // Together: the rates.
    about(load(nvme(), 256, 200_000, random(IoKind::Read, 4096, SPACE)).0, 640_000.0, 0.01);
    about(load(nvme(), 256, 200_000, random(IoKind::Write, 4096, SPACE)).0, 200_000.0, 0.01);
    about(load(nvme(), 8, 10_000, sequential(IoKind::Read, 1 << 20)).0 * f64::from(1 << 20), 3.2e9, 0.01);
}

#[test]
fn a_durable_write_takes_a_flush_longer() {
    for model in [DeviceModel::ssd(), DeviceModel { flush_us: 300.0, ..DeviceModel::hdd() }] {
        let flush_us = model.flush_us;
        let plain = load(model.clone(), 1, 3_000, random(IoKind::Write, 4096, SPACE)).1;
        let durable = load(model, 1, 3_000, random(IoKind::DurableWrite, 4096, SPACE)).1;
        // A disk has turned on meanwhile: what it saves in the next wait is as likely as what it loses.
        about(durable, plain + flush_us, 0.03);
    }
}

#[test]
fn more_requests_than_the_queue_takes_wait_outside() {
    let (rate, latency) = load(DeviceModel::ssd(), 320, 100_000, random(IoKind::Write, 4096, SPACE));
    about(rate, 30_000.0, 0.01);
    // Little's law: what is in the system is the rate times the time in it.
    about(latency, 320.0 / 30_000.0 * 1e6, 0.01);
}

#[test]
fn a_disk_seeks_and_turns() {
    let Media::Platters(p) = DeviceModel::hdd().media else { panic!("a disk has platters") };
    // Over the whole disk, uniformly: the mean of the square root of the distance between two points is 8/15; half a
    // rotation; a command; the transfer.
    let seek_ms = p.track_seek_ms + (p.full_seek_ms - p.track_seek_ms) * 8.0 / 15.0;
    let alone_ms = seek_ms + p.rotation_s() * 500.0 + p.command_us * 1e-3 + 4096.0 / p.bytes_per_s * 1e3;
    let whole = DeviceModel::hdd().capacity_bytes;
    let (rate, latency) = load(DeviceModel::hdd(), 1, 5_000, random(IoKind::Read, 4096, whole));
    about(latency, alone_ms * 1e3, 0.02);
    // With a choice of 32 the nearest is much nearer.
    let (reordered, _) = load(DeviceModel::hdd(), 32, 5_000, random(IoKind::Read, 4096, whole));
    assert!((2.0..4.0).contains(&(reordered / rate)), "{rate:.0} alone, {reordered:.0} with 32");
    // In sequence nothing moves but the platter.
    let bytes = 1u64 << 20;
    let sequence = load(DeviceModel::hdd(), 4, 2_000, sequential(IoKind::Read, bytes)).0;
    about(sequence, 1.0 / (bytes as f64 / p.bytes_per_s + p.command_us * 1e-6), 0.02);
}

#[test]
fn an_array_is_as_fast_as_its_disks_and_pays_for_parity() {
    let whole = DeviceModel::hdd_array().capacity_bytes;
    let one = load(DeviceModel::hdd(), 1, 3_000, random(IoKind::Read, 4096, whole / 11)).0;
    let reads = load(DeviceModel::hdd_array(), 12, 20_000, random(IoKind::Read, 4096, whole)).0;
    // Twelve requests do not always meet twelve different disks.
    assert!((6.0..12.0).contains(&(reads / one)), "{one:.0} for a disk, {reads:.0} for twelve");
    let writes = load(DeviceModel::hdd_array(), 12, 20_000, random(IoKind::Write, 4096, whole)).0;
    assert!((2.0..6.0).contains(&(reads / writes)), "{reads:.0} reads, {writes:.0} writes");
}

#[test]
fn a_flush_ends_after_what_was_written_before_it() {
    for name in DeviceModel::NAMES {
        let mut device = Device::new(DeviceModel::named(name).expect("it has a name"), 3);
        let now = Instant::from_secs(5);
        let mut rng = Rng::new(1);
        for id in 0..20 {
            let offset = rng.below(1 << 28) * 4096;
            device.submit(now, IoId(id), Io { kind: IoKind::Write, offset, bytes: 4096 });
        }
        device.submit(now, IoId(99), Io { kind: IoKind::Flush, offset: 0, bytes: 0 });
        let mut order = Vec::new();
        while let Some(at) = device.next_wakeup() {
            order.extend(std::iter::from_fn(|| device.poll(at)));
        }
        assert_eq!(order.len(), 21, "{name}");
        assert_eq!(order.last(), Some(&IoId(99)), "{name}");
    }
}

#[test]
fn nobody_starves_on_a_disk() {
    let mut device = Device::new(DeviceModel::hdd(), 3);
    let (start, mut now) = (Instant::from_secs(1), Instant::from_secs(1));
    let near = |n: u64| Io { kind: IoKind::Read, offset: (n % 64) * 4096, bytes: 4096 };
    device.submit(now, IoId(0), Io { kind: IoKind::Read, offset: 3_999_000_000_000, bytes: 4096 });
    (1..16).for_each(|n| device.submit(now, IoId(n), near(n)));
    let mut next = 16;
    loop {
        now = device.next_wakeup().expect("something is under way");
        while let Some(id) = device.poll(now) {
            if id == IoId(0) {
                assert!(now.since(start) < Duration::from_secs(1), "it waited for {:?}", now.since(start));
                return;
            }
            device.submit(now, IoId(next), near(next));
            next += 1;
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_times() {
    let run = |seed| {
        let mut device = Device::new(DeviceModel::nvme(), seed);
        (0..50).for_each(|n| {
            let io = Io { kind: IoKind::Read, offset: n * 8192, bytes: 4096 };
            device.submit(Instant(n * 1_000), IoId(n), io);
        });
        let mut ends = Vec::new();
        while let Some(at) = device.next_wakeup() {
            ends.extend(std::iter::from_fn(|| device.poll(at)).map(|id| (at, id)));
        }
        ends
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}
