//! What is looked at when everything has healed: every object once more, also by clients that have not followed what
//! happened, also at snapshots; then listings, copies, and what OSDs still have in hand.

use crate::check::{queues, replicas};
use crate::node::Node;
use crate::run::{HEAL_MAX, POOL_NAME, Run};
use base::{Duration, OsdId};
use client::{Failure, OpId, Reply, Request, Target};
use std::sync::Arc;
use store::ReadRequest;
use wire::Decode;
use wire::osd::HObject;
use wire::osd::payload::{ListEntry, ListReply};

/// Marks the requests that list placement groups.
const LISTING: u64 = 1 << 63;

impl Run {
    pub(crate) fn read_everything(&mut self) -> bool {
        self.work.look_anew();
        for object in 0..self.options.objects {
            let (id, request) = self.work.final_read(self.pool, object);
            self.submit(0, id, request);
        }
        if self.wait_for(HEAL_MAX, |run| run.work.in_flight() == 0) {
            return true;
        }
        let waiting = self.work.in_flight();
        self.fail(format!("{waiting} of {} objects cannot be read after everything healed", self.options.objects))
    }

    /// What snapshots have kept is there as well.
    pub(crate) fn read_snapshots(&mut self) -> bool {
        let pool = self.known_pool().filter(|_| self.options.snap_reads);
        let readable = pool.map_or(Vec::new(), |pool| self.snapshots.readable(&pool));
        for (snap, since) in readable {
            for object in 0..self.options.objects {
                let (id, request) = self.work.final_read(self.pool, object);
                let request = self.work.at_snapshot(id, request, snap, since);
                self.submit(0, id, request);
            }
        }
        if self.wait_for(HEAL_MAX, |run| run.work.in_flight() == 0) {
            return true;
        }
        let waiting = self.work.in_flight();
        self.fail(format!("{waiting} objects cannot be read at snapshots after everything healed"))
    }

    /// Who has not followed what happened must find its way as well.
    pub(crate) fn let_others_read(&mut self) -> bool {
        let others = if self.options.ask_once { 1..self.options.clients } else { 0..0 };
        for client in others {
            let (id, request) = self.work.final_read(self.pool, client % self.options.objects);
            self.submit(client as usize, id, request);
        }
        if self.wait_for(HEAL_MAX, |run| run.work.in_flight() == 0) {
            return true;
        }
        let waiting = self.work.in_flight();
        self.fail(format!("{waiting} clients that ask for maps once do not get on after everything healed"))
    }

    /// Removes every snapshot of the pool and waits until the monitor knows that nothing is left of them.
    pub(crate) fn remove_snapshots(&mut self) -> bool {
        let clean = |run: &mut Run| {
            run.map()
                .is_some_and(|map| map.removed_snaps_queue.is_empty() && map.pools.values().all(|p| p.snaps.is_empty()))
        };
        // Once more if a command from before, on its way for long, has made another.
        for _ in 0..3 {
            self.remove_known_snapshots();
            if self.wait_for(HEAL_MAX / 3, clean) {
                return true;
            }
        }
        let left =
            self.map().map(|map| (map.removed_snaps_queue.clone(), self.known_pool().map(|pool| pool.snaps.len())));
        self.fail(format!("removed snapshots are not trimmed after everything healed: {left:?}"))
    }

    fn remove_known_snapshots(&mut self) {
        while let Some(pool) = self.known_pool()
            && let Some((id, command)) = self.snapshots.removal(POOL_NAME, &pool)
        {
            let before = pool.snaps.len();
            self.command(id, command);
            let fewer = |run: &mut Run| run.known_pool().is_none_or(|pool| pool.snaps.len() < before);
            if !self.wait_for(Duration::from_secs(20), fewer) {
                break;
            }
        }
    }

    /// Lists every placement group: exactly the objects that reads find must be there. A request that nobody waits for any
    /// more may still be on its way when they are read, so they are read again where a listing says something else.
    pub(crate) fn list_everything(&mut self) {
        for pg in self.pgs() {
            let id = OpId(LISTING | u64::from(pg.seed));
            let request = Request::new(Target::pg(pg, "")).list(&HObject::MIN, 1000);
            self.listings.insert(id);
            self.submit(0, id, request);
        }
        if !self.wait_for(HEAL_MAX, |run| run.listings.is_empty()) {
            self.fail("listings do not end after everything healed".to_owned());
            return;
        }
        self.listed.sort();
        let (listed, before) = (self.listed.clone(), self.work.found());
        if listed.iter().eq(before.iter()) || !self.read_everything() {
            return;
        }
        let after = self.work.found();
        let is_between = |name: &String| before.contains(name) || after.contains(name);
        let lacks = before.intersection(&after).any(|name| !listed.contains(name));
        let twice = listed.windows(2).any(|pair| pair[0] == pair[1]);
        if lacks || twice || !listed.iter().all(is_between) {
            self.fail(format!("the listings name {listed:?}, reads found {before:?} before and {after:?} after them"));
        }
    }

    /// Waits until all members of every placement group hold the same.
    pub(crate) fn compare_copies(&mut self) {
        let mut wrong = None;
        self.wait_for(HEAL_MAX, |run| {
            let (map, pgs) = (Arc::clone(run.map().expect("the client has worked")), run.pgs());
            let (nodes, cluster) = (&mut run.world.nodes, &run.cluster);
            let mut read =
                |osd: OsdId, request: &ReadRequest| nodes[cluster.osd(osd.0.unsigned_abs()).0].disk.read(request)?.ok();
            wrong = pgs.into_iter().find_map(|pg| replicas::difference(&map, pg, &mut read));
            wrong.is_none()
        });
        if let Some(wrong) = wrong {
            self.fail(format!("{HEAL_MAX:?} after everything healed {wrong}"));
        }
    }

    /// What some OSD has in hand.
    pub(crate) fn left_in_hand(&self) -> Option<String> {
        let of = |node: &Node| Some(format!("{}: {}", node.name, queues::left(node.running.as_ref()?)?));
        self.world.nodes.iter().find_map(of)
    }

    /// Nobody waits for anything: OSDs must have nothing in hand.
    pub(crate) fn look_for_what_is_left(&mut self) {
        if !self.wait_for(HEAL_MAX, |run| run.left_in_hand().is_none()) {
            let left = self.left_in_hand();
            self.fail(format!("{HEAL_MAX:?} after everything healed and ended there is {left:?}"));
        }
    }

    pub(crate) fn take_listing(&mut self, result: Result<Reply, Failure>) {
        match result {
            Ok(reply) if reply.result >= 0 => match ListReply::from_bytes(&reply.output(0)) {
                Ok(page) => {
                    let name = |entry: ListEntry| String::from_utf8_lossy(&entry.name).into_owned();
                    self.listed.extend(page.entries.into_iter().map(name));
                }
                Err(error) => self.world.failures.push(format!("a listing is malformed: {error}")),
            },
            other => self.world.failures.push(format!("a listing failed: {other:?}")),
        }
    }
}
