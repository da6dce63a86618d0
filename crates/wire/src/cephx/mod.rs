//! cephx: how peers prove who they are with shared keys, and what the monitor and the daemons hand each other for it.
//!
//! Follows Ceph v16.2 `src/auth/` and `doc/dev/cephx_protocol.rst`. In short: a client proves to the monitor that it
//! holds its key (`protocol::Authenticate`), and gets a ticket for the authentication service and one for each kind of
//! daemon it asked for. With a ticket it makes an authorizer that a daemon verifies with the monitor's rotating
//! secrets, which daemons fetch and which expire.
//!
//! Owns the byte formats, the client's purse of tickets (`Tickets`), the monitor's database and decisions
//! (`KeyServer`, `MonAuth`) and a daemon's check of authorizers (`ServiceVerifier`). Refuses to read clocks or entropy:
//! both are arguments. Refuses every cipher but AES-128-CBC, behind the `Cipher` trait.
//!
//! Invariants: a secret never appears in `Debug` output; what a peer sends can be refused with an errno but never
//! panics; an authorizer without the answer to our fresh challenge proves nothing.
//!
//! Read next: `protocol`, then `server` and `tickets`.

pub mod cipher;
pub mod client;
pub mod envelope;
pub mod key;
pub mod modes;
pub mod mon_auth;
pub mod name;
pub mod protocol;
pub mod secrets;
pub mod server;
pub mod tickets;
pub mod verifier;

pub use client::CephxClient;
pub use key::{BadKey, CryptoKey};
pub use modes::{ClientModes, ServerModes};
pub use mon_auth::MonAuth;
pub use name::AuthName;
pub use secrets::{ExpiringKey, RotatingSecrets};
pub use server::{EntityAuth, KeyServer, KeyServerConfig};
pub use tickets::Tickets;
pub use verifier::ServiceVerifier;

/// How many bytes of connection secret secure mode needs: a key and two nonces, and room that is not used (v16.2
/// `AuthConnectionMeta::get_connection_secret_length`).
pub const CONNECTION_SECRET_BYTES: usize = 64;

/// The first byte of a payload that is an authorizer for a daemon (`AUTH_MODE_AUTHORIZER` up to its `_MAX`).
pub const MODE_AUTHORIZER: core::ops::RangeInclusive<u8> = 1..=9;
/// The first byte of a payload that begins a session with a monitor (`AUTH_MODE_MON` up to its `_MAX`).
pub const MODE_MON: core::ops::RangeInclusive<u8> = 10..=19;

/// The connection secret a mode needs: nothing in crc mode.
pub(crate) fn connection_secret(rng: &mut base::rng::SecretRng, mode: crate::auth::ConMode) -> bytes::Bytes {
    match mode {
        crate::auth::ConMode::Crc => bytes::Bytes::new(),
        crate::auth::ConMode::Secure => bytes::Bytes::copy_from_slice(&rng.bytes::<CONNECTION_SECRET_BYTES>()),
    }
}

/// The first mode of `preferred` that we offer too: the opener's taste decides (v16.2 `AuthRegistry::pick_mode`).
pub(crate) fn pick_mode(preferred: &[u32], ours: &[crate::auth::ConMode]) -> Option<crate::auth::ConMode> {
    preferred.iter().filter_map(|&m| crate::auth::ConMode::from_wire(m)).find(|m| ours.contains(m))
}

#[cfg(test)]
mod tests;
