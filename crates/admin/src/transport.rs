//! What a daemon's network has carried, as its driver counts it.
//!
//! Owns the counters of Ceph's `AsyncMessenger` that mean something here (v16.2 `src/msg/async/Stack.h`). The driver
//! counts and tells the engine, which shows them among its own.

crate::counters! {
    /// Traffic of one daemon.
    pub struct Transport {
        msgr_recv_messages: Counter ["", 0, None] "Messages that came";
        msgr_send_messages: Counter ["", 0, None] "Messages that left";
        msgr_recv_bytes: Counter ["", 0, Bytes] "Bytes that came over sockets";
        msgr_send_bytes: Counter ["", 0, Bytes] "Bytes that left over sockets";
        msgr_created_connections: Counter ["", 0, None] "Sockets opened, by either side";
        msgr_active_connections: Gauge ["", 0, None] "Sockets open now";
        msgr_running_total_time: Time ["", 0, None] "Time that the thread was at work";
    }
}

/// The name of the set: the one worker that a daemon's thread is.
pub const SET: &str = "AsyncMessenger::Worker-0";

impl Transport {
    /// What has been counted since `base` was.
    pub fn since(&self, base: &Transport) -> Transport {
        let mut shown = *self;
        let counters = [
            (&mut shown.msgr_recv_messages, base.msgr_recv_messages),
            (&mut shown.msgr_send_messages, base.msgr_send_messages),
            (&mut shown.msgr_recv_bytes, base.msgr_recv_bytes),
            (&mut shown.msgr_send_bytes, base.msgr_send_bytes),
            (&mut shown.msgr_created_connections, base.msgr_created_connections),
        ];
        for (counter, base) in counters {
            counter.0 = counter.0.saturating_sub(base.0);
        }
        shown.msgr_running_total_time.0 =
            shown.msgr_running_total_time.0.saturating_sub(base.msgr_running_total_time.0);
        shown
    }
}
