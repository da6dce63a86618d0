//! Requests that wait for their PG: to be active, for the others' promises, over the end of an interval.

use super::ClientRequest;
use crate::core::Core;
use crate::pg::Pg;
use crate::pg::order::ObjectQueue;
use crate::requests::{hold_requests, leave_to_client, resume_requests};
use crate::session::Until;
use base::OsdId;
use std::sync::Arc;

impl Pg {
    /// The interval in which a request began is over. A primary still owes an answer; others leave that to the client.
    pub fn restart_request(&mut self, core: &mut Core, mut request: Box<ClientRequest>) {
        match crate::ops::plan_at(request.message.snap, &request.message.ops, &request.circumstances.tuning) {
            Ok(plan) if self.is_primary() && request.trims.is_none() && self.has_place_of(core, &request) => {
                request.begin_again(plan);
                self.handle_request(core, request);
            }
            _ => leave_to_client(core, &request),
        }
    }

    /// Takes back every request that is not answered, in order, to be started again when the PG is active.
    pub fn requeue_requests(&mut self, core: &mut Core) {
        let mut all = Vec::new();
        for write in self.in_flight.drain(..) {
            all.push(write.request);
            all.extend(write.again);
        }
        let held = |queue: ObjectQueue| queue.copied.into_iter().chain(queue.waiting);
        let mut queued: Vec<_> = self.objects.drain().flat_map(|(_, queue)| held(queue)).collect();
        // Requests of one session keep their order; the map of objects has none.
        queued.sort_by_key(|request| (request.conn, request.tid));
        all.extend(queued);
        all.extend(self.waiting.drain(..));
        // Those for objects that belong to another PG now are for their clients to send there.
        let (id, map) = (self.id, Arc::clone(&core.map));
        let gone = |request: &ClientRequest, core: &Core| {
            request.trims.is_some() || core.sessions.get(request.conn).is_none() || !has_place_of(&map, id, request)
        };
        for mut request in all {
            // What it wants from the store was taken when it started.
            match crate::ops::plan_at(request.message.snap, &request.message.ops, &request.circumstances.tuning) {
                Ok(plan) if !gone(&request, core) => {
                    request.begin_again(plan);
                    self.waiting.push_back(request);
                }
                _ => leave_to_client(core, &request),
            }
        }
    }

    fn has_place_of(&self, core: &Core, request: &ClientRequest) -> bool {
        has_place_of(&core.map, self.id, request)
    }

    /// Gives up the requests of a PG that this OSD no longer leads, and tells their clients of the new map.
    pub fn drop_requests(&mut self, core: &mut Core) {
        for request in core::mem::take(&mut self.waiting) {
            leave_to_client(core, &request);
        }
    }

    /// Asks the clients of requests that wait to hold them: the PG cannot serve before something outside changes.
    pub(in crate::pg) fn hold_waiting(&mut self, core: &mut Core) {
        for request in core::mem::take(&mut self.waiting) {
            hold_requests(core, request.conn, self.id, Until::Active);
            core.sessions.release(request.bytes);
        }
    }

    /// Whether every other member has promised not to go on without this one yet: then what it has is the newest.
    pub(in crate::pg) fn has_lease(&self, core: &Core) -> bool {
        self.other_members(core).all(|osd| core.heartbeats.has_lease(core.now, osd))
    }

    fn other_members(&self, core: &Core) -> impl Iterator<Item = OsdId> {
        let me = core.me();
        self.sets.acting.iter().copied().filter(move |osd| *osd != me && *osd != OsdId::NONE)
    }

    /// Whether a member does not promise that, so that requests wait (Ceph's `laggy`).
    pub(crate) fn is_laggy(&self, core: &Core) -> bool {
        self.is_active() && self.other_members(core).any(|osd| core.heartbeats.is_lease_overdue(core.now, osd))
    }

    /// A member has promised again after a while: starts what has waited for that.
    pub(crate) fn lease_renewed(&mut self, core: &mut Core) {
        if self.is_active() && self.has_lease(core) {
            resume_requests(core, self.id);
            self.start_waiting(core);
        }
    }

    /// Starts everything that waited for the PG.
    pub fn start_waiting(&mut self, core: &mut Core) {
        for request in core::mem::take(&mut self.waiting) {
            self.handle_request(core, request);
        }
    }
}

/// Whether the request's object belongs to this PG, by this map.
fn has_place_of(map: &maps::OsdMap, id: base::PgId, request: &ClientRequest) -> bool {
    let object = || map.pool(id.pool).map(|pool| pool.raw_pg_to_pg(base::PgId::new(id.pool, request.object.hash())));
    request.message.object.is_empty() || object() == Some(id)
}
