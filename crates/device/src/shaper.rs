//! Makes a fast device behave like a slower one: each end of a real request is held back until the model's device would
//! have ended it too.
//!
//! A device that is slower than its model is not made faster: requests then end when the real ones do. The caller
//! bounds how many requests are under way.

use crate::device::{Device, Io, IoId};
use crate::model::DeviceModel;
use base::Instant;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A shaper; `T` is what comes back with a real request's end.
#[derive(Debug)]
pub struct Shaper<T> {
    device: Device,
    /// Begun by the model, and not ended really.
    begun: BTreeSet<IoId>,
    /// Ended really, not yet by the model.
    real: BTreeMap<IoId, T>,
    /// Ended by the model, not yet really.
    modelled: BTreeSet<IoId>,
    ended: VecDeque<(IoId, T)>,
}

impl<T> Shaper<T> {
    /// Behaves like that model; `seed` decides its noise.
    pub fn new(model: DeviceModel, seed: u64) -> Shaper<T> {
        let device = Device::new(model, seed);
        Shaper {
            device,
            begun: BTreeSet::new(),
            real: BTreeMap::new(),
            modelled: BTreeSet::new(),
            ended: VecDeque::new(),
        }
    }

    /// A request begins, really and by the model.
    pub fn begin(&mut self, now: Instant, id: IoId, io: Io) {
        self.begun.insert(id);
        self.device.submit(now, id, io);
    }

    /// A request has ended really. One that never began by the model has ended.
    pub fn real_end(&mut self, id: IoId, with: T) {
        if !self.begun.remove(&id) || self.modelled.remove(&id) {
            self.ended.push_back((id, with));
        } else {
            self.real.insert(id, with);
        }
    }

    /// The next request that has ended both ways.
    pub fn poll(&mut self, now: Instant) -> Option<(IoId, T)> {
        while let Some(id) = self.device.poll(now) {
            match self.real.remove(&id) {
                Some(with) => self.ended.push_back((id, with)),
                None => drop(self.modelled.insert(id)),
            }
        }
        self.ended.pop_front()
    }

    /// When `poll` should be called next.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.device.next_wakeup()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::IoKind;
    use base::Duration;

    #[test]
    fn a_request_ends_when_both_have_ended() {
        let model = DeviceModel { noise: 0.0, ..DeviceModel::nvme() };
        let mut shaper = Shaper::new(model, 1);
        let start = Instant::from_secs(9);
        let io = Io { kind: IoKind::Read, offset: 0, bytes: 4096 };
        shaper.begin(start, IoId(1), io);
        shaper.begin(start, IoId(2), io);
        shaper.real_end(IoId(1), "fast");
        assert_eq!(shaper.poll(start + Duration::from_micros(70)), None, "a drive's read takes 77 us at the least");
        let at = shaper.next_wakeup().expect("it will have ended");
        assert!(at > start + Duration::from_micros(77));
        assert_eq!(shaper.poll(at + Duration::from_micros(10)), Some((IoId(1), "fast")));
        assert_eq!(shaper.poll(at + Duration::from_secs(1)), None, "the other one really takes longer");
        shaper.real_end(IoId(2), "slow");
        assert_eq!(shaper.poll(at + Duration::from_secs(1)), Some((IoId(2), "slow")));
        assert_eq!(shaper.next_wakeup(), None);
        shaper.real_end(IoId(3), "free");
        assert_eq!(shaper.poll(at), Some((IoId(3), "free")), "the model never heard of it");
    }
}
