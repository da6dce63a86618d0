//! A compound while it runs: what it has been given, what it has used of that, what it has changed so far.
//!
//! Owns the dispatch from op to function, and the questions that ops ask. An op that needs what was not read returns
//! `Stop::Ask` through `?`; the request runs again from the start once the answer is there. Execution is a pure
//! function, so the n-th question of a run is the n-th of every run, and the n-th answer is its.
//!
//! Invariant: nothing outside `Execution` is changed before the whole compound has succeeded.

use super::copy::{self, Copied};
use super::extents::Extents;
use super::snaps::Snaps;
use super::state::{ObjectInfo, ObjectState};
use super::tuning::Tuning;
use super::{calls, checksum, data, omap, snaps, tmap, watch, xattr};
use crate::class;
use crate::limits::{
    OMAP_BYTES_MAX, WHOLE_MAP_BYTES_PER_LOOKUP, WHOLE_MAP_ENTRIES_MAX, WHOLE_MAP_ENTRIES_PER_LOOKUP,
    WHOLE_MAP_LOOKUPS_MIN,
};
use crate::watch::{Effect, LiveWatches};
use base::{Errno, Instant, SnapId};
use bytes::Bytes;
use store::read::OmapPart;
use store::{Extent, ObjectId, ObjectView, ObjectWant, OmapWant, Op};
use wire::net::Peer;
use wire::osd::{OpCode, OpParams, OsdOpItem};
use wire::types::{EntityAddr, EntityName, UTime};

/// Who sent a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The name its messages carry.
    pub name: EntityName,
    /// Its address: as it says, but on the host that its stream comes from.
    pub addr: EntityAddr,
    /// Whether it is this OSD itself, in that one's name.
    pub own: bool,
}

impl Caller {
    /// The peer of a session.
    pub fn of(peer: &Peer) -> Caller {
        let mut addr = peer.addrs.0.first().copied().unwrap_or_default();
        if let Some(from) = peer.socket {
            let port = addr.socket.map_or(0, |named| named.port());
            addr.socket = Some(core::net::SocketAddr::new(from.ip(), port));
        }
        Caller { name: peer.name, addr, own: false }
    }
}

/// Under which circumstances a request runs: the same for all of its runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Circumstances {
    /// Who asks.
    pub caller: Caller,
    /// When it began.
    pub now: Instant,
    /// The newest version that a client has seen of any object of the PG.
    pub last_user_version: u64,
    /// The options as they were.
    pub tuning: Tuning,
}

/// A request that is ready to run.
#[derive(Debug)]
pub struct Request<'a> {
    /// The ops.
    pub ops: &'a [OsdOpItem],
    /// The object as the writes before this one leave it.
    pub state: ObjectState,
    /// The answer to the plan's `want`; none for a request of class `Write`.
    pub view: Option<&'a ObjectView>,
    /// The answers to what earlier runs asked, in order.
    pub answers: &'a [ObjectView],
    /// The client's time.
    pub mtime: UTime,
    /// What fetching its copy's source came to, once that is done.
    pub copied: Option<&'a Result<Copied, Errno>>,
    /// Who asks, and when.
    pub circumstances: Circumstances,
    /// Whether a write's outputs go back to the client.
    pub returns_outputs: bool,
    /// What is known of watches.
    pub watching: Watching<'a>,
    /// What it says and may know of snapshots.
    pub snaps: Snaps<'a>,
}

/// What ops may know of the PG's watches.
#[derive(Clone, Copy, Debug)]
pub struct Watching<'a> {
    /// The object.
    pub object: &'a ObjectId,
    /// What is alive.
    pub live: &'a LiveWatches,
    /// The number of the next notification.
    pub next_notification: u64,
    /// Seconds of silence after which a watch ends whose client does not say.
    pub timeout_s: u32,
}

/// What has to be read before a request can run on. Only requests that are planned as reading may ask.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Of what.
    pub of: AskOf,
    /// What.
    pub want: ObjectWant,
}

/// The object that a question concerns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskOf {
    /// The request's own object.
    Itself,
    /// Another of its lives: a clone.
    Life(SnapId),
    /// The source of the request's copy.
    Copy,
}

/// Why an op does not go on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It fails with this result, an errno negated or below.
    Fail(i32),
    /// It has to know this first.
    Ask(Box<Ask>),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Stop {
        Stop::Fail(errno.code())
    }
}

/// An op's output, or why there is none.
pub type Step = Result<Bytes, Stop>;

/// No output.
pub(super) const NOTHING: Step = Ok(Bytes::new());

pub(super) fn fail(errno: Errno) -> Step {
    Err(errno.into())
}

/// How much of the plan's answer has been used.
#[derive(Debug, Default)]
struct Taken {
    data: usize,
    allocated: usize,
    omap: usize,
    answers: usize,
}

/// A compound while it runs.
#[derive(Debug)]
pub struct Execution<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(super) view: &'a ObjectView,
    pub(crate) state: ObjectState,
    pub(super) changes: Vec<Op>,
    /// What the op before left: an op that does not set its result keeps it, as in Ceph.
    pub(crate) result: i32,
    /// What goes back to the client with an op that fails; of those only class methods have something to say.
    pub(crate) failed_output: Bytes,
    /// What an op gives out before that which is a buffer of its own.
    pub(super) output_lead: Bytes,
    /// The checksum of what an op gives out, the lead aside, where the store knows it.
    pub(super) output_sum: Option<u32>,
    /// How many ops have run, with those inside class methods.
    pub(crate) ops_done: u32,
    /// What is to be done about watches once the changes are durable.
    pub(super) effects: Vec<Effect>,
    /// The clone that the object becomes a copy of, before `changes`.
    pub(super) restored: Option<SnapId>,
    /// What was written or cut off, `changes` aside.
    pub(super) written: Extents,
    /// The object's size before `changes`.
    pub(super) start_size: u64,
    taken: Taken,
    whole_map: Option<Option<&'a OmapPart>>,
}

impl<'a> Execution<'a> {
    /// The options as they were when the request came.
    pub(super) fn tuning(&self) -> &Tuning {
        &self.request.circumstances.tuning
    }

    pub(super) fn new(request: &'a Request<'a>, view: &'a ObjectView) -> Execution<'a> {
        Execution {
            request,
            view,
            state: request.state.clone(),
            changes: Vec::new(),
            result: 0,
            failed_output: Bytes::new(),
            output_lead: Bytes::new(),
            output_sum: None,
            ops_done: 0,
            effects: Vec::new(),
            restored: None,
            written: Extents::default(),
            start_size: request.state.size,
            taken: Taken::default(),
            whole_map: None,
        }
    }

    /// The next of the data that the plan had read.
    pub(super) fn take_data(&mut self) -> Bytes {
        self.take_summed_data().0
    }

    /// The same with its checksum, where the store knows it.
    pub(super) fn take_summed_data(&mut self) -> (Bytes, Option<u32>) {
        self.taken.data += 1;
        let at = self.taken.data - 1;
        (self.view.data.get(at).cloned().unwrap_or_default(), self.view.sums.get(at).copied().flatten())
    }

    /// The next of the allocations that the plan had read.
    pub(super) fn take_allocated(&mut self) -> &'a [Extent] {
        self.taken.allocated += 1;
        self.view.allocated.get(self.taken.allocated - 1).map_or(&[], Vec::as_slice)
    }

    /// The next part of the map that the plan had read.
    pub(super) fn take_omap(&mut self) -> Option<&'a OmapPart> {
        self.taken.omap += 1;
        self.view.omap.get(self.taken.omap - 1)
    }

    /// What the store has of an object, asked for now; reads see it as it was before the request.
    pub(crate) fn ask(&mut self, of: AskOf, want: ObjectWant) -> Result<&'a ObjectView, Stop> {
        self.taken.answers += 1;
        let answer = self.request.answers.get(self.taken.answers - 1);
        answer.ok_or_else(|| Stop::Ask(Box::new(Ask { of, want })))
    }

    /// The object's map, where the request calls so many methods that it is read at once; none where it calls few, or
    /// where the map is large. Each question costs one more run of all calls before it: librbd, which asks for each
    /// snapshot of an image in one request, would pay the square of their number.
    pub(crate) fn whole_map(&mut self) -> Result<Option<&'a OmapPart>, Stop> {
        match self.whole_map {
            Some(known) => Ok(known),
            None => self.map_for(calls(self.request.ops) as u64),
        }
    }

    /// The object's map, if it was read at once.
    pub(crate) fn known_map(&self) -> Option<&'a OmapPart> {
        self.whole_map.flatten()
    }

    /// The object's map, for one who is about to look so many times: read at once if it is worth that.
    pub(crate) fn map_for(&mut self, lookups: u64) -> Result<Option<&'a OmapPart>, Stop> {
        let mut known = self.known_map();
        if known.is_none() && lookups >= WHOLE_MAP_LOOKUPS_MIN {
            let (after, prefix) = (Bytes::new(), Bytes::new());
            let entries = lookups.saturating_mul(WHOLE_MAP_ENTRIES_PER_LOOKUP).min(WHOLE_MAP_ENTRIES_MAX);
            let bytes = lookups.saturating_mul(WHOLE_MAP_BYTES_PER_LOOKUP).min(OMAP_BYTES_MAX);
            let all = OmapWant::Range { after, prefix, entries, bytes, values: true };
            let view = self.ask(AskOf::Itself, ObjectWant { omap: vec![all], ..ObjectWant::default() })?;
            known = view.omap.first().filter(|part| !part.more);
        }
        self.whole_map = Some(known);
        Ok(known)
    }

    pub(crate) fn step(&mut self, item: &OsdOpItem) -> Step {
        match item.op {
            OpCode::READ | OpCode::SYNC_READ => data::read(self, item),
            OpCode::SPARSE_READ => data::sparse_read(self, item),
            OpCode::MAPEXT => data::map_extents(self),
            OpCode::CMPEXT => data::compare_extent(self, item),
            OpCode::STAT => data::stat(self),
            OpCode::COPY_GET => copy::get(self, item),
            OpCode::COPY_FROM | OpCode::COPY_FROM2 => copy::from(self, item),
            OpCode::CHECKSUM => checksum::checksum(self, item),
            OpCode::ASSERT_VER => self.assert_version(item),
            OpCode::LIST_WATCHERS => watch::list(self),
            OpCode::NOTIFY => watch::notify(self, item),
            OpCode::NOTIFY_ACK => watch::acknowledge(self, item),
            OpCode::WATCH => watch::watch(self, item),
            OpCode::WRITE => data::write(self, item),
            OpCode::WRITEFULL => data::write_full(self, item),
            OpCode::WRITESAME => data::write_same(self, item),
            OpCode::APPEND => data::append(self, item),
            OpCode::ZERO => data::zero(self, item),
            OpCode::TRUNCATE | OpCode::TRIMTRUNC => data::truncate(self, item),
            OpCode::CREATE => data::create(self, item),
            OpCode::DELETE => data::delete(self),
            OpCode::ROLLBACK => snaps::roll_back(self, item),
            OpCode::LIST_SNAPS => snaps::list(self),
            OpCode::SETALLOCHINT => data::hint(self),
            OpCode::STARTSYNC => data::start_sync(self),
            OpCode::GETXATTR => xattr::get(self, item),
            OpCode::GETXATTRS => xattr::get_all(self),
            OpCode::CMPXATTR => xattr::compare(self, item),
            OpCode::SETXATTR => xattr::set(self, item),
            OpCode::RMXATTR => xattr::remove(self, item),
            OpCode::OMAPGETKEYS | OpCode::OMAPGETVALS => omap::get_page(self, item),
            OpCode::OMAPGETHEADER => omap::get_header(self),
            OpCode::OMAPGETVALSBYKEYS => omap::get_by_keys(self, item),
            OpCode::OMAP_CMP => omap::compare(self, item),
            OpCode::OMAPSETVALS => omap::set(self, item),
            OpCode::OMAPSETHEADER => omap::set_header(self, item),
            OpCode::OMAPRMKEYS => omap::remove_keys(self, item),
            OpCode::OMAPRMKEYRANGE => omap::remove_range(self, item),
            OpCode::OMAPCLEAR => omap::clear(self),
            OpCode::TMAPGET => tmap::get(self),
            OpCode::TMAPPUT => tmap::put(self, item),
            OpCode::TMAPUP => tmap::update(self, item),
            OpCode::TMAP2OMAP => tmap::to_omap(self, item),
            OpCode::CALL => class::call(self, item),
            _ => fail(Errno::EOPNOTSUPP),
        }
    }

    /// Adds what `changes` write to what was written.
    pub(super) fn note_written(&mut self) {
        self.written.union_with(&snaps::written(&self.changes, self.start_size));
    }

    /// Creates the object if it is missing.
    pub(super) fn ensure_exists(&mut self) {
        if !self.state.exists {
            self.state = ObjectState { exists: true, size: 0, info: ObjectInfo::default() };
            self.changes.push(Op::Touch);
        }
    }

    /// ENOENT if the object is missing.
    pub(crate) fn require_exists(&self) -> Result<(), Stop> {
        if self.state.exists { Ok(()) } else { Err(Errno::ENOENT.into()) }
    }

    fn assert_version(&mut self, item: &OsdOpItem) -> Step {
        let OpParams::AssertVer { version } = item.params() else { return fail(Errno::EINVAL) };
        match version.cmp(&self.state.info.user_version) {
            _ if version == 0 => fail(Errno::EINVAL),
            core::cmp::Ordering::Less => fail(Errno::ERANGE),
            core::cmp::Ordering::Greater => fail(Errno::EOVERFLOW),
            core::cmp::Ordering::Equal => NOTHING,
        }
    }
}
