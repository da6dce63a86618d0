//! A device at work: its queue, and the ends of its requests.

use crate::controller::{Controller, ControllerState, Fetch, Source};
use crate::flash::FlashState;
use crate::model::{DeviceModel, Media};
use crate::platter::{For, Spindle};
use base::{Duration, Instant, Rng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Names a request; the caller's choice, unique while it is under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IoId(pub u64);

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoKind {
    /// Bytes from the device.
    Read,
    /// Bytes to the device.
    Write,
    /// Bytes to the device that stay from their end on, without a flush.
    DurableWrite,
    /// That everything whose write has ended stays.
    Flush,
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Io {
    /// What it asks for.
    pub kind: IoKind,
    /// Where it begins, in bytes.
    pub offset: u64,
    /// How long it is, in bytes.
    pub bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Step {
    /// A disk of the array ends a piece.
    Piece(usize),
    /// A request ends.
    End(u64),
}

#[derive(Debug)]
struct UnderWay {
    id: IoId,
    kind: IoKind,
    bytes: u64,
    pieces: usize,
    /// What its kind adds to its end.
    flush: Duration,
}

#[derive(Debug)]
enum State {
    Flash(FlashState),
    Platters(ArrayState),
}

/// Disks, and what is before them.
#[derive(Debug, Default)]
struct ArrayState {
    spindles: Vec<Spindle>,
    controller: ControllerState,
    /// What the controller reads ahead: in how many pieces that is under way.
    fetches: BTreeMap<u64, usize>,
}

/// A device that takes as long as its model says.
///
/// The caller bounds how many requests it submits; those beyond the model's queue depth wait here in their order.
#[derive(Debug)]
pub struct Device {
    model: DeviceModel,
    state: State,
    rng: Rng,
    waiting: VecDeque<(IoId, Io)>,
    /// Requests that the device works on, by arrival.
    under_way: BTreeMap<u64, UnderWay>,
    arrivals: u64,
    /// What happens when. The number keeps steps of one moment in the order in which they were planned.
    agenda: BTreeSet<(Instant, u64, Step)>,
    planned: u64,
    ended: VecDeque<IoId>,
    /// When the last write that has been taken ends.
    written: Instant,
}

impl Device {
    /// A device of that model without anything to do; `seed` decides its noise.
    pub fn new(model: DeviceModel, seed: u64) -> Device {
        let state = match &model.media {
            Media::Flash(_) => State::Flash(FlashState::default()),
            Media::Platters(p) => State::Platters(ArrayState {
                spindles: vec![Spindle::default(); p.spindles as usize],
                ..ArrayState::default()
            }),
        };
        Device {
            model,
            state,
            rng: Rng::new(seed),
            waiting: VecDeque::new(),
            under_way: BTreeMap::new(),
            arrivals: 0,
            agenda: BTreeSet::new(),
            planned: 0,
            ended: VecDeque::new(),
            written: Instant::ZERO,
        }
    }

    /// The model that it follows.
    pub fn model(&self) -> &DeviceModel {
        &self.model
    }

    /// Takes a request.
    pub fn submit(&mut self, now: Instant, id: IoId, io: Io) {
        self.advance(now);
        self.waiting.push_back((id, io));
        self.admit(now);
    }

    /// When `poll` should be called next.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.agenda.first().map(|(at, ..)| *at)
    }

    /// The next request that has ended by `now`, in the order of their ends.
    pub fn poll(&mut self, now: Instant) -> Option<IoId> {
        self.advance(now);
        self.ended.pop_front()
    }

    /// How many requests have been submitted and have not ended.
    pub fn outstanding(&self) -> usize {
        self.waiting.len() + self.under_way.len()
    }

    fn plan(&mut self, at: Instant, step: Step) {
        self.planned += 1;
        self.agenda.insert((at, self.planned, step));
    }

    /// Lets time pass up to `now`.
    fn advance(&mut self, now: Instant) {
        while let Some(&(at, _, step)) = self.agenda.first().filter(|(at, ..)| *at <= now) {
            self.agenda.pop_first();
            match step {
                Step::Piece(disk) => self.piece_ended(at, disk),
                Step::End(arrival) => {
                    let done = self.under_way.remove(&arrival).expect("a request ends once");
                    self.ended.push_back(done.id);
                    self.admit(at);
                }
            }
        }
    }

    /// Takes what waits outside, as far as there is room.
    fn admit(&mut self, now: Instant) {
        while self.under_way.len() < self.model.queue_depth as usize {
            // A flush is about everything before it: on disks, whose order is their own, it stands alone.
            let Some(&(id, io)) = self.waiting.front() else { return };
            if matches!(self.state, State::Platters(_)) {
                let flushing = self.under_way.values().any(|u| u.kind == IoKind::Flush);
                if flushing || (io.kind == IoKind::Flush && !self.under_way.is_empty()) {
                    return;
                }
            }
            self.waiting.pop_front();
            self.arrivals += 1;
            let arrival = self.arrivals;
            let stretch = self.stretch();
            let flushes = matches!(io.kind, IoKind::Flush | IoKind::DurableWrite);
            let flush_us = if flushes { self.model.flush_us } else { 0.0 };
            let flush = Duration::from_secs_f64(flush_us * 1e-6 * stretch);
            let request = UnderWay { id, kind: io.kind, bytes: io.bytes, pieces: 0, flush };
            self.under_way.insert(arrival, request);
            self.begin(now, arrival, io, stretch, flush);
        }
    }

    /// Begins a request.
    fn begin(&mut self, now: Instant, arrival: u64, io: Io, stretch: f64, flush: Duration) {
        let write = matches!(io.kind, IoKind::Write | IoKind::DurableWrite);
        if io.kind == IoKind::Flush {
            return self.plan(self.written.max(now) + flush, Step::End(arrival));
        }
        let offset = io.offset % self.model.capacity_bytes;
        match (&self.model.media, &mut self.state) {
            (Media::Flash(flash), State::Flash(state)) => {
                let end = flash.serve(state, now, write, io.bytes, stretch);
                if write {
                    self.written = self.written.max(end);
                }
                self.plan(end + flush, Step::End(arrival));
            }
            (Media::Platters(platters), State::Platters(array)) => {
                let controller = platters.controller.as_ref().filter(|_| !write);
                let (source, fetch) = controller.map_or((Source::Disks, None), |controller| {
                    controller.read(&mut array.controller, arrival, offset, io.bytes)
                });
                match source {
                    Source::Cache => self.on_hand(now, arrival),
                    Source::Stream => {}
                    Source::Disks => self.queue_at_disks(now, For::Request(arrival), write, offset, io.bytes),
                }
                if let Some(Fetch { id, offset, bytes }) = fetch {
                    self.queue_at_disks(now, For::Fetch(id), false, offset, bytes);
                }
            }
            _ => unreachable!("a device's state is that of its media"),
        }
    }

    /// Queues the parts of a request at their disks.
    fn queue_at_disks(&mut self, now: Instant, whose: For, write: bool, offset: u64, bytes: u64) {
        let (Media::Platters(platters), State::Platters(array)) = (&self.model.media, &mut self.state) else {
            unreachable!("only disks turn")
        };
        let pieces = platters.pieces(whose, now, write, offset, bytes);
        match whose {
            For::Request(io) => self.under_way.get_mut(&io).expect("it begins").pieces = pieces.len(),
            For::Fetch(id) => {
                array.fetches.insert(id, pieces.len());
            }
        }
        for (disk, piece) in &pieces {
            array.spindles[*disk].queue.push(*piece);
        }
        let mut disks: Vec<usize> = pieces.iter().map(|(disk, _)| *disk).collect();
        disks.dedup();
        disks.into_iter().for_each(|disk| self.turn_to_next(now, disk));
    }

    /// A request's bytes are where the link begins, or where they were to go.
    fn on_hand(&mut self, now: Instant, arrival: u64) {
        let (Media::Platters(platters), State::Platters(array)) = (&self.model.media, &mut self.state) else {
            unreachable!("only disks turn")
        };
        let request = &self.under_way[&arrival];
        let crossed = |controller: &Controller| controller.cross(&mut array.controller, now, request.bytes);
        let end = platters.controller.as_ref().map_or(now, crossed) + request.flush;
        self.plan(end, Step::End(arrival));
    }

    /// A factor around 1 with the model's spread.
    fn stretch(&mut self) -> f64 {
        if self.model.noise == 0.0 {
            return 1.0;
        }
        // The sum of twelve uniform numbers less six is as good as normal, and the same on every machine.
        let uniform = |rng: &mut Rng| rng.below(1 << 32) as f64 / (1u64 << 32) as f64;
        let normal: f64 = (0..12).map(|_| uniform(&mut self.rng)).sum::<f64>() - 6.0;
        (1.0 + self.model.noise * normal).max(0.1)
    }

    /// Sets an idle disk to work.
    fn turn_to_next(&mut self, now: Instant, disk: usize) {
        let (Media::Platters(platters), State::Platters(array)) = (&self.model.media, &mut self.state) else {
            unreachable!("only disks turn")
        };
        let spindle = &mut array.spindles[disk];
        if spindle.serving.is_some() {
            return;
        }
        let data_disks = if platters.parity { platters.spindles - 1 } else { platters.spindles };
        let disk_bytes = self.model.capacity_bytes as f64 / f64::from(data_disks);
        if let Some(end) = platters.begin(spindle, now, disk_bytes) {
            self.plan(end, Step::Piece(disk));
        }
    }

    fn piece_ended(&mut self, at: Instant, disk: usize) {
        let State::Platters(array) = &mut self.state else { unreachable!("only disks turn") };
        let piece = array.spindles[disk].serving.take().expect("a disk ends what it began");
        match piece.whose {
            For::Request(io) => {
                let request = self.under_way.get_mut(&io).expect("a request is under way until its last piece ends");
                request.pieces -= 1;
                if request.pieces == 0 {
                    self.on_hand(at, io);
                }
            }
            For::Fetch(id) => {
                let pieces = array.fetches.get_mut(&id).expect("it is under way until its last piece ends");
                *pieces -= 1;
                if *pieces == 0 {
                    array.fetches.remove(&id);
                    let ready = array.controller.fetched(id);
                    ready.into_iter().for_each(|io| self.on_hand(at, io));
                }
            }
        }
        self.turn_to_next(at, disk);
    }
}

#[cfg(test)]
mod tests;
