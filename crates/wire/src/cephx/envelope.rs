//! The sealed envelope around everything that cephx encrypts: a version byte, a magic number, the value.
//!
//! Follows Ceph v16.2 `src/auth/cephx/CephxProtocol.h`, `encode_encrypt_enc_bl` and `decode_decrypt`. The magic number
//! is what tells a right key from a wrong one; there is no other integrity check, which is why the protocol never
//! acts on a decrypted value that the peer could not profit from forging.

use super::key::CryptoKey;
use crate::codec::{Decode, Decoder, Encode, Encoder, Malformed};
use bytes::Bytes;

/// `AUTH_ENC_MAGIC`.
pub const MAGIC: u64 = 0xff00_9cad_8826_aa55;

/// The encrypted envelope of `value`, without a length before it. Empty where the key is not usable, which opens
/// nowhere.
pub fn seal<T: Encode + ?Sized>(key: &CryptoKey, value: &T) -> Vec<u8> {
    let mut e = Encoder::new();
    e.u8(1);
    e.u64(MAGIC);
    e.put(value);
    key.cipher().map(|c| c.encrypt(e.as_slice())).unwrap_or_default()
}

/// Appends the encrypted envelope of `value` with its length.
pub fn put_sealed<T: Encode + ?Sized>(e: &mut Encoder, key: &CryptoKey, value: &T) {
    e.blob(&seal(key, value));
}

/// Opens an envelope. Bytes after the value are left unread, as later versions may append fields.
pub fn open<T: Decode>(key: &CryptoKey, sealed: &[u8]) -> Result<T, Malformed> {
    let plain = key
        .cipher()
        .ok_or(Malformed::new("envelope", "has no usable key"))?
        .decrypt(sealed)
        .ok_or(Malformed::new("envelope", "does not decrypt"))?;
    let plain = Bytes::from(plain);
    let mut d = Decoder::shared(&plain);
    d.u8()?;
    if d.u64()? != MAGIC {
        return Err(Malformed::new("envelope", "has the wrong magic number"));
    }
    d.get()
}

/// Opens an envelope that has its length before it.
pub fn get_sealed<T: Decode>(d: &mut Decoder<'_>, key: &CryptoKey) -> Result<T, Malformed> {
    open(key, d.slice()?)
}
