//! The write-ahead log: a ring of records, and the groups of commits that share one.
//!
//! Owns what goes into the next record while the last one is on its way, where records lie in the ring, and when a
//! group is durable: its record and all data that went to its place directly are written, and, where there was such
//! data, a flush that began after that has ended. One record is on its way at a time, so that no record can be found
//! whose predecessor was lost.
//!
//! Invariant: commits of one group complete in the order in which they joined it, groups one after the other.

pub(crate) mod body;
pub(crate) mod record;
pub(crate) mod replay;

use crate::contract::{CommitId, StoreError};
use crate::extent::layout::{BLOCK, Geometry};
use crate::extent::log::body::{Body, Lying};
use crate::extent::log::record::{HEADER, Header};
use crate::extent::superblock::LogPoint;
use crate::limits::TRANSACTION_BYTES_MAX;
use base::Bug;
use bytes::Bytes;

/// What waits for a group.
pub(crate) type Waiting = (CommitId, Result<(), StoreError>);

/// A group ends growing here; what comes after waits for the next.
const GROUP_BYTES_MAX: u64 = 1 << 20;

/// The part of the ring that is used as long as it suffices. The rest is for transactions that are larger than what
/// comes together in a checkpoint's time.
pub(crate) const USUAL_BYTES_MAX: u64 = 48 << 20;

/// Bytes of records after which a checkpoint is due: a restart carries out not much more, which takes a second where all of
/// it made small objects.
const DUE_BYTES_MAX: u64 = 24 << 20;

/// A record under construction.
#[derive(Debug)]
struct Building {
    /// Room for the header, which is filled in at the end, and the entries so far.
    body: Body,
    entries: u32,
    waiting: Vec<Waiting>,
    /// Device writes of data that have not ended.
    direct_left: usize,
    had_direct: bool,
}

impl Building {
    /// `body` is empty; about so many are going to wait.
    fn new(mut body: Body, waiting: usize) -> Building {
        body.text().raw(&[0; HEADER]);
        let waiting = Vec::with_capacity(waiting);
        Building { body, entries: 0, waiting, direct_left: 0, had_direct: false }
    }
}

/// How far the group on its way is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// Its record is being written.
    Writing,
    /// Its record is written; data is on its way yet.
    Written,
    /// The flush is under way.
    Flushing,
}

#[derive(Debug)]
struct Group {
    sequence: u64,
    waiting: Vec<Waiting>,
    stage: Stage,
    direct_left: usize,
    had_direct: bool,
}

/// A record that is ready to be written.
#[derive(Debug)]
pub(crate) struct Sealed {
    /// Where, in bytes from the beginning of the device.
    pub(crate) offset: u64,
    pub(crate) data: Bytes,
    /// Where in it blocks of data lie that their transactions wrote whole.
    pub(crate) blocks: Vec<Lying>,
    /// Whether this write alone makes the group durable.
    pub(crate) durable: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Log {
    geometry: Geometry,
    salt: u64,
    /// Where the next record goes.
    pub(crate) next: LogPoint,
    /// The first record that the durable tree does not contain.
    pub(crate) tail: LogPoint,
    /// The last checkpoint's.
    pub(crate) generation: u64,
    /// The last durable record.
    pub(crate) durable: u64,
    /// Bytes of all records sealed since the store was opened, with those that were found then.
    pub(crate) total: u64,
    /// The part of them that the durable tree contains.
    pub(crate) contained: u64,
    building: Building,
    /// The last record's text, for its room.
    spare: Body,
    group: Option<Group>,
}

impl Log {
    pub(crate) fn new(geometry: Geometry, salt: u64, tail: LogPoint, next: LogPoint, generation: u64) -> Log {
        let durable = next.sequence.saturating_sub(1);
        let total = next.position - tail.position;
        let building = Building::new(Body::of_record(), 0);
        Log {
            geometry,
            salt,
            next,
            tail,
            generation,
            durable,
            total,
            contained: 0,
            building,
            spare: Body::of_record(),
            group: None,
        }
    }

    /// The most bytes of one entry: a longer one is written to blocks of data, and an entry says where.
    pub(crate) fn entry_bytes_max(geometry: &Geometry) -> usize {
        (geometry.log_bytes() / 2 - 2 * BLOCK).min(TRANSACTION_BYTES_MAX as u64) as usize
    }

    /// Whether a checkpoint is due.
    pub(crate) fn is_due(&self) -> bool {
        self.total - self.contained > self.due_bytes()
    }

    /// The bytes of records after which one is due.
    pub(crate) fn due_bytes(&self) -> u64 {
        DUE_BYTES_MAX.min(self.geometry.log_bytes() / 4)
    }

    /// Whether an entry of about so many bytes may join the next group now.
    pub(crate) fn takes(&self, bytes: usize) -> bool {
        let group = (self.building.body.len() + bytes) as u64;
        self.building.entries == 0 || group <= GROUP_BYTES_MAX.min(self.geometry.log_bytes() / 8)
    }

    /// Whether the ring has room for it.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        // Its text may end in the middle of a block, and what lies apart begins with one.
        self.place((self.building.body.len() + 4 + bytes) as u64 + BLOCK).is_some()
    }

    /// Where a record of so many bytes goes: behind the last one or, where that would leave the usual part of the ring
    /// or the ring, at its next beginning.
    fn place(&self, len: u64) -> Option<u64> {
        let (len, size) = (len.next_multiple_of(BLOCK), self.geometry.log_bytes());
        let (lap, next, tail) = (self.next.position / size, self.next.position % size, self.tail.position % size);
        let behind = self.next.position;
        if lap > self.tail.position / size {
            // Never up to the tail: a full ring would look like an empty one.
            return (next + len < tail).then_some(behind);
        }
        if next + len <= USUAL_BYTES_MAX.min(size / 2) {
            return Some(behind);
        }
        let around = (len < tail).then_some((lap + 1) * size);
        around.or((next + len <= size).then_some(behind))
    }

    /// Adds the entry that `write` appends to the next group.
    pub(crate) fn append(&mut self, write: impl FnOnce(&mut Body)) {
        self.building.body.sized(write);
        self.building.entries += 1;
    }

    /// Somebody waits for what was appended so far. None when nothing is on its way: then it may be told at once.
    pub(crate) fn wait(&mut self, waiting: Waiting) -> Option<Waiting> {
        if self.building.entries > 0 {
            self.building.waiting.push(waiting);
            return None;
        }
        match &mut self.group {
            Some(group) => {
                group.waiting.push(waiting);
                None
            }
            None => Some(waiting),
        }
    }

    /// A device write of data belongs to the next group, whose number this is.
    pub(crate) fn add_direct(&mut self) -> u64 {
        self.building.direct_left += 1;
        self.building.had_direct = true;
        self.next.sequence
    }

    /// Data that is written already belongs to the next group, which makes it durable.
    pub(crate) fn add_written(&mut self) {
        self.building.had_direct = true;
    }

    /// Whether a group is on its way.
    pub(crate) fn is_busy(&self) -> bool {
        self.group.is_some()
    }

    /// The number of the group on its way.
    pub(crate) fn under_way(&self) -> Option<u64> {
        self.group.as_ref().map(|group| group.sequence)
    }

    /// Whether something waits for the next record.
    pub(crate) fn has_entries(&self) -> bool {
        self.building.entries > 0
    }

    /// Ends the group that is being built, if there is one and the last one is done.
    pub(crate) fn seal(&mut self) -> Option<Sealed> {
        if self.group.is_some() || self.building.entries == 0 {
            return None;
        }
        // The next group is expected to be about as large.
        let next = Building::new(core::mem::take(&mut self.spare), self.building.waiting.len());
        let Building { mut body, entries, waiting, direct_left, had_direct } =
            core::mem::replace(&mut self.building, next);
        let (len, text, blocks) = (body.len(), body.text_len(), body.take_lying());
        let mut buf = body.gather();
        let padded = buf.as_ref().len();
        let size = self.geometry.log_bytes();
        self.next.position = self.place(len as u64).expect("there was room for each entry as it was appended");
        self.total += padded as u64;
        let (point, durable, generation) = (self.next, self.durable, self.generation);
        let header = Header { point, durable, generation, len, text, entries, crc: 0 };
        let crc = header.seal(self.salt, &body, &mut buf);
        body.clear();
        self.spare = body;
        let offset = self.geometry.log_start() * BLOCK + self.next.position % size;
        self.group =
            Some(Group { sequence: self.next.sequence, waiting, stage: Stage::Writing, direct_left, had_direct });
        self.next = Header { crc, ..header }.next();
        let durable = !had_direct && !Bug::AckBeforeFlush.is_planted();
        Some(Sealed { offset, data: Bytes::from_owner(buf), blocks, durable })
    }

    /// The record is written. True when a flush is wanted now.
    pub(crate) fn written(&mut self) -> bool {
        if let Some(group) = &mut self.group {
            group.stage = Stage::Written;
        }
        self.wants_flush()
    }

    /// A device write of data of the group `sequence` has ended. True when a flush is wanted now.
    pub(crate) fn direct_done(&mut self, sequence: u64) -> bool {
        match &mut self.group {
            Some(group) if group.sequence == sequence => group.direct_left -= 1,
            _ => self.building.direct_left -= 1,
        }
        self.wants_flush()
    }

    fn wants_flush(&mut self) -> bool {
        match &mut self.group {
            Some(group) if group.stage == Stage::Written && group.had_direct && group.direct_left == 0 => {
                group.stage = Stage::Flushing;
                true
            }
            _ => false,
        }
    }

    /// The group is done, if it is: those who waited for it may be told.
    pub(crate) fn finish(&mut self, flushed: bool) -> Vec<Waiting> {
        let done = |group: &mut Group| flushed || (group.stage == Stage::Written && !group.had_direct);
        match self.group.take_if(done) {
            Some(group) => {
                self.durable = group.sequence;
                group.waiting
            }
            None => Vec::new(),
        }
    }

    /// The device has failed: everybody who waits.
    pub(crate) fn abandon(&mut self) -> Vec<Waiting> {
        let group = self.group.take().map(|group| group.waiting).unwrap_or_default();
        group.into_iter().chain(core::mem::take(&mut self.building.waiting)).collect()
    }
}
