//! A secret key: its type, when it was made, its bytes.
//!
//! Follows Ceph v16.2 `src/auth/Crypto.h`, `CryptoKey`. Owns the byte form and the base64 text of keyrings and of
//! `ceph auth`. Never shows the secret in `Debug`.

use super::cipher::{Aes128Cbc, Cipher};
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use crate::types::UTime;
use base::Instant;
use base::rng::SecretRng;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use core::fmt;

/// `CEPH_CRYPTO_NONE`.
pub const CRYPTO_NONE: u16 = 0;
/// `CEPH_CRYPTO_AES`.
pub const CRYPTO_AES: u16 = 1;

/// A text that is no key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadKey {
    /// Not base64.
    #[error("is not base64")]
    NotBase64,
    /// Base64 of something that is not a key.
    #[error("does not decode as a key")]
    Malformed,
    /// A key of a type that is not supported; 1, AES-128, is.
    #[error("has key type {0}, only type 1 (AES) is supported")]
    Unsupported(u16),
}

/// A secret key. The default one is empty: it stands for "no key" and encrypts nothing.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct CryptoKey {
    kind: u16,
    created: UTime,
    secret: Bytes,
}

impl CryptoKey {
    /// An AES key from its 16 bytes.
    pub fn aes(created: Instant, secret: [u8; Aes128Cbc::KEY_BYTES]) -> CryptoKey {
        CryptoKey { kind: CRYPTO_AES, created: created.into(), secret: Bytes::copy_from_slice(&secret) }
    }

    /// A fresh AES key.
    pub fn generate(now: Instant, rng: &mut SecretRng) -> CryptoKey {
        CryptoKey::aes(now, rng.bytes())
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.secret.is_empty()
    }

    /// The secret bytes: they also sign handshakes.
    pub fn secret(&self) -> &Bytes {
        &self.secret
    }

    /// The cipher this key is for; none for an empty key or one of an unsupported type or length.
    pub fn cipher(&self) -> Option<Box<dyn Cipher>> {
        match (self.kind, <[u8; Aes128Cbc::KEY_BYTES]>::try_from(&self.secret[..])) {
            (CRYPTO_AES, Ok(key)) => Some(Box::new(Aes128Cbc::new(key))),
            _ => None,
        }
    }

    /// The text form, as keyrings have it.
    pub fn to_text(&self) -> String {
        STANDARD.encode(self.to_bytes())
    }

    /// Reads the text form and checks that the key can be used.
    pub fn parse(text: &str) -> Result<CryptoKey, BadKey> {
        let bytes = STANDARD.decode(text.trim()).map_err(|_| BadKey::NotBase64)?;
        let key = CryptoKey::from_bytes(&Bytes::from(bytes)).map_err(|_| BadKey::Malformed)?;
        if key.kind != CRYPTO_AES {
            return Err(BadKey::Unsupported(key.kind));
        }
        if key.cipher().is_none() {
            return Err(BadKey::Malformed);
        }
        Ok(key)
    }
}

impl fmt::Debug for CryptoKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CryptoKey(type {}, created {:?}, {} secret bytes)", self.kind, self.created, self.secret.len())
    }
}

impl Encode for CryptoKey {
    fn encode(&self, e: &mut Encoder) {
        e.u16(self.kind);
        e.put(&self.created);
        e.u16(u16::try_from(self.secret.len()).expect("a secret read with a u16 length, or of 16 bytes"));
        e.raw(&self.secret);
    }
}

impl Decode for CryptoKey {
    const MIN_BYTES: usize = 12;
    fn decode(d: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let kind = d.u16()?;
        let created = d.get()?;
        let len = usize::from(d.u16()?);
        // Copied: a slice would keep a whole decrypted message alive, and keys live long.
        let secret = Bytes::copy_from_slice(d.raw(len)?);
        match kind {
            CRYPTO_NONE => {}
            CRYPTO_AES if secret.len() == Aes128Cbc::KEY_BYTES => {}
            CRYPTO_AES => return Err(Malformed::new("CryptoKey", "has the wrong length for AES")),
            // Kept as it is: another key type can be stored and shown, it only cannot be used.
            _ => {}
        }
        Ok(CryptoKey { kind, created, secret })
    }
}
