//! The kinds of frames.
//!
//! Follows Ceph v16.2 `src/msg/async/frames_v2.h`, `enum class Tag`.

use core::fmt;

macro_rules! tags {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        /// What a frame is.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Tag { $($(#[$doc])* $name = $value,)* }

        impl Tag {
            /// Every tag, in the order of its number.
            pub const ALL: &[Tag] = &[$(Tag::$name),*];

            /// The tag that a byte stands for.
            pub fn from_wire(byte: u8) -> Option<Tag> {
                match byte { $($value => Some(Tag::$name),)* _ => None }
            }
        }

        impl fmt::Display for Tag {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Tag::$name => $text,)* })
            }
        }

        impl fmt::Debug for Tag {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

tags! {
    /// Who we are and how we see the other's address; both ways, first.
    Hello = 1, "HELLO";
    /// The connecting side chooses a method and begins.
    AuthRequest = 2, "AUTH_REQUEST";
    /// The accepting side refuses.
    AuthBadMethod = 3, "AUTH_BAD_METHOD";
    /// The accepting side wants more.
    AuthReplyMore = 4, "AUTH_REPLY_MORE";
    /// More.
    AuthRequestMore = 5, "AUTH_REQUEST_MORE";
    /// The accepting side is satisfied; the connection mode starts after this frame.
    AuthDone = 6, "AUTH_DONE";
    /// The signature of all received so far; both ways.
    AuthSignature = 7, "AUTH_SIGNATURE";
    /// The connecting side wants a new session.
    ClientIdent = 8, "CLIENT_IDENT";
    /// The new session exists.
    ServerIdent = 9, "SERVER_IDENT";
    /// The new session is refused.
    IdentMissingFeatures = 10, "IDENT_MISSING_FEATURES";
    /// The connecting side wants its session back.
    SessionReconnect = 11, "SESSION_RECONNECT";
    /// There is no such session; begin a new one.
    SessionReset = 12, "SESSION_RESET";
    /// Try again with a higher connect_seq.
    SessionRetry = 13, "SESSION_RETRY";
    /// Try again with a higher global_seq.
    SessionRetryGlobal = 14, "SESSION_RETRY_GLOBAL";
    /// The session goes on.
    SessionReconnectOk = 15, "SESSION_RECONNECT_OK";
    /// The accepting side is connecting too, and its connection is the one to use.
    Wait = 16, "WAIT";
    /// A message.
    Message = 17, "MESSAGE";
    /// Are you there?
    Keepalive2 = 18, "KEEPALIVE2";
    /// Yes; with the question's timestamp.
    Keepalive2Ack = 19, "KEEPALIVE2_ACK";
    /// Everything up to a sequence number has arrived.
    Ack = 20, "ACK";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_tags_agree() {
        for byte in 0..=u8::MAX {
            assert_eq!(Tag::from_wire(byte).map(|tag| tag as u8), (1..=20).contains(&byte).then_some(byte));
        }
    }
}
