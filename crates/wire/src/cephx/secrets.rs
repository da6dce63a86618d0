//! Rotating secrets: the keys that a kind of daemon and the monitor share, three at a time, replaced as they expire.
//!
//! Follows Ceph v16.2 `src/auth/Auth.h` (`RotatingSecrets`) and `CephxKeyServer.cc` (`_rotate_secret`). Tickets are
//! sealed with the current secret (the middle one); daemons accept all three, so that a ticket outlives one rotation
//! and a daemon whose copy is one rotation old still understands new tickets.

use super::key::CryptoKey;
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use crate::types::UTime;
use base::rng::SecretRng;
use base::{Duration, Instant};
use std::collections::BTreeMap;

/// Previous, current, next (`KEY_ROTATE_NUM`).
const KEEP: usize = 3;

/// A key and when it ends (`ExpiringCryptoKey`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExpiringKey {
    /// The key.
    pub key: CryptoKey,
    /// When it ends.
    pub expiration: UTime,
}

impl Encode for ExpiringKey {
    fn encode(&self, e: &mut Encoder) {
        e.u8(1);
        e.put(&self.key);
        e.put(&self.expiration);
    }
}

impl Decode for ExpiringKey {
    const MIN_BYTES: usize = 21;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.u8()?;
        Ok(ExpiringKey { key: d.get()?, expiration: d.get()? })
    }
}

/// The secrets of one service, by id (`RotatingSecrets`). At most three once rotated here; as many as fit the message
/// when read from a peer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RotatingSecrets {
    secrets: BTreeMap<u64, ExpiringKey>,
    max_ver: u64,
}

/// The secret to seal new tickets with.
#[derive(Clone, Debug)]
pub struct Current<'a> {
    /// Its id, which goes into the ticket.
    pub id: u64,
    /// The key.
    pub key: &'a CryptoKey,
    /// How long a ticket may be valid: never past the last secret's end.
    pub ttl: Duration,
}

impl RotatingSecrets {
    /// The secret with this id.
    pub fn key(&self, id: u64) -> Option<&CryptoKey> {
        self.secrets.get(&id).map(|s| &s.key)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.secrets.len()
    }

    /// The highest id given so far; grows with each rotation.
    pub fn version(&self) -> u64 {
        self.max_ver
    }

    /// When the current secret ends and the set has to be replaced; none for a set that is not full.
    pub fn current_expires(&self) -> Option<Instant> {
        (self.secrets.len() >= KEEP).then(|| self.secrets.values().nth(1)).flatten().map(|s| s.expiration.into())
    }

    /// The secret for new tickets: the second oldest, or the one after it if that has ended. None in an empty set or
    /// one that has wholly ended.
    pub fn current(&self, now: Instant, ttl: Duration) -> Option<Current<'_>> {
        let skip = usize::from(self.secrets.len() > 1);
        let (&id, secret) = self.secrets.iter().skip(skip).find(|(_, s)| Instant::from(s.expiration) >= now)?;
        let last: Instant = self.secrets.values().next_back()?.expiration.into();
        Some(Current { id, key: &secret.key, ttl: ttl.min(last.since(now)) })
    }

    /// Adds secrets until there are three and the current one has not ended; tells whether it added any.
    /// The first one made ends after one `ttl`, each later one a `ttl` after its elder (or after `now`'s own).
    pub fn rotate(&mut self, now: Instant, ttl: Duration, rng: &mut SecretRng) -> bool {
        let mut added = false;
        while self.current_expires().is_none_or(|end| end <= now) {
            let from = match self.secrets.values().next_back() {
                None => now,
                Some(last) => Instant::from(last.expiration).max(now + ttl),
            };
            let key = CryptoKey::generate(now, rng);
            self.max_ver += 1;
            self.secrets.insert(self.max_ver, ExpiringKey { key, expiration: (from + ttl).into() });
            while self.secrets.len() > KEEP {
                self.secrets.pop_first();
            }
            added = true;
            // A time to live of zero would rotate for ever.
            if ttl.is_zero() && self.secrets.len() == KEEP {
                break;
            }
        }
        added
    }
}

impl Encode for RotatingSecrets {
    fn encode(&self, e: &mut Encoder) {
        e.u8(1);
        e.put(&self.secrets);
        e.u64(self.max_ver);
    }
}

impl Decode for RotatingSecrets {
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        d.u8()?;
        Ok(RotatingSecrets { secrets: d.get()?, max_ver: d.u64()? })
    }
}
