//! Whether a thread that wakes takes a busy core from whoever has it.
//!
//! Where messages come in crowds, a thread that takes the core at the first of them takes it from the client or daemon
//! that was about to send the others: both then switch once a message. Under `SCHED_BATCH` it waits until that one
//! sleeps or has had its slice, and finds them all. Where there is an idle core nothing changes: it wakes there at once
//! (Linux, sched(7), and `wakeup_preempt_fair` of 6.18).
//!
//! Refuses to know what a crowd is: `linger` counts.
#![allow(unsafe_code)]

use std::io;

/// The calling thread's scheduling policy, as it was last set.
#[derive(Debug, Default)]
pub(crate) struct Preemption {
    gives_way: bool,
}

impl Preemption {
    /// Lets the calling thread wait for its turn when it wakes, or not. Costs a system call only where that changes.
    pub(crate) fn give_way(&mut self, gives_way: bool) -> io::Result<()> {
        if self.gives_way == gives_way {
            return Ok(());
        }
        // Not tried again for each message where it is forbidden.
        self.gives_way = gives_way;
        let policy = if gives_way { libc::SCHED_BATCH } else { libc::SCHED_OTHER };
        let priority = libc::sched_param { sched_priority: 0 };
        // SAFETY: the call reads `priority`, which outlives it, and concerns the calling thread only.
        match unsafe { libc::sched_setscheduler(0, policy, &raw const priority) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> i32 {
        // SAFETY: reads the calling thread's policy, and no memory.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn the_policy_goes_there_and_back_for_this_thread_alone() {
        let mut preemption = Preemption::default();
        preemption.give_way(true).expect("any thread may");
        assert_eq!(policy(), libc::SCHED_BATCH);
        preemption.give_way(true).expect("nothing to do");
        preemption.give_way(false).expect("any thread may");
        assert_eq!(policy(), libc::SCHED_OTHER);
        preemption.give_way(true).expect("any thread may");
        let other = std::thread::scope(|s| s.spawn(policy).join().expect("no panic"));
        // A new thread inherits; one that is there does not change.
        assert_eq!(other, libc::SCHED_BATCH);
    }
}
