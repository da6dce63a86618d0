//! Commands: what the `ceph` tool sends to monitors, OSDs and managers, and what comes back.
//!
//! Follows Ceph v16.2 `src/messages/MMonCommand.h`, `MMonCommandAck.h`, `MCommand.h`, `MCommandReply.h`,
//! `MMgrCommand.h` and `MMgrCommandReply.h`. A command is one string of JSON (or, of old, words).

use super::body::{PaxosHead, message};
use crate::types::Uuid;

message! {
    /// A command for the monitors.
    MonCommand(50, 1, 1) {
        /// The usual head.
        paxos: PaxosHead,
        /// The cluster.
        fsid: Uuid,
        /// The command.
        command: Vec<String>,
    } + {
        /// The command's input (`-i FILE`).
        input
    }

    /// A monitor's answer.
    MonCommandAck(51, 1, 1) {
        /// The usual head.
        paxos: PaxosHead,
        /// 0, or an errno negated.
        result: i32,
        /// A line for the terminal.
        status: String,
        /// The command it answers.
        command: Vec<String>,
    } + {
        /// The command's output.
        output
    }

    /// A command for an OSD or an MDS.
    Command(97, 1, 1) {
        /// The cluster.
        fsid: Uuid,
        /// The command.
        command: Vec<String>,
    } + {
        /// The command's input.
        input
    }

    /// Their answer.
    CommandReply(98, 1, 1) {
        /// 0, or an errno negated.
        result: i32,
        /// A line for the terminal.
        status: String,
    } + {
        /// The command's output.
        output
    }

    /// A command for the manager.
    MgrCommand(0x709, 1, 1) {
        /// The cluster.
        fsid: Uuid,
        /// The command.
        command: Vec<String>,
    } + {
        /// The command's input.
        input
    }

    /// Its answer.
    MgrCommandReply(0x70A, 1, 1) {
        /// 0, or an errno negated.
        result: i32,
        /// A line for the terminal.
        status: String,
    } + {
        /// The command's output.
        output
    }
}
