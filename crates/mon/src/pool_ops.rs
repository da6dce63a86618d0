//! Pools changed by clients' messages: what librados' pool calls send.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`preprocess_pool_op`, `prepare_pool_op`). Snapshots are answered with
//! EOPNOTSUPP until they are supported.

use crate::commands::NewPool;
use crate::mon::Mon;
use base::{Errno, Instant, PoolId};
use std::collections::BTreeMap;
use wire::caps::mon::Rights;
use wire::messages::{PaxosHead, PoolOp, PoolOpReply, pool_op};
use wire::net::ConnId;

impl Mon {
    /// Takes a pool operation and answers it.
    pub(crate) fn pool_op(&mut self, now: Instant, conn: ConnId, tid: u64, m: &PoolOp) {
        self.urgent = true;
        let result = self.try_pool_op(now, conn, m);
        let reply = PoolOpReply {
            paxos: PaxosHead::new(u64::from(self.osds.epoch().0)),
            fsid: self.config.fsid,
            result: result.map_or_else(Errno::code, |()| 0),
            epoch: if self.osds.pending().is_some() { self.osds.next_epoch() } else { self.osds.epoch() },
            response: None,
        };
        self.reply(conn, tid, reply);
    }

    fn try_pool_op(&mut self, now: Instant, conn: ConnId, m: &PoolOp) -> Result<(), Errno> {
        if m.fsid != self.config.fsid {
            return Err(Errno::EINVAL);
        }
        let Some(session) = self.sessions.get(conn) else { return Err(Errno::EPERM) };
        let (command, name_key) = match m.op {
            pool_op::CREATE => ("osd pool create", "pool"),
            pool_op::DELETE => ("osd pool delete", "pool"),
            _ => ("osd pool op unmanaged-snap", "poolname"),
        };
        let id = PoolId(i64::from(m.pool));
        let name = self.osds.map().pool_name(id).map_or_else(|| m.name.clone(), str::to_owned);
        let args = BTreeMap::from([(name_key.to_owned(), name)]);
        if !session.may_command("osd", command, &args, Rights::R | Rights::W) {
            return Err(self.note_denied(now, conn, command));
        }
        match m.op {
            pool_op::CREATE => {
                if self.osds.upcoming().pool_id(&m.name).is_some() {
                    return Err(Errno::EEXIST);
                }
                let rule_id = Some(i32::from(m.crush_rule)).filter(|id| *id >= 0);
                let new = NewPool { name: m.name.clone(), rule_id, ..NewPool::default() };
                self.create_pool(now, new).map(|_| ()).map_err(|refused| refused.errno)
            }
            pool_op::DELETE => {
                if self.osds.upcoming().pool(id).is_none() {
                    // Asked for again after it was done: done.
                    return Ok(());
                }
                self.delete_pool(id).map_err(|refused| refused.errno)
            }
            _ if self.osds.upcoming().pool(id).is_none() => Err(Errno::ENOENT),
            pool_op::CREATE_SNAP
            | pool_op::DELETE_SNAP
            | pool_op::CREATE_UNMANAGED_SNAP
            | pool_op::DELETE_UNMANAGED_SNAP
            | pool_op::AUID_CHANGE => Err(Errno::EOPNOTSUPP),
            _ => Err(Errno::EINVAL),
        }
    }
}
