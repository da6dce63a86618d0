//! The ciphers behind keys: one today, a trait so that the next fits.
//!
//! Owns AES-128-CBC as Ceph uses it (v16.2 `src/auth/Crypto.cc`, `CryptoAES`): a fixed initialisation vector, PKCS#7
//! padding. The fixed vector makes equal plaintexts equal ciphertexts; the protocol lives with that by having a fresh
//! number near the start of everything it encrypts. Refuses key type 0 ("none").

use aes::Aes128;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockDecryptMut, BlockEncryptMut, KeyIvInit};

/// Ceph's fixed initialisation vector (`CEPH_AES_IV`).
const IV: &[u8; 16] = b"cephsageyudagreg";

/// Encrypts and decrypts with one key.
pub trait Cipher {
    /// The ciphertext of `plain`; never shorter.
    fn encrypt(&self, plain: &[u8]) -> Vec<u8>;

    /// The plaintext, or nothing where the ciphertext is not one of this key's. A wrong key goes unnoticed about once
    /// in 256 times here: callers check the magic number inside.
    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>>;
}

/// AES-128-CBC with PKCS#7 padding and Ceph's vector: key type 1.
pub struct Aes128Cbc {
    key: [u8; 16],
}

impl Aes128Cbc {
    /// The length of its keys in bytes.
    pub const KEY_BYTES: usize = 16;

    /// The cipher with this key.
    pub fn new(key: [u8; 16]) -> Aes128Cbc {
        Aes128Cbc { key }
    }
}

impl Cipher for Aes128Cbc {
    fn encrypt(&self, plain: &[u8]) -> Vec<u8> {
        cbc::Encryptor::<Aes128>::new(&self.key.into(), IV.into()).encrypt_padded_vec_mut::<Pkcs7>(plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        cbc::Decryptor::<Aes128>::new(&self.key.into(), IV.into()).decrypt_padded_vec_mut::<Pkcs7>(cipher).ok()
    }
}
