//! A memory store's image on disk: written by a clean stop, taken by the next start.
//!
//! The file is a magic, then records as `store::MemoryStore::records` makes them, each behind its length and its
//! CRC-32C (both u32). Record by record in both directions: a stop needs no second copy of everything in memory.
//!
//! Invariant: an image is used once. It is removed when it is loaded, so that after a crash nobody takes old objects
//! for present ones.

use base::checksum::{CRC_SEED, crc32c};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use store::{MemoryStore, Restore};

const MAGIC: &[u8; 8] = b"LOLIGOM2";

/// Bytes that go to and come from the file at once.
const CHUNK: usize = 1 << 20;

/// Writes a store's image whole or not at all.
pub fn save(path: &Path, store: &MemoryStore) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = BufWriter::with_capacity(CHUNK, File::create(&temporary)?);
    file.write_all(MAGIC)?;
    for record in store.records() {
        let len = u32::try_from(record.len()).map_err(|_| damaged("an object is too large for it"))?;
        file.write_all(&len.to_le_bytes())?;
        file.write_all(&crc32c(CRC_SEED, &record).to_le_bytes())?;
        file.write_all(&record)?;
    }
    file.into_inner()?.sync_all()?;
    fs::rename(&temporary, path)
}

/// Takes the image, if a clean stop left one.
pub fn take(path: &Path) -> io::Result<Option<MemoryStore>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(e),
    };
    let mut left = file.metadata()?.len();
    let mut file = BufReader::with_capacity(CHUNK, file);
    let mut magic = [0; 8];
    file.read_exact(&mut magic)?;
    if &magic != MAGIC {
        return Err(damaged("does not begin like one"));
    }
    left -= magic.len() as u64;
    let mut restore = Restore::default();
    let mut record = Vec::new();
    while left > 0 {
        let mut head = [0; 8];
        file.read_exact(&mut head)?;
        let [l0, l1, l2, l3, c0, c1, c2, c3] = head;
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        left = left.checked_sub(8 + u64::from(len)).ok_or_else(|| damaged("ends too early"))?;
        record.resize(len as usize, 0);
        file.read_exact(&mut record)?;
        if crc32c(CRC_SEED, &record) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(damaged("does not match its checksums"));
        }
        restore.record(&record).map_err(io::Error::other)?;
    }
    let store = restore.finish().map_err(io::Error::other)?;
    fs::remove_file(path)?;
    Ok(Some(store))
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("memory store image: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{PgId, PoolId, SnapId};
    use bytes::Bytes;
    use store::{CollectionId, ObjectId, Op, Transaction};

    fn filled() -> MemoryStore {
        let mut store = MemoryStore::new();
        let mut t = Transaction::create(CollectionId::Pg(PgId::new(PoolId(1), 0)));
        for name in ["a", "b"] {
            let object = ObjectId::new(7, b"", b"", name.as_bytes(), SnapId::HEAD);
            t.push(&object, Op::Write(3, Bytes::from_static(b"objects")));
        }
        store.commit(&t).expect("it is valid");
        store
    }

    #[test]
    fn an_image_is_taken_once() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("image");
        let store = filled();
        save(&path, &store).expect("writable");
        let again = take(&path).expect("readable").expect("just saved");
        assert!(again.records().eq(store.records()));
        assert!(take(&path).expect("readable").is_none());
    }

    #[test]
    fn a_damaged_image_is_refused_and_stays() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("image");
        save(&path, &filled()).expect("writable");
        let image = fs::read(&path).expect("readable");
        for at in [0, 9, 13, image.len() / 2, image.len() - 1] {
            let mut bad = image.clone();
            bad[at] ^= 1;
            fs::write(&path, &bad).expect("writable");
            assert!(take(&path).is_err(), "byte {at}");
        }
        for len in [4, 8, 20, image.len() - 1] {
            fs::write(&path, &image[..len]).expect("writable");
            assert!(take(&path).is_err(), "cut at {len}");
        }
        assert!(path.exists(), "for whoever wants to look into it");
    }
}
