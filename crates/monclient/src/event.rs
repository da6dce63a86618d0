//! What the owner hears from its monitor client.

use base::Errno;
use bytes::Bytes;
use wire::messages;
use wire::net::Envelope;

/// News from the monitor.
#[derive(Clone, PartialEq, Debug)]
pub enum MonEvent {
    /// A session stands; what the owner sent on the last one and still waits for should be sent again.
    Ready,
    /// The session is gone; another is being looked for.
    Lost,
    /// A monitor refused us: EACCES for a wrong key, an unknown name or missing caps, ENOENT where we have no key.
    /// The search goes on, as the operator may mend it; a command line tool should give up instead.
    Denied(Errno),
    /// Rotating secrets arrived: from here on clients' authorizers can be verified.
    Rotating,
    /// Maps of the `osdmap` subscription. The owner calls `got` with the newest it has applied.
    OsdMap(Box<messages::OsdMap>),
    /// The options that the monitor's configuration database has for us.
    Config(Box<messages::Config>),
    /// A monitor map, encoded.
    MonMap(Bytes),
    /// A manager map. The owner calls `got`.
    MgrMap(Box<messages::MgrMap>),
    /// A command's answer.
    CommandReply {
        /// The number that `command` gave.
        tid: u64,
        /// The answer.
        reply: Box<messages::MonCommandAck>,
    },
    /// A command that will not be answered: it was one too many.
    CommandDropped {
        /// The number that `command` gave.
        tid: u64,
    },
    /// The answer to `get_version`.
    Version {
        /// The number that `get_version` gave.
        handle: u64,
        /// The newest version the monitor has.
        newest: u64,
        /// The oldest it still has.
        oldest: u64,
    },
    /// Any other message from the monitor.
    Message(Envelope),
}
