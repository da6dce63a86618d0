//! Rotating disks: where the heads are, where the platter is, and which request is nearest.
//!
//! A disk has one position. Reaching a request takes a seek (growing with the square root of the distance, as arms
//! accelerate half of the way; Ruemmler and Wilkes, 1994) and the wait until the platter has turned to it; what begins
//! where the last one ended needs neither. Among the requests that a disk has taken it serves the nearest first, but
//! none later than `PATIENCE` rotations after its arrival if others can wait.
//!
//! An array deals stripes to its disks in turn. With parity, a write reads the old data and the old parity, and a
//! rotation later writes both.

use crate::controller::Controller;
use base::{Duration, Instant};

/// How many rotations a request may be passed over. Long enough to reorder a full queue, short enough that nobody
/// takes the disk for dead.
const PATIENCE: u32 = 60;

/// What describes a disk, or an array of equal disks.
#[derive(Clone, PartialEq, Debug)]
pub struct Platters {
    /// How many disks.
    pub spindles: u32,
    /// Consecutive bytes on one disk before the next has its turn.
    pub stripe_bytes: u64,
    /// Whether one stripe in each row is parity (RAID 5).
    pub parity: bool,
    /// Rotations a minute.
    pub rotations_per_minute: f64,
    /// A seek to the next track.
    pub track_seek_ms: f64,
    /// A seek from the first track to the last.
    pub full_seek_ms: f64,
    /// What a command costs before anything moves.
    pub command_us: f64,
    /// Bytes read or written a second once the head is there.
    pub bytes_per_s: f64,
    /// What stands before them, where they are an array.
    pub controller: Option<Controller>,
}

/// For whom a disk works, by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum For {
    /// A request, in the device's table.
    Request(u64),
    /// The controller, which reads ahead.
    Fetch(u64),
}

/// A part of a request that lies on one disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) whose: For,
    /// When it was taken.
    pub(crate) since: Instant,
    /// Where on its disk it begins.
    pub(crate) offset: u64,
    /// How long it is.
    pub(crate) bytes: u64,
    /// Whether old data is read and then written over, a rotation later.
    pub(crate) rewrites: bool,
}

/// One disk: its queue and its position.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spindle {
    pub(crate) queue: Vec<Piece>,
    pub(crate) serving: Option<Piece>,
    /// Where the head is: just behind the last byte that it read or wrote.
    head: u64,
}

impl Platters {
    pub(crate) fn rotation_s(&self) -> f64 {
        60.0 / self.rotations_per_minute
    }

    fn bytes_per_track(&self) -> f64 {
        self.bytes_per_s * self.rotation_s()
    }

    /// The parts of a request, each with the number of its disk.
    pub(crate) fn pieces(&self, whose: For, now: Instant, write: bool, offset: u64, bytes: u64) -> Vec<(usize, Piece)> {
        let disks = u64::from(self.spindles);
        let data_disks = if self.parity { disks - 1 } else { disks };
        let rewrites = self.parity && write;
        let mut pieces: Vec<(usize, Piece)> = Vec::new();
        let mut add = |disk: u64, offset: u64, bytes: u64| {
            let same = |(at, piece): &&mut (usize, Piece)| *at == disk as usize && piece.offset + piece.bytes == offset;
            match pieces.iter_mut().rev().find(same) {
                Some((_, piece)) => piece.bytes += bytes,
                None => pieces.push((disk as usize, Piece { whose, since: now, offset, bytes, rewrites })),
            }
        };
        let (mut at, end) = (offset, offset + bytes.max(1));
        while at < end {
            let (stripe, within) = (at / self.stripe_bytes, at % self.stripe_bytes);
            let len = (self.stripe_bytes - within).min(end - at);
            let row = stripe / data_disks;
            let on_disk = row * self.stripe_bytes + within;
            // The parity's place moves on by a disk with each row.
            let parity_disk = disks - 1 - row % disks;
            let nth = stripe % data_disks;
            add(if self.parity && nth >= parity_disk { nth + 1 } else { nth }, on_disk, len);
            if rewrites {
                add(parity_disk, on_disk, len);
            }
            at += len;
        }
        pieces
    }

    /// How long a disk's arm and platter need until a piece is under the head.
    fn reach(&self, now: Instant, head: u64, piece: &Piece, disk_bytes: f64) -> Duration {
        if piece.offset == head {
            return Duration::ZERO;
        }
        let track = self.bytes_per_track();
        let tracks = (disk_bytes / track).max(1.0);
        let (from, to) = ((head as f64 / track).floor(), (piece.offset as f64 / track).floor());
        let distance = (from - to).abs() / tracks;
        let seek_ms = match from == to {
            true => 0.0,
            false => self.track_seek_ms + (self.full_seek_ms - self.track_seek_ms) * distance.min(1.0).sqrt(),
        };
        // The platter turns whether anyone reads or not: its angle is the time's.
        let there_s = (now.0 as f64 * 1e-9) + (seek_ms * 1e-3) + self.command_us * 1e-6;
        let turned = (there_s / self.rotation_s()).fract();
        let wanted = (piece.offset as f64 / track).fract();
        let wait_s = (wanted - turned).rem_euclid(1.0) * self.rotation_s();
        Duration::from_secs_f64(seek_ms * 1e-3 + wait_s)
    }

    /// Takes the next piece of a disk that has nothing to do, and says when it ends.
    pub(crate) fn begin(&self, spindle: &mut Spindle, now: Instant, disk_bytes: f64) -> Option<Instant> {
        debug_assert!(spindle.serving.is_none(), "a disk has one arm");
        let patience = Duration::from_secs_f64(self.rotation_s() * f64::from(PATIENCE));
        let oldest = (0..spindle.queue.len()).min_by_key(|&i| spindle.queue[i].since)?;
        let next = match now.since(spindle.queue[oldest].since) > patience {
            true => oldest,
            false => (0..spindle.queue.len())
                .min_by_key(|&i| (self.reach(now, spindle.head, &spindle.queue[i], disk_bytes), i))
                .expect("there is an oldest one"),
        };
        let piece = spindle.queue.remove(next);
        let mut takes = Duration::from_secs_f64(self.command_us * 1e-6 + piece.bytes as f64 / self.bytes_per_s);
        takes += self.reach(now, spindle.head, &piece, disk_bytes);
        if piece.rewrites {
            // Back to where the piece began: whole rotations, as many as it takes to have read all of it.
            let turns = (piece.bytes as f64 / self.bytes_per_track()).ceil().max(1.0);
            takes += Duration::from_secs_f64(turns * self.rotation_s());
        }
        spindle.head = piece.offset + piece.bytes;
        spindle.serving = Some(piece);
        Some(now + takes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{DeviceModel, Media};

    fn array() -> Platters {
        match DeviceModel::hdd_array().media {
            Media::Platters(platters) => platters,
            Media::Flash(_) => panic!("an array has platters"),
        }
    }

    #[test]
    fn stripes_go_to_the_disks_in_turn_and_never_to_their_own_parity() {
        let array = array();
        for stripe in 0..200u64 {
            let pieces = array.pieces(For::Request(0), Instant::ZERO, true, stripe * array.stripe_bytes, 4096);
            let [(data, at), (parity, beside)] = pieces[..] else { panic!("a disk and its parity, not {pieces:?}") };
            assert_ne!(data, parity, "stripe {stripe}");
            assert_eq!(at.offset, beside.offset);
            assert!(at.rewrites && beside.rewrites);
        }
        let row: Vec<usize> = array
            .pieces(For::Request(0), Instant::ZERO, false, 0, 11 * array.stripe_bytes)
            .iter()
            .map(|(disk, _)| *disk)
            .collect();
        assert_eq!(row, (0..11).collect::<Vec<_>>());
    }

    #[test]
    fn what_follows_the_head_needs_no_turn() {
        let array = array();
        let piece = Piece { whose: For::Request(0), since: Instant::ZERO, offset: 8192, bytes: 4096, rewrites: false };
        assert_eq!(array.reach(Instant(123_456_789), 8192, &piece, 4e12), Duration::ZERO);
        let back = array.reach(Instant(123_456_789), 12_288, &piece, 4e12);
        assert!(back > Duration::ZERO && back.as_secs_f64() <= array.rotation_s(), "{back:?}");
    }
}
