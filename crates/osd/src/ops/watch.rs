//! Ops on watches: begin, renew and end them, notify, answer, list.
//!
//! Owns what each op checks and what it leaves to be done (`watch::Effect`). Follows Ceph v16.2
//! `src/osd/PrimaryLogPG.cc` (`do_osd_ops`: `CEPH_OSD_OP_WATCH`, `NOTIFY`, `NOTIFY_ACK`, `LIST_WATCHERS`).

use super::execution::{Execution, NOTHING, Step, fail};
use crate::limits::WATCHERS_MAX;
use crate::watch::{Effect, WatchName, WatchRecord};
use base::Errno;
use bytes::Bytes;
use store::Op;
use wire::osd::op::watch_op;
use wire::osd::payload::{NotifyAck, NotifyRequest, Watcher, WatcherList};
use wire::osd::{OpCode, OpParams, OsdOpItem};
use wire::types::{AddrKind, EntityAddr};
use wire::{Decode, Encode};

/// What the OSD asks of itself where a watch's time is over or its client is shut out. Nobody else may ask it.
pub const EXPIRE: u8 = 0xFE;

/// Whether an op says no more than that a watcher lives.
pub fn is_ping(item: &OsdOpItem) -> bool {
    item.op == OpCode::WATCH && matches!(item.params(), OpParams::Watch { op: watch_op::PING, .. })
}

pub(super) fn watch(x: &mut Execution, item: &OsdOpItem) -> Step {
    x.require_exists()?;
    let OpParams::Watch { cookie, op, timeout_s, .. } = item.params() else { return fail(Errno::EINVAL) };
    let asker = x.request.circumstances.caller;
    let watch = WatchName { cookie, entity: asker.name };
    let timeout_s = if timeout_s == 0 { x.request.watching.timeout_s } else { timeout_s };
    let record = WatchRecord { timeout_s, addr: EntityAddr { kind: AddrKind::Any, ..asker.addr } };
    let known = x.state.info.is_watched_by(&watch);
    let watching = x.request.watching;
    x.result = 0;
    match op {
        watch_op::WATCH | watch_op::LEGACY_WATCH => {
            if !known {
                if x.state.info.watchers.as_ref().is_some_and(|watchers| watchers.len() >= WATCHERS_MAX) {
                    return fail(Errno::ENOSPC);
                }
                x.state.info.add_watcher(watch, record);
                x.changes.push(Op::Touch);
            }
            x.effects.push(Effect::Connect { watch, record, pings: op == watch_op::WATCH });
        }
        watch_op::RECONNECT if known => x.effects.push(Effect::Connect { watch, record, pings: true }),
        watch_op::PING if known => {
            if !watching.live.is_connected(watching.object, &watch) {
                return fail(Errno::ETIMEDOUT);
            }
            x.effects.push(Effect::Ping { watch });
        }
        watch_op::RECONNECT | watch_op::PING => return fail(Errno::ENOTCONN),
        watch_op::UNWATCH => end(x, watch, false),
        // Meanwhile it may have come back.
        EXPIRE if asker.own && watching.live.is_ending(watching.object, &watch) => end(x, watch, true),
        _ => {}
    }
    NOTHING
}

fn end(x: &mut Execution, watch: WatchName, tell: bool) {
    if x.state.info.remove_watcher(&watch) {
        x.changes.push(Op::Touch);
        x.effects.push(Effect::Disconnect { watch, tell });
    }
}

/// The object is removed: all watches end.
pub(super) fn end_all(x: &mut Execution) {
    if let Some(watchers) = x.state.info.watchers.take() {
        x.effects.extend(watchers.keys().map(|watch| Effect::Disconnect { watch: *watch, tell: true }));
    }
}

pub(super) fn notify(x: &mut Execution, item: &OsdOpItem) -> Step {
    let OpParams::Notify { cookie } = item.params() else { return fail(Errno::EINVAL) };
    // One that cannot be read is an empty one, as in Ceph.
    let asked = NotifyRequest::from_bytes(&item.payload).unwrap_or_default();
    let timeout_s = match asked.timeout_s {
        0 => x.tuning().notification_timeout_s,
        asked => asked,
    };
    let watching = x.request.watching;
    if !watching.live.has_room(asked.payload.len()) {
        return fail(Errno::EBUSY);
    }
    let before = x.effects.iter().filter(|effect| matches!(effect, Effect::Notify { .. })).count();
    let id = watching.next_notification + before as u64;
    x.effects.push(Effect::Notify { id, cookie, timeout_s, payload: asked.payload });
    x.result = 0;
    Ok(id.to_bytes())
}

pub(super) fn acknowledge(x: &mut Execution, item: &OsdOpItem) -> Step {
    let OpParams::Notify { cookie } = item.params() else { return fail(Errno::EINVAL) };
    let effect = match NotifyAck::from_bytes(&item.payload) {
        Ok(ack) => Effect::Ack { id: ack.notify_id, cookie: Some(ack.cookie), payload: ack.payload },
        // Of old, the handle was the notification's number, and the answer that of all of the client's watches.
        Err(_) => Effect::Ack { id: cookie, cookie: None, payload: Bytes::new() },
    };
    if let Effect::Ack { payload, .. } = &effect
        && !x.request.watching.live.has_room_for_answer(payload.len())
    {
        return fail(Errno::ENOMEM);
    }
    x.effects.push(effect);
    x.result = 0;
    NOTHING
}

pub(super) fn list(x: &mut Execution) -> Step {
    let item = |(name, record): (&WatchName, &WatchRecord)| Watcher {
        name: name.entity,
        cookie: name.cookie,
        timeout_s: record.timeout_s,
        addr: record.addr,
    };
    let watchers = x.state.info.watchers.as_deref().into_iter().flatten().map(item).collect();
    x.result = 0;
    Ok(WatcherList { watchers }.to_bytes())
}
