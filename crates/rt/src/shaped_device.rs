//! A block device that may have to behave like another one (`osd_device_model`).
//!
//! Owns the choice, and the alarm that rings when the model's device would have ended a request. Without a model it
//! is the block device itself. What is asked before anybody is served, or after, is not held back.

use crate::block_device::{BlockDevice, Ended};
use base::{Duration, Instant};
use bytes::Bytes;
use device::{DeviceModel, IoKind, Shaper};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use store::extent::device::{DeviceFailed, Io, IoBuf, IoId, ReadAt, WriteAt};

/// What comes back from a request that has ended.
type Outcome = Result<Option<IoBuf>, DeviceFailed>;

/// The model that an option names: one that has a name, or a file with figures.
pub fn device_model(text: &str) -> Result<DeviceModel, String> {
    if let Some(model) = DeviceModel::named(text) {
        return Ok(model);
    }
    let path = Path::new(text);
    if !path.is_absolute() {
        let names = DeviceModel::NAMES.join(", ");
        return Err(format!("osd_device_model = {text}: expected {names}, or the whole path of a file"));
    }
    let figures = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    DeviceModel::from_figures(&figures).map_err(|e| format!("{}: {e}", path.display()))
}

/// A device as its store sees it.
#[derive(Debug)]
pub(crate) struct ShapedDevice {
    device: BlockDevice,
    shaping: Option<Shaping>,
}

#[derive(Debug)]
struct Shaping {
    shaper: Shaper<Outcome>,
    alarm: OwnedFd,
    /// When the alarm will ring.
    armed: Option<Instant>,
    ended: Vec<Ended>,
}

impl ShapedDevice {
    /// The device, behaving like `model` where there is one.
    pub(crate) fn new(device: BlockDevice, model: Option<(DeviceModel, u64)>) -> io::Result<ShapedDevice> {
        let shaping = match model {
            None => None,
            Some((model, seed)) => {
                let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
                let alarm = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
                Some(Shaping { shaper: Shaper::new(model, seed), alarm, armed: None, ended: Vec::new() })
            }
        };
        Ok(ShapedDevice { device, shaping })
    }

    /// What rings when a request has ended.
    pub(crate) fn bells(&self) -> io::Result<Vec<OwnedFd>> {
        let mut bells = vec![self.device.bell()?];
        if let Some(shaping) = &self.shaping {
            bells.push(shaping.alarm.as_fd().try_clone_to_owned()?);
        }
        Ok(bells)
    }

    /// Takes a request; without a time it is not held back.
    pub(crate) fn push(&mut self, now: Option<Instant>, id: IoId, io: Io) {
        if let (Some(shaping), Some(now)) = (&mut self.shaping, now)
            && let Some(modelled) = modelled(&io)
        {
            shaping.shaper.begin(now, device::IoId(id.0), modelled);
        }
        self.device.push(id, io);
    }

    /// Hands everything collected to the kernel, and lets it tell what has ended.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        self.device.submit()
    }

    /// How many requests the device itself has not ended.
    pub(crate) fn in_flight(&self) -> usize {
        self.device.in_flight()
    }

    /// Whether it ends its requests itself, and not when a model says.
    pub(crate) fn is_itself(&self) -> bool {
        self.shaping.is_none()
    }

    /// Waits until the device itself has ended so many requests, at the longest for `limit`.
    pub(crate) fn wait_for(&mut self, count: usize, limit: Duration) -> io::Result<()> {
        self.device.wait_for(count, limit)
    }

    /// Waits until the device itself has ended a request.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        self.device.wait()
    }

    /// The requests that had ended when `submit` was called; without a time, also those that a model would hold back.
    pub(crate) fn ended(&mut self, now: Option<Instant>, out: &mut Vec<Ended>) -> io::Result<()> {
        let Some(shaping) = &mut self.shaping else {
            self.device.ended(out);
            return Ok(());
        };
        self.device.ended(&mut shaping.ended);
        for (id, outcome) in shaping.ended.drain(..) {
            shaping.shaper.real_end(device::IoId(id.0), outcome);
        }
        let until = now.unwrap_or(Instant(u64::MAX));
        while let Some((id, outcome)) = shaping.shaper.poll(until) {
            out.push((IoId(id.0), outcome));
        }
        if let Some(now) = now {
            shaping.arm(now)?;
        }
        Ok(())
    }
}

impl ReadAt for ShapedDevice {
    fn read_at(&mut self, offset: u64, buf: &mut IoBuf) -> Result<(), DeviceFailed> {
        self.device.read_at(offset, buf)
    }

    fn size(&self) -> u64 {
        self.device.size()
    }
}

impl WriteAt for ShapedDevice {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), DeviceFailed> {
        self.device.write_at(offset, data)
    }

    fn flush(&mut self) -> Result<(), DeviceFailed> {
        self.device.flush()
    }
}

impl Shaping {
    fn arm(&mut self, now: Instant) -> io::Result<()> {
        let next = self.shaper.next_wakeup();
        // An alarm that rings too early is harmless, and setting it anew is not free.
        if next.is_none() || self.armed.is_some_and(|at| at > now && Some(at) <= next) {
            return Ok(());
        }
        self.armed = next;
        let wait = next.map_or(Duration::ZERO, |at| at.since(now)).max(Duration::from_nanos(1));
        let value = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        rustix::time::timerfd_settime(&self.alarm, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

/// A request as the model sees it; none where it costs nothing.
fn modelled(io: &Io) -> Option<device::Io> {
    let (kind, offset, bytes) = match io {
        Io::Read { offset, buf } => (IoKind::Read, *offset, buf.as_ref().len()),
        Io::Write { offset, data, durable: true } => (IoKind::DurableWrite, *offset, data.len()),
        Io::Write { offset, data, durable: false } => (IoKind::Write, *offset, data.len()),
        Io::WriteVectored { offset, pieces } => (IoKind::Write, *offset, pieces.iter().map(Bytes::len).sum()),
        Io::Flush => (IoKind::Flush, 0, 0),
        Io::Discard { .. } => return None,
    };
    Some(device::Io { kind, offset, bytes: bytes as u64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;

    #[test]
    fn reads_take_as_long_as_the_model_says() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let device = BlockDevice::open(&dir.path().join("block"), 4 << 20).expect("a ring");
        let slow = "like = nvme\nnoise = 0\nread_latency_us = 20000";
        let model = DeviceModel::from_figures(slow).expect("it is a drive");
        let mut shaped = ShapedDevice::new(device, Some((model, 1))).expect("there are timers");
        let clock = Clock::start();
        let (began, mut ended) = (clock.now(), Vec::new());
        for id in 0..8 {
            shaped.push(Some(began), IoId(id), Io::Read { offset: id * 4096, buf: IoBuf::new(4096) });
        }
        shaped.push(Some(began), IoId(9), Io::Discard { offset: 0, len: 4096 });
        while ended.len() < 9 {
            shaped.submit().expect("the ring works");
            shaped.ended(Some(clock.now()), &mut ended).expect("there are timers");
            let took = clock.now().since(began);
            assert!(ended.len() <= 1 || took >= Duration::from_millis(20), "{} after {took:?}", ended.len());
            assert!(took < Duration::from_secs(20), "only {} have ended", ended.len());
        }
        assert!(ended.iter().all(|(_, outcome)| outcome.is_ok()));
        // Before anybody is served nobody waits for a model.
        shaped.push(None, IoId(10), Io::Read { offset: 0, buf: IoBuf::new(4096) });
        shaped.wait().expect("the ring works");
        ended.clear();
        shaped.ended(None, &mut ended).expect("there are timers");
        assert_eq!(ended.len(), 1);
    }

    #[test]
    fn a_model_is_a_name_or_a_file() {
        assert_eq!(device_model("hdd").map(|m| m.name), Ok("hdd".to_owned()));
        assert!(device_model("floppy").is_err_and(|e| e.contains("expected nvme, ssd, hdd, hdd-array")));
        assert!(device_model("/no/such/file").is_err_and(|e| e.starts_with("/no/such/file: ")));
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("model");
        std::fs::write(&path, "like = ssd\nname = mine\n").expect("writable");
        let text = path.to_str().expect("a plain path");
        assert_eq!(device_model(text).map(|m| m.name), Ok("mine".to_owned()));
    }
}
