//! What a store promises: submissions with ids, completions later.
//!
//! The trait has no configuration, clock or logging inside. An implementation's completions come out of
//! `poll_completion` in any order between collections; commits of one collection complete in submission order.

use crate::read::{ReadRequest, ReadResult};
use crate::transaction::Transaction;
use base::Instant;
use bytes::Bytes;

/// Names one submitted transaction; the caller's choice, unique while in flight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CommitId(pub u64);

/// Names one submitted read; the caller's choice, unique while in flight.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReadId(pub u64);

/// Names data that is given ahead of its transaction; the caller's choice, used once as long as the store is open, and not
/// the highest, which is the store's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AheadId(pub u64);

/// Why a store did not do what it was asked, by blame.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StoreError {
    /// The caller named a collection that does not exist.
    #[error("misuse: no such collection")]
    NoCollection,
    /// The caller created a collection that exists.
    #[error("misuse: the collection exists")]
    CollectionExists,
    /// The caller went beyond `limits::OBJECT_BYTES_MAX`.
    #[error("misuse: beyond the largest object")]
    TooLarge,
    /// The caller submitted more than `limits::TRANSACTION_BYTES_MAX` at once.
    #[error("misuse: beyond the largest transaction")]
    TransactionTooLarge,
    /// The caller split or merged collections in a way that cannot be: a range with records, a collection twice.
    #[error("misuse: collections cannot be split or merged like that")]
    BadPart,
    /// There is no room for what is to be added. Removals are still carried out.
    #[error("refused: no space left")]
    NoSpace,
    /// The device failed; the store accepts nothing more.
    #[error("storage: the device failed")]
    Device,
    /// The device holds what no store of ours wrote.
    #[error("storage: corrupt: {0}")]
    Corrupt(#[from] wire::Malformed),
}

/// Something submitted has ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Completion {
    /// A transaction is durable, or was refused as a whole.
    Committed(CommitId, Result<(), StoreError>),
    /// A read is answered.
    Read(ReadId, Result<ReadResult, StoreError>),
    /// The transaction of this data may come: it will not have to wait for the data, or the data goes with it.
    Ahead(AheadId),
}

/// A store of objects.
pub trait ObjectStore {
    /// Takes a transaction. Reads submitted from now on see its effects; `Completion::Committed` says when it is
    /// durable. Its data is copied before this returns: nothing keeps the caller's buffers alive. One that fails because
    /// of what the device holds changes nothing, and all later ones of its collection fail, too, until the store is opened
    /// anew: what is durable of a collection is what was submitted up to some place.
    fn submit_commit(&mut self, now: Instant, id: CommitId, transaction: Transaction);

    /// Takes a read.
    fn submit_read(&mut self, now: Instant, id: ReadId, request: ReadRequest);

    /// Takes data that a transaction is going to write at `offset` of an object, so that large data is on its way before
    /// others share a commit with it; `Completion::Ahead` says when the transaction should come. Nothing is changed before
    /// that: it brings the data once more, and names this (`Transaction::push_ahead`). As with a commit, nothing keeps the
    /// caller's buffer alive.
    fn submit_ahead(&mut self, now: Instant, id: AheadId, offset: u64, data: Bytes);

    /// The transaction is not going to come. Completions of the data may still.
    fn forget_ahead(&mut self, id: AheadId);

    /// The next completion, if there is one.
    fn poll_completion(&mut self) -> Option<Completion>;
}
