//! Pools changed by clients' messages: what librados' pool calls send.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`preprocess_pool_op`, `prepare_pool_op`). Read next: `pool_snaps`.

use crate::commands::NewPool;
use crate::mon::Mon;
use base::{Errno, Instant, PoolId, SnapId};
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::caps::mon::Rights;
use wire::caps::osd::OsdCap;
use wire::cephx::AuthName;
use wire::codec::Encode;
use wire::messages::{PaxosHead, PoolOp, PoolOpReply, pool_op};
use wire::net::{ConnId, Peer};

impl Mon {
    /// Takes a pool operation and answers it.
    pub(crate) fn pool_op(&mut self, now: Instant, conn: ConnId, tid: u64, m: &PoolOp) {
        self.urgent = true;
        let result = self.try_pool_op(now, conn, m);
        let (result, response) = result.map_or_else(|errno| (errno.code(), None), |response| (0, response));
        let reply = PoolOpReply {
            paxos: PaxosHead::new(u64::from(self.osds.epoch().0)),
            fsid: self.config.fsid,
            result,
            epoch: if self.osds.pending().is_some() { self.osds.next_epoch() } else { self.osds.epoch() },
            response,
        };
        self.reply(conn, tid, reply);
    }

    /// What the client gets back beside success: a snapshot's number.
    fn try_pool_op(&mut self, now: Instant, conn: ConnId, m: &PoolOp) -> Result<Option<Bytes>, Errno> {
        if m.fsid != self.config.fsid {
            return Err(Errno::EINVAL);
        }
        self.check_pool_op(now, conn, m)?;
        let id = PoolId(i64::from(m.pool));
        let known = self.osds.upcoming().pool(id).is_some();
        match m.op {
            pool_op::CREATE => {
                if self.osds.upcoming().pool_id(&m.name).is_some() {
                    return Err(Errno::EEXIST);
                }
                let rule_id = Some(i32::from(m.crush_rule)).filter(|id| *id >= 0);
                let new = NewPool { name: m.name.clone(), rule_id, ..NewPool::default() };
                self.create_pool(now, new).map(|_| None).map_err(|refused| refused.errno)
            }
            // Asked for again after it was done: done.
            pool_op::DELETE if !known => Ok(None),
            pool_op::DELETE => self.delete_pool(id).map(|()| None).map_err(|refused| refused.errno),
            _ if !known => Err(Errno::ENOENT),
            pool_op::CREATE_SNAP => self.make_pool_snap(now, id, &m.name).map(|_| None),
            pool_op::DELETE_SNAP => self.remove_pool_snap(id, &m.name).map(|_| None),
            pool_op::CREATE_UNMANAGED_SNAP => self.make_selfmanaged_snap(id).map(|snap| Some(snap.to_bytes())),
            pool_op::DELETE_UNMANAGED_SNAP => self.remove_selfmanaged_snap(id, SnapId(m.snap)).map(|_| None),
            pool_op::AUID_CHANGE => Err(Errno::EOPNOTSUPP),
            _ => Err(Errno::EINVAL),
        }
    }

    /// EPERM if the client may not do this to the pool.
    fn check_pool_op(&mut self, now: Instant, conn: ConnId, m: &PoolOp) -> Result<(), Errno> {
        let Some(session) = self.sessions.get(conn) else { return Err(Errno::EPERM) };
        let name = self.osds.map().pool_name(PoolId(i64::from(m.pool))).map_or_else(|| m.name.clone(), str::to_owned);
        let may = |command, key: &str, needs| {
            let args = BTreeMap::from([(key.to_owned(), name.clone())]);
            session.may_command("osd", command, &args, needs)
        };
        let (command, allowed) = match m.op {
            pool_op::CREATE => ("osd pool create", may("osd pool create", "pool", Rights::R | Rights::W)),
            pool_op::DELETE => ("osd pool delete", may("osd pool delete", "pool", Rights::R | Rights::W)),
            pool_op::CREATE_UNMANAGED_SNAP | pool_op::DELETE_UNMANAGED_SNAP => {
                let command = "osd pool op unmanaged-snap";
                (command, may(command, "poolname", Rights::W) || self.may_write_within(&session.peer, &name))
            }
            _ => ("osd pool op", session.may("osd", Rights::W)),
        };
        if allowed { Ok(()) } else { Err(self.note_denied(now, conn, command)) }
    }

    /// Whether an entity's rights over objects let it write to a pool, be it to one namespace: then it may number its
    /// snapshots, too (v16.2 `is_unmanaged_snap_op_permitted`).
    fn may_write_within(&self, peer: &Peer, pool: &str) -> bool {
        let caps = AuthName::parse(&peer.entity).and_then(|name| self.auth.mon.keys.entity(&name)?.caps.get("osd"));
        caps.and_then(|text| OsdCap::parse(text).ok()).is_some_and(|caps| caps.may_write_within(pool))
    }
}
