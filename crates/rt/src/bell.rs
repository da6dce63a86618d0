//! A disk's bell in the reactor's world: an event descriptor that wakes a task.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A bell.
#[derive(Debug)]
pub(crate) struct Bell(AsyncFd<OwnedFd>);

impl Bell {
    /// Listens to an event descriptor that does not block.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Bell> {
        // SAFETY: the descriptor is owned, so it stays open, and is no other, until the registration is dropped with it.
        let listening = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
        Ok(Bell(listening.map_err(|error| io::Error::other(error.to_string()))?))
    }

    /// Waits until it rings. However often it has rung since the last time, that was once.
    ///
    /// The descriptor is not read: the runtime listens for edges, and every ring is one. What rings while this one is
    /// being noted is a later edge, which clearing does not take back.
    pub(crate) async fn rung(&self) -> io::Result<()> {
        self.0.readable().await?.clear_ready();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn a_bell_that_rang_twice_is_heard_once_and_then_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("a descriptor");
            let rope = fd.try_clone().expect("a second one");
            let ring = || assert_eq!(rustix::io::write(&rope, &1u64.to_ne_bytes()), Ok(8));
            let bell = Bell::new(fd).expect("it can be listened to");
            ring();
            ring();
            bell.rung().await.expect("it rings");
            let silence = tokio::time::timeout(std::time::Duration::from_millis(20), bell.rung());
            assert!(silence.await.is_err(), "it is silent until it rings again");
            ring();
            bell.rung().await.expect("it rings");
        });
    }
}
