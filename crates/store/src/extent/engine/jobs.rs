//! Reads on their way: pieces that come from the device, put together when the last has come.
//!
//! Owns the assembly of answers, and the check of every block's checksum. A range that came in one piece is answered
//! with a slice of the buffer it was read into, and whole blocks with their checksum.

use crate::contract::{Completion, ReadId, StoreError};
use crate::extent::layout::BLOCK;
use crate::extent::objects::view::{Answer, Piece};
use crate::read::ReadResult;
use base::checksum::{CRC_SEED, crc32c, joined};
use base::hash::FixedHashMap;
use bytes::{Bytes, BytesMut};
use wire::Malformed;

/// Names a piece of a read on its way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PieceId {
    job: u64,
    range: usize,
    piece: usize,
}

#[derive(Debug)]
struct Job {
    id: ReadId,
    result: Result<ReadResult, StoreError>,
    data: Vec<Vec<Piece>>,
    /// Whether what comes may be asked for again.
    keeps: bool,
    left: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    jobs: FixedHashMap<u64, Job>,
    next: u64,
}

/// What became of a piece.
#[derive(Debug)]
pub(crate) enum Came {
    /// It is right, and worth keeping.
    ToKeep(Bytes),
    /// It is right, or nobody waits for it any more.
    Good,
    /// It did not come, or is not what was written.
    Bad,
}

/// What a read needs: either nothing more, or these pieces.
pub(crate) enum Begun {
    /// It is answered.
    Done(Completion),
    /// These pieces have to come: which, the first block, how many.
    Wants(Vec<(PieceId, u64, usize)>),
}

impl Jobs {
    /// How many reads lack a piece.
    pub(crate) fn under_way(&self) -> usize {
        self.jobs.len()
    }

    /// Begins a read.
    pub(crate) fn begin(&mut self, id: ReadId, answer: Answer) -> Begun {
        self.next += 1;
        let mut wants = Vec::new();
        for (range, pieces) in answer.data.iter().enumerate() {
            for (piece, what) in pieces.iter().enumerate() {
                if let Piece::Stored { block, crcs, .. } = what {
                    wants.push((PieceId { job: self.next, range, piece }, *block, crcs.len()));
                }
            }
        }
        let job = Job { id, result: Ok(answer.result), data: answer.data, keeps: answer.keeps, left: wants.len() };
        if wants.is_empty() {
            return Begun::Done(finish(job));
        }
        self.jobs.insert(self.next, job);
        Begun::Wants(wants)
    }

    /// A piece has come, or has not: the answer, if it was the last, and whether the cache may have it.
    pub(crate) fn came(&mut self, id: PieceId, data: Result<Bytes, StoreError>) -> (Option<Completion>, Came) {
        let Some(job) = self.jobs.get_mut(&id.job) else { return (None, Came::Good) };
        let Piece::Stored { crcs, skip, len, .. } = &job.data[id.range][id.piece] else { return (None, Came::Good) };
        let came = match data.and_then(|data| check(&data, crcs).map(|()| data)) {
            Ok(data) => {
                let part = data.slice(*skip..*skip + *len);
                let sum = (part.len() == data.len()).then(|| sum_of(crcs));
                job.data[id.range][id.piece] = Piece::Ready { data: part, sum };
                if job.keeps { Came::ToKeep(data) } else { Came::Good }
            }
            Err(error) => {
                job.result = Err(error);
                Came::Bad
            }
        };
        job.left -= 1;
        let done = (job.left == 0).then(|| self.jobs.remove(&id.job)).flatten();
        (done.map(finish), came)
    }
}

/// Checks consecutive blocks.
pub(crate) fn check(data: &[u8], crcs: &[u32]) -> Result<(), StoreError> {
    let good = data.len() == crcs.len() * BLOCK as usize
        && data.chunks_exact(BLOCK as usize).zip(crcs).all(|(block, crc)| crc32c(CRC_SEED, block) == *crc);
    if good { Ok(()) } else { Err(Malformed::new("data", "does not match its checksum").into()) }
}

fn finish(job: Job) -> Completion {
    let result = job.result.map(|mut result| {
        if let ReadResult::Object(view) = &mut result {
            for ((data, sum), pieces) in view.data.iter_mut().zip(&mut view.sums).zip(job.data) {
                (*data, *sum) = join(pieces);
            }
        }
        result
    });
    Completion::Read(job.id, result)
}

/// A range from its pieces, and its checksum where each piece has one.
fn join(pieces: Vec<Piece>) -> (Bytes, Option<u32>) {
    let mut ready = pieces.into_iter().map(|piece| match piece {
        Piece::Ready { data, sum } => (data, sum),
        Piece::Stored { .. } => unreachable!("all pieces have come"),
    });
    let Some((first, mut sum)) = ready.next() else { return (Bytes::new(), None) };
    if ready.len() == 0 {
        return (first, sum);
    }
    let others: Vec<(Bytes, Option<u32>)> = ready.collect();
    let mut all = BytesMut::with_capacity(first.len() + others.iter().map(|(data, _)| data.len()).sum::<usize>());
    all.extend_from_slice(&first);
    for (data, next) in others {
        sum = sum.zip(next).map(|(sum, next)| joined(sum, next, data.len() / BLOCK as usize));
        all.extend_from_slice(&data);
    }
    (all.freeze(), sum)
}

/// The checksum of consecutive blocks, from theirs.
fn sum_of(crcs: &[u32]) -> u32 {
    crcs.iter().copied().reduce(|sum, crc| joined(sum, crc, 1)).unwrap_or(CRC_SEED)
}
