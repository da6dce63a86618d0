//! One object, a store, and somebody who calls methods on it.

use crate::ops::execution::{Caller, Circumstances, Request, Watching};
use crate::ops::snaps::Snaps;
use crate::ops::state::{INFO_ATTR, ObjectState};
use crate::ops::tuning::Tuning;
use crate::ops::{OpClass, Outcome, execute, plan};
use crate::watch::LiveWatches;
use base::{EVersion, Epoch, Errno, GlobalId, Instant, PgId, PoolId, SnapId};
use bytes::Bytes;
use store::{
    AttrsWant, CollectionId, MemoryStore, ObjectId, ObjectView, ObjectWant, ReadRequest, ReadResult, ReadWhat,
    Transaction,
};
use wire::osd::{OpCode, OpParams, OsdOpItem};
use wire::types::{EntityAddr, EntityName, UTime};
use wire::{Encode, Encoder};

const PG: CollectionId = CollectionId::Pg(PgId { pool: PoolId(1), seed: 0 });

pub(super) struct Bench {
    store: MemoryStore,
    object: ObjectId,
    version: u64,
    /// How often the last compound asked the store beyond its plan.
    pub(super) asked: usize,
    /// The time of the next call, in seconds.
    pub(super) now_secs: u64,
    /// The number of the client that makes the next call.
    pub(super) client: u64,
}

impl Bench {
    pub(super) fn new() -> Bench {
        let mut store = MemoryStore::new();
        store.commit(&Transaction::create(PG)).expect("new");
        let object = ObjectId::new(9, b"", b"", b"object", SnapId::HEAD);
        Bench { store, object, version: 0, asked: 0, now_secs: 1000, client: 4100 }
    }

    fn view(&self, want: ObjectWant) -> Box<ObjectView> {
        let request = ReadRequest { collection: PG, what: ReadWhat::Object(self.object.clone(), want) };
        match self.store.read(&request) {
            Ok(ReadResult::Object(view)) => view,
            other => panic!("{other:?}"),
        }
    }

    fn state(&self) -> ObjectState {
        let want = ObjectWant { attrs: AttrsWant::Named(vec![INFO_ATTR]), ..Default::default() };
        ObjectState::of(&self.view(want)).expect("our own record")
    }

    pub(super) fn exists(&self) -> bool {
        self.state().exists
    }

    /// Runs a compound until it asks nothing more, and commits what it changes.
    pub(super) fn run(&mut self, ops: &[OsdOpItem]) -> Result<Outcome, Errno> {
        let plan = plan(ops, &Tuning::default())?;
        let state = self.state();
        let view = (plan.class != OpClass::Write).then(|| self.view(plan.want));
        let addr = EntityAddr::msgr2("127.0.0.1:0".parse().expect("an address"), 77);
        let circumstances = Circumstances {
            caller: Caller { name: EntityName::client(GlobalId(self.client)), addr, own: false },
            now: Instant(self.now_secs * 1_000_000_000),
            last_user_version: self.version,
            tuning: Default::default(),
        };
        let live = LiveWatches::default();
        let watching = Watching { object: &self.object, live: &live, next_notification: 0, timeout_s: 30 };
        let (context, removed) = Default::default();
        let mut answers = Vec::new();
        let mut outcome = loop {
            let request = Request {
                ops,
                state: state.clone(),
                view: view.as_deref(),
                answers: &answers,
                copied: None,
                mtime: UTime { secs: 77, nanos: 0 },
                circumstances,
                returns_outputs: true,
                watching,
                snaps: Snaps::of_head(&context, &removed),
            };
            match execute(&request) {
                Ok(outcome) => break outcome,
                Err(ask) => answers.push(*self.view(ask.want)),
            }
        };
        self.asked = answers.len();
        if outcome.is_change() {
            self.version += 1;
            outcome.seal(EVersion::new(Epoch(2), self.version), self.version);
            let mut t = Transaction::new(PG);
            outcome.changes.iter().for_each(|op| t.push(&self.object, op.clone()));
            self.store.commit(&t).expect("valid");
        }
        Ok(outcome)
    }

    /// Calls a method: its output, or its errno negated.
    pub(super) fn call(&mut self, class: &str, method: &str, input: impl Into<Bytes>) -> Result<Bytes, i32> {
        match self.run(&[call(class, method, input)]) {
            Err(errno) => Err(errno.code()),
            Ok(outcome) if outcome.result < 0 => Err(outcome.result),
            Ok(outcome) => Ok(outcome.ops[0].item.payload.clone()),
        }
    }

    /// Creates the object.
    pub(super) fn create(&mut self) {
        self.run(&[OsdOpItem::new(OpCode::CREATE)]).expect("one op");
    }
}

/// An op that calls a method.
pub(super) fn call(class: &str, method: &str, input: impl Into<Bytes>) -> OsdOpItem {
    let input = input.into();
    let params = OpParams::Call {
        class_len: class.len() as u8,
        method_len: method.len() as u8,
        argc: 0,
        input_len: input.len() as u32,
    };
    let payload = [class.as_bytes(), method.as_bytes(), &input].concat();
    OsdOpItem::new(OpCode::CALL).with_params(params).with_payload(payload)
}

/// An input in an envelope of version 1.
pub(super) fn enveloped(body: impl FnOnce(&mut Encoder)) -> Bytes {
    let mut e = Encoder::new();
    e.versioned(1, 1, body);
    e.finish()
}

/// A text as it travels.
pub(super) fn text(text: &str) -> Bytes {
    text.to_bytes()
}

pub(super) fn no(errno: Errno) -> Result<Bytes, i32> {
    Err(errno.code())
}

pub(super) fn nothing() -> Result<Bytes, i32> {
    Ok(Bytes::new())
}
