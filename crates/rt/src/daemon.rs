//! What the reactor drives: an engine together with the disks it commands.
//!
//! Owns the seam between the network half of a daemon's life, which is the same for all, and the rest. An
//! implementation carries out every command of its engine that does not concern the network.

use admin::Transport;
use base::{Duration, Instant};
use bytes::Bytes;
use std::io;
use std::os::fd::OwnedFd;
use wire::auth::Auth;
use wire::net::{NetCommand, NetEvent};

/// What a daemon wants done outside.
#[derive(Debug)]
pub enum Output {
    /// Something for the network.
    Net(NetCommand),
    /// The engine has stopped cleanly; the reactor ends.
    Stopped,
}

/// A daemon whose disk failed: it must not go on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{daemon}: {reason}")]
pub struct DaemonFailed {
    /// Its name.
    pub daemon: String,
    /// What happened.
    pub reason: String,
}

/// An engine with its disks.
pub trait Daemon {
    /// Takes an event from the network.
    fn handle_net(&mut self, now: Instant, event: NetEvent);

    /// A deadline has passed.
    fn handle_timer(&mut self, now: Instant);

    /// The next deadline.
    fn next_wakeup(&self) -> Option<Instant>;

    /// The keys, for handshakes.
    fn auth(&mut self) -> &mut dyn Auth;

    /// Carries out what concerns disks, and returns the next thing that does not. None when all is quiet.
    fn poll(&mut self, now: Instant) -> Result<Option<Output>, DaemonFailed>;

    /// Descriptors that become readable when a disk has something to say; `poll` is called then.
    fn bells(&self) -> io::Result<Vec<OwnedFd>> {
        Ok(Vec::new())
    }

    /// Whether it wants `poll` to be called again once others had their turn.
    fn has_work(&self) -> bool {
        false
    }

    /// How many answers its disks owe that can be waited for.
    fn owed(&self) -> u64 {
        0
    }

    /// The group of commits that is on its way to its disk, by number, where that can be waited for.
    fn committing(&self) -> Option<u64> {
        None
    }

    /// How many reads it has answered; counting may begin anew.
    fn reads(&self) -> u64 {
        0
    }

    /// Waits until its disks have ended so many requests, at the longest for `limit`; `poll` gives them then.
    fn wait_for_disk(&mut self, _count: u64, _limit: Duration) -> Result<(), DaemonFailed> {
        Ok(())
    }

    /// How long its thread may stay awake after work, looking for more.
    fn linger(&self) -> Duration {
        Duration::ZERO
    }

    /// Answers a request of the admin socket.
    fn admin(&mut self, now: Instant, request: &str) -> Bytes;

    /// Takes note of what the network has carried.
    fn note_transport(&mut self, counts: &Transport);

    /// The page of metrics, where the daemon has one.
    fn metrics(&self, _now: Instant) -> String {
        String::new()
    }

    /// Begins a clean stop, which ends with `Output::Stopped`.
    fn shutdown(&mut self, now: Instant);
}
