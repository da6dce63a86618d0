//! Answers to clients: what Ceph's OSDs put into `MOSDOpReply` and when (v16.2 `src/osd/PrimaryLogPG.cc`).

use crate::core::Core;
use crate::ops::bare_outcomes;
use crate::pg::client_io::ClientRequest;
use base::{EVersion, Errno};
use wire::messages::{OpOutcome, OsdOpReply};
use wire::net::Envelope;
use wire::osd::RequestFlags;

/// What an answer carries beside the request's own fields.
struct Answer {
    result: i32,
    ops: Vec<OpOutcome>,
    version: EVersion,
    user_version: u64,
}

fn send(core: &mut Core, request: &ClientRequest, answer: Answer) {
    if request.circumstances.caller.own {
        return;
    }
    let out_bytes = answer.ops.iter().map(|outcome| outcome.item.payload.len() as u64).sum();
    crate::tracking::finish(core, request, out_bytes);
    let message = &request.message;
    let kept = message.flags.without(RequestFlags::ONDISK | RequestFlags::ONNVRAM | RequestFlags::ACK);
    let reply = OsdOpReply {
        object: message.object.clone(),
        pg: message.pgid.pg,
        flags: u64::from((kept | RequestFlags::ACK | RequestFlags::ONDISK).0),
        result: answer.result,
        bad_replay_version: answer.version,
        map_epoch: core.epoch(),
        ops: answer.ops,
        retry_attempt: message.retry_attempt,
        replay_version: answer.version,
        user_version: answer.user_version,
        redirect: None,
        trace: Default::default(),
    };
    core.send(request.conn, Envelope::with_tid(request.tid, reply));
}

/// Answers a read: outputs and the object's version.
pub fn read(core: &mut Core, request: &ClientRequest, result: i32, ops: Vec<OpOutcome>, user_version: u64) {
    send(core, request, Answer { result, ops, version: EVersion::default(), user_version });
}

/// Answers a write: when all members have it, or when it failed or changed nothing.
pub fn done(
    core: &mut Core,
    request: &ClientRequest,
    result: i32,
    ops: Vec<OpOutcome>,
    version: EVersion,
    user_version: u64,
) {
    send(core, request, Answer { result, ops, version, user_version });
}

/// Refuses a request.
pub fn error(core: &mut Core, request: &ClientRequest, errno: Errno, version: EVersion, user_version: u64) {
    let ops = bare_outcomes(&request.message.ops);
    send(core, request, Answer { result: errno.code(), ops, version, user_version });
}
