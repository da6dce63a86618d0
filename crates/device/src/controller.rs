//! A disk array's controller: the link to its host, and a cache that reads ahead of who reads in order.
//!
//! Every request crosses the link, one after the other, and pays for its command, many at once. A read that begins where
//! an earlier one ended makes a stream of both: from then on the controller keeps up to `read_ahead_bytes` ahead of the
//! stream in its cache, and reads on from the disks whenever less than half of that is left. What a stream asks for is
//! taken from there, or waits until it is there. Streams that nobody has read from for longest are forgotten first, with
//! what was read ahead for them.
//!
//! Not modelled: data that is read twice, and a cache for writes.
//!
//! Invariant: a request that waits for a stream keeps it; what its stream lacks is on its way from the disks.

use base::{Duration, Instant};
use std::collections::{BTreeMap, VecDeque};

/// What describes the controller of an array.
#[derive(Clone, PartialEq, Debug)]
pub struct Controller {
    /// What a command costs between host and controller, beside others that are under way.
    pub controller_us: f64,
    /// Bytes a second that the link to the host carries.
    pub link_bytes_per_s: f64,
    /// How far it reads ahead of a stream; 0: it does not.
    pub read_ahead_bytes: u64,
    /// How many streams it can tell apart; with `read_ahead_bytes`, the size of its cache.
    pub read_ahead_streams: u32,
}

/// A stretch to be read from the disks into the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fetch {
    pub(crate) id: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// Where the bytes of a read come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// They are in the cache.
    Cache,
    /// They will be there; `ControllerState::fetched` says when.
    Stream,
    /// The disks, for this request alone.
    Disks,
}

/// Who reads in order.
#[derive(Debug)]
struct Stream {
    /// Its last use, in order of uses.
    used: u64,
    /// Where what is in the cache ends.
    cached_to: u64,
    /// Where what has been asked of the disks ends.
    fetched_to: u64,
    /// What is on its way from the disks, in order: its number, where it ends, whether it is there.
    fetches: VecDeque<(u64, u64, bool)>,
    /// Requests that wait for the cache, and where they end.
    waiting: VecDeque<(u64, u64)>,
}

/// What a controller knows.
#[derive(Debug, Default)]
pub(crate) struct ControllerState {
    link_free: Instant,
    /// By where the next read of each begins.
    streams: BTreeMap<u64, Stream>,
    /// Where the stream of a fetch goes on.
    stream_of: BTreeMap<u64, u64>,
    uses: u64,
    fetches: u64,
}

impl Controller {
    /// When bytes that are at one end of the link now have crossed it, with their command.
    pub(crate) fn cross(&self, state: &mut ControllerState, now: Instant, bytes: u64) -> Instant {
        let begins = state.link_free.max(now);
        state.link_free = begins + Duration::from_secs_f64(bytes as f64 / self.link_bytes_per_s);
        state.link_free + Duration::from_secs_f64(self.controller_us * 1e-6)
    }

    /// A read of so many bytes: where they come from, and what to read ahead because of it.
    pub(crate) fn read(
        &self,
        state: &mut ControllerState,
        io: u64,
        offset: u64,
        bytes: u64,
    ) -> (Source, Option<Fetch>) {
        if self.read_ahead_bytes == 0 {
            return (Source::Disks, None);
        }
        state.uses += 1;
        let end = offset + bytes;
        let Some(mut stream) = state.streams.remove(&offset) else {
            self.remember(state, end);
            return (Source::Disks, None);
        };
        stream.used = state.uses;
        let ahead = stream.fetched_to.saturating_sub(end);
        let fetch = (ahead < self.read_ahead_bytes / 2).then(|| {
            let to = end + self.read_ahead_bytes;
            let fetch = Fetch { id: state.fetches, offset: stream.fetched_to, bytes: to - stream.fetched_to };
            state.fetches += 1;
            stream.fetches.push_back((fetch.id, to, false));
            stream.fetched_to = to;
            fetch
        });
        let source = if end <= stream.cached_to { Source::Cache } else { Source::Stream };
        if source == Source::Stream {
            stream.waiting.push_back((io, end));
        }
        stream.fetches.iter().for_each(|(id, ..)| {
            state.stream_of.insert(*id, end);
        });
        state.streams.insert(end, stream);
        (source, fetch)
    }

    /// Notes that somebody may read on from `end`.
    fn remember(&self, state: &mut ControllerState, end: u64) {
        if state.streams.len() >= self.read_ahead_streams as usize {
            let idle = state.streams.iter().filter(|(_, stream)| stream.fetches.is_empty());
            let Some(oldest) = idle.min_by_key(|(_, stream)| stream.used).map(|(at, _)| *at) else { return };
            state.streams.remove(&oldest);
        }
        let (used, none) = (state.uses, VecDeque::new());
        let new = Stream { used, cached_to: end, fetched_to: end, fetches: none, waiting: VecDeque::new() };
        state.streams.entry(end).or_insert(new);
    }
}

impl ControllerState {
    /// The disks have read what was asked for; tells which requests need wait no longer, in their order.
    pub(crate) fn fetched(&mut self, fetch: u64) -> Vec<u64> {
        let at = self.stream_of.remove(&fetch).expect("a stream is kept while something is fetched for it");
        let stream = self.streams.get_mut(&at).expect("it goes on there");
        let done = stream.fetches.iter_mut().find(|(id, ..)| *id == fetch).expect("it was asked for");
        done.2 = true;
        while let Some((_, to, true)) = stream.fetches.front() {
            stream.cached_to = *to;
            stream.fetches.pop_front();
        }
        let mut ready = Vec::new();
        while let Some((io, _)) = stream.waiting.pop_front_if(|(_, end)| *end <= stream.cached_to) {
            ready.push(io);
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1024;

    fn controller() -> Controller {
        Controller { controller_us: 200.0, link_bytes_per_s: 4e8, read_ahead_bytes: 1024 * KIB, read_ahead_streams: 2 }
    }

    #[test]
    fn who_reads_in_order_is_read_ahead_for() {
        let (controller, mut state) = (controller(), ControllerState::default());
        assert_eq!(controller.read(&mut state, 1, 0, 128 * KIB), (Source::Disks, None));
        let (source, fetch) = controller.read(&mut state, 2, 128 * KIB, 128 * KIB);
        let fetch = fetch.expect("the second one in order makes a stream");
        assert_eq!((source, fetch.offset, fetch.bytes), (Source::Stream, 128 * KIB, 1152 * KIB));
        // Who is faster than the disks waits for them.
        assert_eq!(controller.read(&mut state, 3, 256 * KIB, 128 * KIB), (Source::Stream, None));
        assert_eq!(state.fetched(fetch.id), [2, 3]);
        // More is read when half of it has been used.
        for (io, at) in (4..).zip((384..768).step_by(128)) {
            assert_eq!(controller.read(&mut state, io, at * KIB, 128 * KIB), (Source::Cache, None), "at {at}");
        }
        let (source, fetch) = controller.read(&mut state, 7, 768 * KIB, 128 * KIB);
        let next = Fetch { id: 1, offset: 1280 * KIB, bytes: 640 * KIB };
        assert_eq!((source, fetch), (Source::Cache, Some(next)));
    }

    #[test]
    fn stretches_that_come_out_of_order_are_in_the_cache_when_all_before_them_are() {
        let (controller, mut state) = (controller(), ControllerState::default());
        controller.read(&mut state, 1, 0, 4 * KIB);
        let (_, first) = controller.read(&mut state, 2, 4 * KIB, 800 * KIB);
        let (_, second) = controller.read(&mut state, 3, 804 * KIB, 800 * KIB);
        let (first, second) = (first.expect("a stream"), second.expect("half of it is asked for"));
        assert!(state.fetched(second.id).is_empty());
        assert_eq!(state.fetched(first.id), [2, 3]);
    }

    #[test]
    fn the_stream_that_was_silent_longest_is_forgotten() {
        let (controller, mut state) = (controller(), ControllerState::default());
        for (io, offset) in [(1, 0), (2, 1 << 30), (3, 2 << 30)] {
            assert_eq!(controller.read(&mut state, io, offset, KIB).0, Source::Disks);
        }
        assert_eq!(controller.read(&mut state, 4, (1 << 30) + KIB, KIB).0, Source::Stream);
        assert_eq!(controller.read(&mut state, 5, KIB, KIB), (Source::Disks, None), "two later ones are remembered");
    }

    #[test]
    fn the_link_carries_one_request_after_the_other_and_commands_together() {
        let (controller, mut state) = (controller(), ControllerState::default());
        let us = |at: Instant| (at.0 as f64 / 1e3).round() as u64;
        assert_eq!(us(controller.cross(&mut state, Instant::ZERO, 400_000)), 1_200);
        assert_eq!(us(controller.cross(&mut state, Instant::ZERO, 400_000)), 2_200);
    }
}
