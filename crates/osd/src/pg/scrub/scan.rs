//! Looking at what this holder has of a range of objects: on the primary for itself, on a member for its primary.
//!
//! One question to the store at a time, each a turn of the scheduler's (or none, where clients wait): the names, then
//! object by object its attributes, its data piece by piece and its map page by page. What the store cannot read is
//! shown as such.
//!
//! Invariant: nobody writes to the range meanwhile; the primary sees to that.

use super::shown::{Shown, ShownObjects, pack};
use crate::core::{Core, Level};
use crate::limits::{SCRUB_OBJECTS_MAX, SCRUB_OMAP_ENTRIES, SCRUB_STRIDE_BYTES};
use crate::pg::{Pg, PgRead};
use base::checksum::{CRC_SEED, crc32c};
use base::{Bug, Epoch, OsdId};
use bytes::Bytes;
use std::collections::VecDeque;
use store::{
    AttrsWant, Extent, ListWant, ObjectId, ObjectView, ObjectWant, OmapWant, ReadRequest, ReadResult, ReadWhat,
    StoreError,
};
use wire::messages::{PgScrub, PgScrubbed};
use wire::net::{ConnId, Envelope};
use wire::{Decode, Encoder};

/// A range that is being looked at.
#[derive(Debug)]
pub struct Scan {
    /// The session on which the primary waits for it; none if this OSD is the primary.
    asked_by: Option<ConnId>,
    peering: Epoch,
    /// The primary's number of the attempt.
    round: u32,
    /// Tells answers of the store for this scan from those for one before.
    number: u32,
    deep: bool,
    urgent: bool,
    /// Bytes of data that are read at once.
    stride: u64,
    /// The store has been asked and has not answered: a turn that an abandoned scan has left asks nothing twice.
    asked: bool,
    /// Where the next names are to be listed; none once all are.
    list_from: Option<Option<ObjectId>>,
    to: Option<ObjectId>,
    names: VecDeque<ObjectId>,
    object: Option<Reading>,
    shown: ShownObjects,
}

/// An object that is being read.
#[derive(Debug)]
struct Reading {
    shown: Option<Shown>,
    /// Only attributes are asked for: the rest could not be read.
    only_attrs: bool,
    data_read: u64,
    data_crc: u32,
    omap_after: Bytes,
    omap_crc: u32,
    omap_done: bool,
}

impl Reading {
    fn new(only_attrs: bool) -> Reading {
        Reading {
            shown: None,
            only_attrs,
            data_read: 0,
            data_crc: CRC_SEED,
            omap_after: Bytes::new(),
            omap_crc: CRC_SEED,
            omap_done: false,
        }
    }

    fn want(&self, deep: bool, stride: u64) -> ObjectWant {
        let first = self.shown.is_none();
        let reads = deep && !self.only_attrs;
        let entries = |entries| OmapWant::Range {
            after: self.omap_after.clone(),
            prefix: Bytes::new(),
            entries,
            bytes: SCRUB_STRIDE_BYTES,
            values: true,
        };
        let data = reads && self.shown.as_ref().is_none_or(|shown| self.data_read < shown.size);
        let omap = match (reads, self.only_attrs) {
            (true, _) if !self.omap_done => vec![entries(SCRUB_OMAP_ENTRIES)],
            (false, false) => vec![entries(1)],
            _ => Vec::new(),
        };
        ObjectWant {
            attrs: if first { AttrsWant::All } else { AttrsWant::None },
            data: if data { vec![Extent { offset: self.data_read, len: stride }] } else { Vec::new() },
            omap_header: first && !self.only_attrs,
            omap,
            uncached: true,
            ..ObjectWant::default()
        }
    }

    /// Takes what the store has told; true if that was all.
    fn take(&mut self, mut view: ObjectView, deep: bool) -> bool {
        if self.shown.is_none() {
            self.shown = Some(Shown { read_error: self.only_attrs, ..Shown::of(&view) });
            self.omap_crc = crc32c(self.omap_crc, &view.omap_header);
        }
        let Some(shown) = self.shown.as_mut().filter(|_| deep && !self.only_attrs) else { return true };
        if let Some(data) = view.data.pop() {
            self.data_crc = crc32c(self.data_crc, &data);
            // Shorter than it says it is: there is no more to come.
            self.data_read = if data.is_empty() { shown.size } else { self.data_read + data.len() as u64 };
        }
        if let Some(part) = view.omap.pop() {
            for (key, value) in &part.entries {
                let mut e = Encoder::new();
                e.blob(key);
                e.blob(value);
                self.omap_crc = crc32c(self.omap_crc, e.as_slice());
            }
            self.omap_after = part.entries.last().map_or(Bytes::new(), |(key, _)| key.clone());
            self.omap_done = !part.more;
        }
        let done = self.data_read >= shown.size && self.omap_done;
        if done {
            (shown.data_digest, shown.omap_digest) = (Some(self.data_crc), Some(self.omap_crc));
        }
        done
    }
}

/// What there is to do next.
enum Next {
    Read(ReadWhat),
    Done,
}

impl Scan {
    /// A scan of `from` up to, without, `to`, in the primary's attempt `round`.
    pub fn new(
        (peering, round): (Epoch, u32),
        from: Option<ObjectId>,
        to: Option<ObjectId>,
        deep: bool,
        urgent: bool,
    ) -> Scan {
        Scan {
            asked_by: None,
            peering,
            round,
            number: 0,
            deep,
            urgent,
            stride: SCRUB_STRIDE_BYTES,
            asked: false,
            list_from: Some(from),
            to,
            names: VecDeque::new(),
            object: None,
            shown: ShownObjects::new(),
        }
    }

    fn next(&mut self) -> Next {
        if self.object.is_none() && self.names.is_empty() {
            let Some(from) = self.list_from.clone() else { return Next::Done };
            return Next::Read(ReadWhat::List(ListWant { from, max: SCRUB_OBJECTS_MAX, attr: None }));
        }
        let object = self.object.get_or_insert_with(|| Reading::new(false));
        let id = self.names.front().expect("an object that is read has a name");
        Next::Read(ReadWhat::Object(id.clone(), object.want(self.deep, self.stride)))
    }

    /// Takes names. False if there are more than a range may have.
    fn take_names(&mut self, names: impl Iterator<Item = ObjectId>, next: Option<ObjectId>) -> bool {
        let (to, before) = (self.to.clone(), self.names.len());
        let inside = |id: &ObjectId| to.as_ref().is_none_or(|to| id < to);
        self.names.extend(names.filter(|id| inside(id) && id.is_clients()));
        self.list_from = next.filter(inside).map(Some);
        self.shown.len() + self.names.len() - before <= SCRUB_OBJECTS_MAX
    }

    fn take_object(&mut self, result: Result<ObjectView, StoreError>) {
        let Some(object) = &mut self.object else { return };
        let done = match result {
            // It is gone: somebody writes who should not, or the store has lost it since it was listed.
            Ok(view) if !view.exists => {
                object.shown = None;
                true
            }
            Ok(view) => object.take(view, self.deep),
            Err(_) if !object.only_attrs => {
                // What can be told without reading it.
                *object = Reading::new(true);
                false
            }
            Err(_) => {
                object.shown = Some(Shown { stat_error: true, ..Shown::default() });
                true
            }
        };
        if !done {
            return;
        }
        let (object, id) = (self.object.take(), self.names.pop_front());
        if let (Some(id), Some(shown)) = (id, object.and_then(|object| object.shown)) {
            self.shown.insert(id, shown);
        }
    }
}

impl Pg {
    /// The primary asks what is here of a range.
    pub fn handle_scrub(&mut self, core: &mut Core, conn: ConnId, from: OsdId, message: &PgScrub) {
        let follows =
            matches!(self.role, super::super::Role::Replica(primary, p) if primary == from && p == message.peering);
        let place = |place: &Option<Bytes>| place.as_ref().map(ObjectId::from_bytes).transpose();
        let (Ok(start), Ok(end), true) = (place(&message.from), place(&message.to), follows) else { return };
        let mut scan = Scan::new((message.peering, message.round), start, end, message.deep, message.urgent);
        scan.deep &= !Bug::DeepScrubShallow.is_planted();
        scan.asked_by = Some(conn);
        self.start_scan(core, scan);
    }

    /// Begins to look at a range; what was looked at before is forgotten.
    pub(super) fn start_scan(&mut self, core: &mut Core, scan: Scan) {
        self.scans += 1;
        self.scan = Some(Box::new(Scan { number: self.scans, ..scan }));
        self.go_on_scanning(core);
    }

    fn go_on_scanning(&mut self, core: &mut Core) {
        let Some(scan) = &mut self.scan else { return };
        // What the store has before it is worked on in its order: a client's small read waits for a large one.
        scan.stride = SCRUB_STRIDE_BYTES.min(core.store_meter.piece_bytes());
        match scan.next() {
            Next::Done => self.end_scan(core, true),
            Next::Read(_) if scan.urgent => self.scan_turn(core),
            Next::Read(what) => {
                let cost = if scan.deep && matches!(what, ReadWhat::Object(..)) { scan.stride } else { 0 };
                core.scrubs.want_turn(self.id, cost as usize);
            }
        }
    }

    /// A turn: asks the store the next question.
    pub fn scan_turn(&mut self, core: &mut Core) {
        let collection = self.collection();
        let Some(scan) = &mut self.scan else { return };
        if scan.asked {
            return;
        }
        if let Next::Read(what) = scan.next() {
            scan.asked = true;
            core.read(self.id, PgRead::Scan(scan.number), ReadRequest { collection, what });
        }
    }

    /// The store has told, or cannot.
    pub(in crate::pg) fn scan_read(&mut self, core: &mut Core, number: u32, result: Result<ReadResult, StoreError>) {
        let Some(scan) = self.scan.as_mut().filter(|scan| scan.number == number) else { return };
        scan.asked = false;
        match result {
            Ok(ReadResult::List { entries, next }) => {
                if !scan.take_names(entries.into_iter().map(|entry| entry.id), next) {
                    core.log(Level::Error, format!("pg {}: a range of a scrub has too many objects", self.id));
                    return self.end_scan(core, false);
                }
            }
            Ok(ReadResult::Object(view)) => scan.take_object(Ok(*view)),
            Err(error) if scan.object.is_some() => scan.take_object(Err(error)),
            _ => return self.end_scan(core, false),
        }
        self.go_on_scanning(core);
    }

    fn end_scan(&mut self, core: &mut Core, good: bool) {
        let Some(scan) = self.scan.take() else { return };
        let (peering, round) = (scan.peering, scan.round);
        match scan.asked_by {
            Some(conn) => {
                let objects = good.then(|| pack(&scan.shown));
                let message = PgScrubbed { pg: self.id, map_epoch: core.epoch(), peering, round, objects };
                core.send(conn, Envelope::new(message));
            }
            None => self.member_shows(core, core.me(), round, good.then_some(scan.shown)),
        }
    }
}
