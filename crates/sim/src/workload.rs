//! What clients do all day: write, append, create, remove and read a few shared objects, and remember every word.
//!
//! Each write carries its token three times in one request: as data, as an attribute and in the omap. A read asks for
//! all three at once, so that a request applied by half shows at once.

use crate::check::history::{Entry, History};
use crate::check::linear::{Answer, Ask};
use crate::options::Options;
use crate::spells::Spells;
use crate::value;
use base::{Bug, Duration, Errno, PoolId, Rng, SnapId};
use client::{Completion, Failure, OpId, Reply, Request, Target};
use std::collections::{BTreeMap, BTreeSet};
use wire::Decode;
use wire::osd::RequestFlags;
use wire::osd::payload::{KeySet, KeyValues};

/// The clients' work and its record.
#[derive(Debug)]
pub(crate) struct Workload {
    pub(crate) history: History,
    pub(crate) complaints: Vec<String>,
    rng: Rng,
    objects: u32,
    spells: Spells,
    /// Whether every second write is tried where there is no room.
    try_full: bool,
    last_id: u64,
    last_token: u64,
    pending: BTreeMap<OpId, Pending>,
    /// Objects that the final reads found.
    found: BTreeSet<u32>,
    /// What each object's last read saw, for a planted bug.
    seen: BTreeMap<u32, Answer>,
}

/// One in how many requests a planted bug strikes.
const PLANTED_ONE_IN: u64 = 50;

/// A request under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Pending {
    entry: Entry,
    object: u32,
    ask: Ask,
    /// Which of the client's slots waits for it.
    pub(crate) slot: u32,
    /// Whether it is to be tried where there is no room (`FULL_TRY`).
    tries: bool,
    /// At which snapshot it reads.
    snap: SnapId,
    /// Whether that snapshot may be gone.
    void: bool,
}

/// After how long a patient client gives up: longer than most outages, so that most outcomes are known.
const PATIENCE: Duration = Duration::from_secs(30);
/// After how long one does who only reads: an OSD that cannot be reached does not keep it from asking another.
const READER_PATIENCE: Duration = Duration::from_millis(300);
/// After how long an impatient one does, at most, and how many there are among how many.
const IMPATIENCE_MS: u64 = 3000;
const IMPATIENT: (u64, u64) = (1, 8);

/// Marks the second of two requests where there should be one.
const SECOND: u64 = 1 << 62;

/// The slot of reads that clients make beside their work.
pub(crate) const LOOK: u32 = u32::MAX - 1;
/// The slot of the final reads.
const FINAL: u32 = u32::MAX;

impl Workload {
    pub(crate) fn new(options: &Options, rng: Rng) -> Workload {
        Workload {
            history: History::default(),
            complaints: Vec::new(),
            rng,
            objects: options.objects,
            spells: Spells::new(options.seed, options.objects, options.spell),
            try_full: options.full_disks,
            last_id: 0,
            last_token: 0,
            pending: BTreeMap::new(),
            found: BTreeSet::new(),
            seen: BTreeMap::new(),
        }
    }

    /// An object's name.
    pub(crate) fn name(object: u32) -> String {
        format!("object.{object}")
    }

    /// How many requests are under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// The next request of a slot, by chance; of one who only reads, or of one who does everything.
    pub(crate) fn next(&mut self, pool: PoolId, slot: u32, reads_only: bool) -> (OpId, Request) {
        let object = self.rng.below(u64::from(self.objects)) as u32;
        let ask = match self.rng.below(100) {
            _ if reads_only => Ask::Read,
            0..40 => Ask::Read,
            40..70 => Ask::Append(self.token()),
            70..88 => Ask::Write(self.token()),
            88..94 => Ask::Create(self.token()),
            _ => Ask::Delete,
        };
        let object = if ask == Ask::Read { object } else { self.spells.written(object) };
        let (id, request) = self.begin(pool, object, ask, slot);
        let impatient = self.rng.chance(IMPATIENT.0, IMPATIENT.1);
        // Any member may answer some of the reads.
        let request = match ask {
            Ask::Read if self.rng.chance(1, 2) => request.with_flags(RequestFlags::BALANCE_READS),
            _ => request,
        };
        let request = if self.pending[&id].tries { request.with_flags(RequestFlags::FULL_TRY) } else { request };
        let patience = match impatient {
            _ if reads_only => READER_PATIENCE,
            true => Duration::from_millis(self.rng.below(IMPATIENCE_MS)),
            false => PATIENCE,
        };
        (id, request.within(patience))
    }

    /// A read of `object` that waits as long as it takes.
    pub(crate) fn final_read(&mut self, pool: PoolId, object: u32) -> (OpId, Request) {
        self.begin(pool, object, Ask::Read, FINAL)
    }

    /// Lets a read read at a snapshot that was asked for at that time.
    pub(crate) fn at_snapshot(&mut self, id: OpId, request: Request, snap: SnapId, since: u64) -> Request {
        let pending = self.pending.get_mut(&id).filter(|pending| pending.ask == Ask::Read);
        let Some(pending) = pending else { return request };
        pending.snap = snap;
        self.history.may_be_as_old_as(pending.entry, since);
        Request { snap, ..request }
    }

    /// Of what the pending reads at a snapshot come to nothing is demanded from now on, except at these.
    pub(crate) fn forget_snapshots(&mut self, readable: &[(SnapId, u64)]) {
        for pending in self.pending.values_mut() {
            pending.void |= pending.snap != SnapId::HEAD && !readable.iter().any(|(snap, _)| *snap == pending.snap);
        }
    }

    /// What final reads found before does not count any more.
    pub(crate) fn look_anew(&mut self) {
        self.found.clear();
    }

    /// The names of the objects that the final reads found.
    pub(crate) fn found(&self) -> BTreeSet<String> {
        self.found.iter().map(|&object| Self::name(object)).collect()
    }

    /// Records an end; says whose it was.
    pub(crate) fn end(&mut self, completion: Completion) -> Option<Pending> {
        let pending = self.pending.remove(&completion.id)?;
        match completion.result {
            Err(Failure::TimedOut) => {}
            Ok(_) if pending.void => {}
            Err(Failure::Refused(_)) => self.history.refused(pending.entry),
            // Where a disk is full, who says that it tries anyway is told.
            Ok(reply) if pending.tries && reply.errno() == Some(Errno::ENOSPC) => self.history.refused(pending.entry),
            Ok(reply) => match understand(pending.ask, &reply) {
                Ok(answer) => {
                    let answer = self.maybe_stale(pending, answer);
                    if pending.slot == FINAL && pending.snap == SnapId::HEAD && matches!(answer, Answer::Value(_)) {
                        self.found.insert(pending.object);
                    }
                    self.history.answered(pending.entry, answer);
                }
                Err(why) => {
                    let (object, ask) = (Self::name(pending.object), pending.ask);
                    self.complaints.push(format!("{object}: {ask:?} was answered oddly: {why}"));
                }
            },
        }
        Some(pending)
    }

    /// Whether a planted bug strikes now.
    fn strikes(&mut self, bug: Bug) -> bool {
        bug.is_planted() && self.rng.chance(1, PLANTED_ONE_IN)
    }

    /// Whether a planted bug keeps a request from being sent; it is recorded as done.
    pub(crate) fn loses(&mut self, id: OpId) -> bool {
        let Some(pending) = self.pending.get(&id).copied() else { return false };
        let lost = matches!(pending.ask, Ask::Write(_) | Ask::Append(_)) && self.strikes(Bug::LostWrites);
        if lost {
            self.pending.remove(&id);
            self.history.answered(pending.entry, Answer::Done);
        }
        lost
    }

    /// Whether a planted bug sends a request twice; then the second one's id.
    pub(crate) fn doubles(&mut self, id: OpId) -> Option<OpId> {
        let append = matches!(self.pending.get(&id)?.ask, Ask::Append(_));
        (append && self.strikes(Bug::DoubleAppends)).then_some(OpId(id.0 | SECOND))
    }

    fn maybe_stale(&mut self, pending: Pending, answer: Answer) -> Answer {
        if !Bug::StaleReads.is_planted() || pending.ask != Ask::Read || pending.snap != SnapId::HEAD {
            return answer;
        }
        match self.seen.insert(pending.object, answer.clone()) {
            Some(old) if self.strikes(Bug::StaleReads) => old,
            _ => answer,
        }
    }

    /// A pause of this mean: anything from none to twice as long.
    pub(crate) fn pause(&mut self, mean: Duration) -> Duration {
        let nanos = u64::try_from(mean.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.rng.below(nanos.saturating_mul(2).max(1)))
    }

    fn token(&mut self) -> u64 {
        self.last_token += 1;
        self.last_token
    }

    /// Records a request and makes it.
    pub(crate) fn begin(&mut self, pool: PoolId, object: u32, ask: Ask, slot: u32) -> (OpId, Request) {
        self.last_id += 1;
        let id = OpId(self.last_id);
        let entry = self.history.asked(object, ask);
        let tries = self.try_full && ask != Ask::Read && id.0.is_multiple_of(2);
        self.pending.insert(id, Pending { entry, object, ask, slot, tries, snap: SnapId::HEAD, void: false });
        (id, request(pool, object, ask))
    }
}

/// What is asked, as a client asks it.
pub(crate) fn request(pool: PoolId, object: u32, ask: Ask) -> Request {
    let bare = Request::new(Target::object(pool, Workload::name(object)));
    let sign = |request: Request, token: u64| {
        let token = token.to_le_bytes();
        let pair = KeyValues::from([(value::LAST.into(), token.to_vec().into())]);
        request.set_xattr(value::LAST, &token).omap_set(&pair)
    };
    match ask {
        Ask::Read => {
            let keys = KeySet::from([value::LAST.into()]);
            bare.read(0, 0).xattr(value::LAST).omap_values_of(&keys)
        }
        Ask::Write(token) => sign(bare.write_full(value::encode(token)), token),
        Ask::Append(token) => sign(bare.append(value::encode(token)), token),
        Ask::Create(token) => sign(bare.create(true).write_full(value::encode(token)), token),
        Ask::Delete => bare.delete(),
    }
}

/// What an OSD's answer means, or what is wrong with it.
fn understand(ask: Ask, reply: &Reply) -> Result<Answer, String> {
    match (ask, reply.errno()) {
        (Ask::Read, None) => read_value(reply).map(Answer::Value),
        (_, None) => Ok(Answer::Done),
        (Ask::Read | Ask::Delete, Some(Errno::ENOENT)) => Ok(Answer::NotFound),
        (Ask::Create(_), Some(Errno::EEXIST)) => Ok(Answer::Exists),
        (_, Some(errno)) => Err(format!("{errno:?}")),
    }
}

fn read_value(reply: &Reply) -> Result<Vec<u64>, String> {
    let tokens = value::decode(&reply.output(0))?;
    let attribute = reply.output(1);
    let omap = KeyValues::from_bytes(&reply.output(2)).map_err(|e| e.to_string())?;
    let last = tokens.last().map(|token| token.to_le_bytes().to_vec()).unwrap_or_default();
    if attribute != last || omap.get(value::LAST).is_none_or(|value| *value != last) {
        return Err(format!("data ends with {last:?}, the attribute is {attribute:?}, the omap {omap:?}"));
    }
    Ok(tokens)
}
