//! Flash: a latency, and a rate that all requests share.
//!
//! A drive of many dies is a latency-rate server: a request alone takes its latency and its transfer, requests together
//! are held to the drive's I/Os and bytes per second. Reads and writes share that work, each at its own price, so that
//! a drive that could do 640,000 reads or 200,000 writes a second does half of each together.

use base::{Duration, Instant};

/// What describes a flash drive.
#[derive(Clone, PartialEq, Debug)]
pub struct Flash {
    /// How long one small read takes alone.
    pub read_latency_us: f64,
    /// How long one small write takes alone.
    pub write_latency_us: f64,
    /// Small random reads a second at the most.
    pub read_iops: f64,
    /// Small random writes a second at the most, sustained.
    pub write_iops: f64,
    /// Bytes read a second at the most.
    pub read_bytes_per_s: f64,
    /// Bytes written a second at the most.
    pub write_bytes_per_s: f64,
}

/// The work that a drive has before it.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlashState {
    busy_until: Instant,
}

impl Flash {
    /// When a request that begins now ends. `stretch` multiplies its latency.
    pub(crate) fn serve(&self, state: &mut FlashState, now: Instant, write: bool, bytes: u64, stretch: f64) -> Instant {
        let (latency_us, iops, rate) = match write {
            false => (self.read_latency_us, self.read_iops, self.read_bytes_per_s),
            true => (self.write_latency_us, self.write_iops, self.write_bytes_per_s),
        };
        let transfer = bytes as f64 / rate;
        let work = Duration::from_secs_f64(transfer.max(1.0 / iops));
        state.busy_until = state.busy_until.max(now) + work;
        let alone = now + Duration::from_secs_f64(latency_us * 1e-6 * stretch + transfer);
        alone.max(state.busy_until)
    }
}
