//! What a session's ticket allows, asked for every request.
//!
//! The judgement is `wire::caps`'s (v16.2 `src/osd/OSDCap.cc`); what is asked of it is decided here.

use base::Errno;
use maps::OsdMap;
use wire::caps::osd::{OsdCap, OsdRequest};
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

    /// EPERM if the request is beyond what is allowed.
    pub fn check(&self, map: &OsdMap, request: &OsdOp) -> Result<(), Errno> {
        if self.allow_all {
            return Ok(());
        }
        let pool_id = request.pgid.pg.pool;
        let (Some(pool), Some(name)) = (map.pool(pool_id), map.pool_name(pool_id)) else { return Err(Errno::EPERM) };
        let Ok(namespace) = core::str::from_utf8(&request.locator.nspace) else { return Err(Errno::EPERM) };
        // Class calls are refused as unsupported later; until classes exist they count as reads and writes.
        let calls = request.ops.iter().any(|item| item.op == OpCode::CALL);
        let reads = request.ops.iter().any(|item| item.op.reads());
        let asked = OsdRequest {
            pool: name,
            namespace,
            applications: &pool.applications,
            object: &request.object,
            reads: reads || calls,
            writes: request.ops.iter().any(|item| item.op.writes()) || calls,
            classes: &[],
            from: self.from,
        };
        if self.caps.is_capable(&asked) { Ok(()) } else { Err(Errno::EPERM) }
    }
}
