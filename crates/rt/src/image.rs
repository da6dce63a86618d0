//! A memory store's image on disk: written by a clean stop, taken by the next start.
//!
//! Invariant: an image is used once. It is removed as it is loaded, so that after a crash nobody takes old objects for
//! present ones.

use bytes::Bytes;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Writes an image whole or not at all.
pub fn save(path: &Path, image: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    file.write_all(image)?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

/// Takes the image, if a clean stop left one.
pub fn take(path: &Path) -> io::Result<Option<Bytes>> {
    match fs::read(path) {
        Ok(image) => {
            fs::remove_file(path)?;
            Ok(Some(image.into()))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_taken_once() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("image");
        save(&path, b"objects").expect("writable");
        assert_eq!(take(&path).expect("readable").as_deref(), Some(&b"objects"[..]));
        assert_eq!(take(&path).expect("readable"), None);
    }
}
