//! Watches of a PG on its primary: effects carried out, alarms set, what is over removed from the records.
//!
//! Owns the way from `watch::LiveWatches` to sessions, timers and writes. A watch whose time is over, or whose client
//! is shut out, ends by a request that this OSD asks of itself: it waits its turn on the object, and its change is
//! replicated and logged as any other (Ceph v16.2 `src/osd/PrimaryLogPG.cc`, `handle_watch_timeout`).

use super::Pg;
use super::client_io::ClientRequest;
use crate::core::Core;
use crate::counters::Stamps;
use crate::ops::execution::{self, Circumstances, Watching};
use crate::ops::state::ObjectState;
use crate::ops::watch::EXPIRE;
use crate::osd::Osd;
use crate::session::Share;
use crate::watch::live::{Caller, Sends, Watched};
use crate::watch::{Effect, WatchName};
use base::{Epoch, PgId};
use bytes::Bytes;
use qos::GroupId;
use store::ObjectId;
use wire::messages::OsdOp;
use wire::net::{ConnId, Envelope};
use wire::osd::{ObjectLocator, OpCode, OpParams, OsdOpItem, OsdReqId, SpgId};
use wire::types::{EntityAddr, EntityName};

/// The session of requests that this OSD asks of itself: none has this number.
pub(super) const OWN_CONN: ConnId = ConnId(0);

impl Osd {
    /// Lets the PGs whose alarm has gone off look at their watches.
    pub(crate) fn ring_alarms(&mut self) {
        while let Some((at, id)) = self.core.alarms.first().copied()
            && at <= self.core.now
        {
            self.core.alarms.pop_first();
            if let Some(pg) = self.pgs.get_mut(&id) {
                pg.watch_alarm(&mut self.core);
            }
        }
    }

    /// The blocklist has changed.
    pub(crate) fn end_watches_of_shut_out(&mut self) {
        let mut watched: Vec<PgId> = self.pgs.values().filter(|pg| !pg.watches.is_empty()).map(|pg| pg.id).collect();
        watched.sort_unstable();
        for id in watched {
            if let Some(pg) = self.pgs.get_mut(&id) {
                pg.end_shut_out(&mut self.core);
            }
        }
    }
}

impl Pg {
    /// What a request on `object` may know of watches.
    pub(super) fn watching<'a>(&'a self, core: &Core, object: &'a ObjectId) -> Watching<'a> {
        let next_notification = core.next_notification();
        Watching { object, live: &self.watches, next_notification, timeout_s: core.watch_timeout_s }
    }

    /// Whether the client has been shut out since it asked.
    pub(super) fn is_shut_out(&self, core: &Core, request: &ClientRequest) -> bool {
        !request.circumstances.caller.own && core.map.is_blocklisted(&request.circumstances.caller.addr)
    }

    /// The state of an object has become known: so have its watchers.
    pub(super) fn load_watches(&mut self, core: &mut Core, object: &ObjectId, state: &ObjectState) {
        if let Some(watchers) = &state.info.watchers {
            self.watches.load(core.now, object, watchers);
            self.end_shut_out(core);
            self.set_alarm(core);
        }
    }

    /// Takes the numbers that an executed request has given to its notifications: a write's go out when it is durable, and
    /// what is executed meanwhile needs others (Ceph v16.2 `src/osd/PrimaryLogPG.cc`, `do_osd_ops`: `get_next_id`).
    pub(super) fn take_numbers(core: &mut Core, effects: &[Effect]) {
        let taken = effects.iter().filter(|effect| matches!(effect, Effect::Notify { .. })).count();
        core.notifications = core.notifications.wrapping_add(taken as u32);
    }

    /// Does what a request wants done about watches.
    pub(super) fn carry_out(&mut self, core: &mut Core, request: &ClientRequest, version: u64, effects: Vec<Effect>) {
        if effects.is_empty() {
            return;
        }
        let caller = Caller { conn: request.conn, entity: request.circumstances.caller.name };
        let mut out = Sends::new();
        for effect in effects {
            if matches!(effect, Effect::Notify { .. } | Effect::Connect { .. })
                && let Some(session) = core.sessions.get_mut(request.conn)
            {
                session.watching.insert(self.id);
            }
            self.watches.apply(core.now, &request.object, caller, version, effect, &mut out);
        }
        if !request.circumstances.caller.own && core.sessions.get(request.conn).is_none() {
            self.watches.session_closed(core.now, request.conn);
        }
        self.send_all(core, out);
        self.set_alarm(core);
    }

    fn send_all(&self, core: &mut Core, out: Sends) {
        for (conn, message) in out {
            core.send(conn, Envelope::new(message));
        }
    }

    /// A session that watched or notified here is over.
    pub(crate) fn session_closed(&mut self, core: &mut Core, conn: ConnId) {
        self.watches.session_closed(core.now, conn);
        self.set_alarm(core);
    }

    fn watch_alarm(&mut self, core: &mut Core) {
        self.alarm = None;
        let mut out = Sends::new();
        let over = self.watches.expire(core.now, &mut out);
        self.send_all(core, out);
        self.end_watches(core, over);
        self.set_alarm(core);
    }

    fn end_shut_out(&mut self, core: &mut Core) {
        let map = std::sync::Arc::clone(&core.map);
        let over = self.watches.shut_out(|addr: &EntityAddr| map.is_blocklisted(addr));
        self.end_watches(core, over);
    }

    /// Asks itself to remove watches from their records.
    fn end_watches(&mut self, core: &mut Core, over: Vec<Watched>) {
        for (object, watch) in over {
            let request = self.own_request(core, object, watch);
            self.handle_request(core, request);
        }
    }

    fn own_request(&self, core: &mut Core, object: ObjectId, watch: WatchName) -> Box<ClientRequest> {
        let params = OpParams::Watch { cookie: watch.cookie, version: 0, op: EXPIRE, generation: 0, timeout_s: 0 };
        let ops = vec![OsdOpItem::new(OpCode::WATCH).with_params(params)];
        let plan = crate::ops::plan(&ops, &core.tuning).expect("one op is not too many");
        let locator = ObjectLocator {
            nspace: Bytes::copy_from_slice(object.namespace()),
            key: Bytes::copy_from_slice(object.key()),
            ..ObjectLocator::new(self.id.pool)
        };
        let name = Bytes::copy_from_slice(object.name());
        let mut message = Box::new(OsdOp::new(SpgId::replicated(self.id), object.hash(), locator, name, ops));
        message.map_epoch = core.epoch();
        core.own_requests += 1;
        core.sessions.admit_own();
        // The epoch tells this life's requests from an earlier one's.
        let inc = core.epoch().0 as i32;
        Box::new(ClientRequest {
            conn: OWN_CONN,
            tid: core.own_requests,
            reqid: OsdReqId { name: EntityName::osd(core.me()), tid: core.own_requests, inc },
            copied: None,
            circumstances: Circumstances {
                caller: execution::Caller { name: watch.entity, addr: EntityAddr::default(), own: true },
                now: core.now,
                last_user_version: 0,
                tuning: core.tuning,
            },
            message,
            object,
            plan,
            view: None,
            answers: Vec::new(),
            trims: None,
            mended: false,
            bytes: 0,
            tenant: GroupId::NONE,
            share: Share::none(),
            interval: Epoch(0),
            stamps: Stamps::at(core.now),
        })
    }

    /// Makes the OSD's alarm agree with what the watches want.
    fn set_alarm(&mut self, core: &mut Core) {
        let wanted = self.watches.next_alarm();
        if wanted == self.alarm {
            return;
        }
        if let Some(old) = core::mem::replace(&mut self.alarm, wanted) {
            core.alarms.remove(&(old, self.id));
        }
        if let Some(at) = wanted {
            core.alarms.insert((at, self.id));
        }
    }

    /// The interval is over: clients will begin anew.
    pub(crate) fn forget_watches(&mut self, core: &mut Core) {
        self.watches.clear();
        self.set_alarm(core);
    }
}
