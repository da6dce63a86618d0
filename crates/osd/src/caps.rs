//! What a session's ticket allows, asked for every request.
//!
//! The judgement is `wire::caps`'s (v16.2 `src/osd/OSDCap.cc`); what is asked of it is decided here.

use crate::class::Call;
use base::Errno;
use maps::OsdMap;
use wire::caps::osd::{ClassCall, OsdCap, OsdRequest};
use wire::messages::OsdOp;
use wire::net::Peer;
use wire::osd::OpCode;

/// A session's rights.
#[derive(Clone, Debug)]
pub struct SessionCaps {
    caps: OsdCap,
    allow_all: bool,
    from: Option<core::net::IpAddr>,
}

impl SessionCaps {
    /// What a peer's ticket allows.
    pub fn of(peer: &Peer) -> SessionCaps {
        let caps = OsdCap::from_ticket(&peer.caps);
        let from = peer.socket.map(|socket| socket.ip());
        SessionCaps { allow_all: caps.is_allow_all(), caps, from }
    }

    /// Whether everything is allowed: commands ask for no less.
    pub fn allows_all(&self) -> bool {
        self.allow_all
    }

    /// EPERM if the request is beyond what is allowed, and EPERM or EOPNOTSUPP if it calls what is not here.
    pub fn check(&self, map: &OsdMap, request: &OsdOp) -> Result<(), Errno> {
        if self.allow_all {
            return Ok(());
        }
        let pool_id = request.pgid.pg.pool;
        let (Some(pool), Some(name)) = (map.pool(pool_id), map.pool_name(pool_id)) else { return Err(Errno::EPERM) };
        let Ok(namespace) = core::str::from_utf8(&request.locator.nspace) else { return Err(Errno::EPERM) };
        let calls = request.ops.iter().filter(|item| item.op == OpCode::CALL);
        let calls = calls.map(Call::of).collect::<Result<Vec<Call>, Errno>>()?;
        let classes: Vec<ClassCall<'_>> = calls.iter().map(class_call).collect();
        let reads = request.ops.iter().any(crate::ops::reads_from);
        let asked = OsdRequest {
            pool: name,
            namespace,
            applications: &pool.applications,
            object: &request.object,
            reads,
            writes: request.ops.iter().any(crate::ops::writes_to),
            classes: &classes,
            from: self.from,
        };
        if self.caps.is_capable(&asked) { Ok(()) } else { Err(Errno::EPERM) }
    }
}

/// A call as the judgement sees it. Every class here is one of those that Ceph's `osd_class_default_list` names.
fn class_call(call: &Call) -> ClassCall<'static> {
    let flags = call.method.flags;
    ClassCall {
        class: call.class,
        method: call.method_name(),
        reads: flags.reads(),
        writes: flags.writes(),
        listed: true,
    }
}
