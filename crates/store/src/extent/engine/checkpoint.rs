//! A checkpoint: what the log holds becomes part of the tree, so that the log may be used again.
//!
//! Owns its course. The active layer is frozen at the end of a record; then, in small steps between which commits go
//! on, data that so far is only in the log is written to its place, the changes are merged into a new tree, the pages
//! of the bitmap that changed are written, everything is flushed, and the superblock of the next generation makes it
//! count. Nothing that the last superblock leads to is overwritten before that.
//!
//! While commits go on it is spread over them: it writes as the log grows, so that it ends when a part of the way to the
//! next one is gone (as PostgreSQL spreads its checkpoints, `checkpoint_completion_target`). Else all of it would stand
//! before the records that commits wait for, and take a slow disk's time from whose turn it is.
//!
//! Invariant: at most one checkpoint at a time, and at most `WRITES_MAX` of its writes on their way.

use crate::extent::layout::BlockRun;
use crate::extent::state::db::Db;
use crate::extent::superblock::LogPoint;
use crate::extent::tree::Fault;
use crate::extent::tree::merge::Merge;
use crate::extent::tree::page::PagePtr;
use bytes::Bytes;

/// Writes on their way at once: enough to keep a device busy, few enough that a commit's record is not far behind.
const WRITES_MAX: usize = 4;

/// Leaves merged in one step.
const LEAVES_A_STEP: usize = 8;

/// It may be ahead of its way by this part of what it writes: some writes together cost less than as many one by one.
const AHEAD_PART: u64 = 8;

/// How fast a checkpoint writes while commits go on. Bytes.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Pace {
    /// It has ended when the log has grown by so much; 0 for as fast as it can.
    pub(crate) way: u64,
    /// What it writes, as far as is known.
    pub(crate) expected: u64,
}

/// What a checkpoint wants from its engine.
#[derive(Debug)]
pub(crate) enum Want {
    /// A write of these pieces to this block and those after it.
    Write(u64, Vec<Bytes>),
    /// To be asked again once something has ended.
    Wait,
    /// To be asked again after others had their turn.
    Again,
    /// A flush; every write has ended.
    Flush,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Data,
    Merge,
    Bitmap,
    Flush,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    phase: Phase,
    /// Its generation.
    pub(crate) generation: u64,
    /// The first record that it does not contain.
    pub(crate) point: LogPoint,
    /// The bytes of records before it.
    pub(crate) log_total: u64,
    /// The next number of an object or collection then.
    pub(crate) next_number: u64,
    merge: Merge,
    /// The tree, once it is made.
    pub(crate) root: Option<PagePtr>,
    /// Data below this block is written.
    next_block: u64,
    /// Writes on their way.
    pub(crate) writes: usize,
    pace: Pace,
    /// What it has written, in bytes.
    pub(crate) written: u64,
    /// What becomes free with it.
    pub(crate) freed: Vec<BlockRun>,
}

impl Checkpoint {
    /// Freezes the active layer. `point` is the end of the last record that it contains.
    pub(crate) fn begin(db: &mut Db, generation: u64, point: LogPoint, log_total: u64, pace: Pace) -> Checkpoint {
        debug_assert!(db.frozen.table.is_empty() && db.frozen.deferred.is_empty(), "one at a time");
        db.frozen = core::mem::take(&mut db.active);
        Checkpoint {
            phase: Phase::Data,
            generation,
            point,
            log_total,
            next_number: db.next_number,
            merge: Merge::new(db.root),
            root: None,
            next_block: 0,
            writes: 0,
            pace,
            written: 0,
            freed: Vec::new(),
        }
    }

    /// Whether it has done its part, where the log has come to `log_total` bytes.
    pub(crate) fn is_ahead(&self, log_total: u64) -> bool {
        let Pace { way, expected } = self.pace;
        let gone = log_total - self.log_total;
        gone < way && self.written > expected * gone / way + expected / AHEAD_PART
    }

    /// Goes on by a small step.
    pub(crate) fn step(&mut self, db: &mut Db) -> Result<Want, Fault> {
        loop {
            if self.writes >= WRITES_MAX {
                return Ok(Want::Wait);
            }
            if let Some((block, data)) = self.merge.writer.ready.pop() {
                return Ok(self.write(block, vec![data]));
            }
            match self.phase {
                Phase::Data => match self.next_data(db) {
                    Some((block, pieces)) => return Ok(self.write(block, pieces)),
                    None => self.phase = Phase::Merge,
                },
                Phase::Merge => {
                    if self.merge(db)? {
                        self.change_image(db)?;
                        self.phase = Phase::Bitmap;
                    } else if self.merge.writer.ready.is_empty() {
                        return Ok(Want::Again);
                    }
                }
                Phase::Bitmap => match db.space.next_page(self.generation) {
                    Some((block, page)) => return Ok(self.write(block, vec![Bytes::from_owner(page)])),
                    None => self.phase = Phase::Flush,
                },
                Phase::Flush if self.writes > 0 => return Ok(Want::Wait),
                Phase::Flush => return Ok(Want::Flush),
            }
        }
    }

    fn write(&mut self, block: u64, pieces: Vec<Bytes>) -> Want {
        self.writes += 1;
        self.written += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
        Want::Write(block, pieces)
    }

    /// The next data that has to go to its place: neighbours together.
    fn next_data(&mut self, db: &Db) -> Option<(u64, Vec<Bytes>)> {
        let (first, pieces) = db.frozen.waiting_from(self.next_block)?;
        self.next_block = first + pieces.len() as u64;
        Some((first, pieces))
    }

    /// Merges some leaves; true when all are in and written.
    fn merge(&mut self, db: &mut Db) -> Result<bool, Fault> {
        for _ in 0..LEAVES_A_STEP {
            if self.merge.step(db)? {
                self.root = self.merge.finish(db)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The bitmap as of the new tree.
    fn change_image(&mut self, db: &mut Db) -> Result<(), Fault> {
        let (given, freed) = (core::mem::take(&mut db.frozen.given), core::mem::take(&mut db.frozen.freed));
        let mut sound = given.iter().all(|run| db.space.image_insert(*run));
        sound &= self.merge.writer.pages.iter().all(|run| db.space.image_insert(*run));
        sound &= freed.iter().chain(&self.merge.replaced).all(|run| db.space.image_remove(*run));
        if !sound {
            return Err(wire::Malformed::new("extent store", "has blocks that belong to two places").into());
        }
        self.freed = freed;
        self.freed.append(&mut self.merge.replaced);
        Ok(())
    }
}
