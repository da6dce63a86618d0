//! A collection as a stream of bytes: what `loligo store export` writes and `import` reads.
//!
//! Owns the format and its checks; refuses to read or write stores. The stream begins with `LOLIGOP1` and the version
//! (u32); then pieces follow, each a length (u32), so many bytes, and their crc (u32, Ceph's CRC-32C, seeded with the crc
//! of the piece before, the first with ffffffff). A piece begins with its kind (u8):
//!
//! | kind | then |
//! |---|---|
//! | 1 | the cluster's uuid, the collection: once, first |
//! | 2 | an object's name (as `ObjectId` encodes it), size u64, attributes (list of name blob, value blob), map header blob |
//! | 3 | data of that object: offset u64, blob; holes are left out |
//! | 4 | entries of its map: list of key blob, value blob |
//! | 5 | how many objects there were, u64: once, last |
//!
//! Objects come in their collection's order, but the OSD's records of the collection come last: whoever takes the
//! stream up and is cut off has objects of which no record speaks, and that counts as nothing.
//!
//! Invariants: a piece that is changed, missing, doubled or out of its place is noticed; so is a stream that is cut off.

use crate::id::{CollectionId, ObjectId};
use base::checksum::{CRC_SEED, crc32c};
use bytes::Bytes;
use wire::types::Uuid;
use wire::{Decoder, Encoder, Malformed};

const MAGIC: &[u8; 8] = b"LOLIGOP1";
const VERSION: u32 = 1;

/// How long the beginning is, in bytes.
pub const START_BYTES: usize = 12;

/// The longest piece, in bytes: an object's attributes, as large as a client's largest write (`osd_max_write_size`) may
/// have made each, and some.
pub const PIECE_BYTES_MAX: usize = 256 << 20;

/// A piece of the stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Whose collection it is.
    Whose(Uuid, CollectionId),
    /// An object begins.
    Object {
        /// Its name.
        id: ObjectId,
        /// Its size in bytes.
        size: u64,
        /// Its attributes.
        attrs: Vec<(Bytes, Bytes)>,
        /// The header of its map.
        omap_header: Bytes,
    },
    /// Some of its data, from an offset on.
    Data(u64, Bytes),
    /// Some of its map.
    Omap(Vec<(Bytes, Bytes)>),
    /// The end, and how many objects there were.
    End(u64),
}

/// Makes a stream.
#[derive(Debug)]
pub struct StreamWriter {
    crc: u32,
}

impl StreamWriter {
    /// A stream, and its beginning.
    pub fn begin() -> (StreamWriter, Bytes) {
        let mut e = Encoder::new();
        e.raw(MAGIC);
        e.u32(VERSION);
        (StreamWriter { crc: CRC_SEED }, e.finish())
    }

    /// A piece as it travels.
    pub fn piece(&mut self, piece: &Piece) -> Bytes {
        let mut e = Encoder::new();
        e.u32(0);
        match piece {
            Piece::Whose(cluster, collection) => {
                e.u8(1);
                e.put(cluster);
                e.put(collection);
            }
            Piece::Object { id, size, attrs, omap_header } => {
                e.u8(2);
                e.put(id);
                e.u64(*size);
                e.put(attrs);
                e.put(omap_header);
            }
            Piece::Data(offset, data) => {
                e.u8(3);
                e.u64(*offset);
                e.put(data);
            }
            Piece::Omap(entries) => {
                e.u8(4);
                e.put(entries);
            }
            Piece::End(objects) => {
                e.u8(5);
                e.u64(*objects);
            }
        }
        let mut bytes = e.finish().to_vec();
        let len = (bytes.len() - 4) as u32;
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        self.crc = crc32c(self.crc, &bytes[4..]);
        bytes.extend_from_slice(&self.crc.to_le_bytes());
        bytes.into()
    }
}

/// Reads a stream.
#[derive(Debug)]
pub struct StreamReader {
    crc: u32,
    objects: u64,
    begun: bool,
    ended: bool,
}

impl StreamReader {
    /// A stream that begins like this.
    pub fn begin(start: &[u8; START_BYTES]) -> Result<StreamReader, Malformed> {
        if !start.starts_with(MAGIC) {
            return Err(Malformed::new("export", "does not begin like one"));
        }
        if start[8..] != VERSION.to_le_bytes() {
            return Err(Malformed::new("export", "has an unknown version"));
        }
        Ok(StreamReader { crc: CRC_SEED, objects: 0, begun: false, ended: false })
    }

    /// How many bytes follow a piece's length: the piece and its checksum.
    pub fn piece_bytes(len: [u8; 4]) -> Result<usize, Malformed> {
        let len = u32::from_le_bytes(len) as usize;
        if len > PIECE_BYTES_MAX {
            Err(Malformed::new("export", "has a piece of impossible length"))
        } else {
            Ok(len + 4)
        }
    }

    /// Whether the stream has come to its end.
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// A piece and its checksum, as many bytes as `piece_bytes` has said.
    pub fn piece(&mut self, bytes: &Bytes) -> Result<Piece, Malformed> {
        let bad = |why| Malformed::new("export", why);
        let at = bytes.len().checked_sub(4).ok_or(bad("has a piece without a checksum"))?;
        self.crc = crc32c(self.crc, &bytes[..at]);
        if bytes[at..] != self.crc.to_le_bytes() {
            return Err(bad("does not match its checksum"));
        }
        let body = bytes.slice(..at);
        let mut d = Decoder::shared(&body);
        let piece = match d.u8()? {
            1 => Piece::Whose(d.get()?, d.get()?),
            2 => Piece::Object { id: d.get()?, size: d.u64()?, attrs: d.get()?, omap_header: d.get()? },
            3 => Piece::Data(d.u64()?, d.get()?),
            4 => Piece::Omap(d.get()?),
            5 => Piece::End(d.u64()?),
            _ => return Err(bad("has a piece of unknown kind")),
        };
        d.finish("export")?;
        let first = !core::mem::replace(&mut self.begun, true);
        let in_place = match &piece {
            Piece::Whose(..) => first,
            Piece::Object { .. } => {
                self.objects += 1;
                !first
            }
            Piece::Data(..) | Piece::Omap(_) => self.objects > 0,
            Piece::End(objects) => !first && *objects == self.objects,
        };
        if !in_place || self.ended {
            return Err(bad("has a piece out of its place"));
        }
        self.ended = matches!(piece, Piece::End(_));
        Ok(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{PgId, PoolId};

    fn pieces() -> Vec<Piece> {
        let pair =
            |k: &'static str, v: &'static str| (Bytes::from_static(k.as_bytes()), Bytes::from_static(v.as_bytes()));
        vec![
            Piece::Whose(Uuid([3; 16]), CollectionId::Pg(PgId::new(PoolId(2), 5))),
            Piece::Object {
                id: ObjectId::record("r"),
                size: 10,
                attrs: vec![pair("a", "1")],
                omap_header: Bytes::from_static(b"h"),
            },
            Piece::Data(4096, Bytes::from_static(b"data")),
            Piece::Omap(vec![pair("k", "v"), pair("l", "w")]),
            Piece::End(1),
        ]
    }

    fn written(pieces: &[Piece]) -> Vec<Bytes> {
        let (mut writer, _) = StreamWriter::begin();
        pieces.iter().map(|piece| writer.piece(piece)).collect()
    }

    fn read(framed: &[Bytes]) -> Result<Vec<Piece>, Malformed> {
        let (_, start) = StreamWriter::begin();
        let mut reader = StreamReader::begin(start[..].try_into().expect("as long as it should be"))?;
        let mut out = Vec::new();
        for bytes in framed {
            let len = StreamReader::piece_bytes(bytes[..4].try_into().expect("four bytes"))?;
            assert_eq!(len, bytes.len() - 4);
            out.push(reader.piece(&bytes.slice(4..))?);
        }
        if reader.is_ended() { Ok(out) } else { Err(Malformed::new("export", "is cut off")) }
    }

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let framed = written(&pieces());
        assert_eq!(read(&framed), Ok(pieces()));
        for index in 0..framed.len() {
            let mut without = framed.clone();
            let piece = without.remove(index);
            assert!(read(&without).is_err(), "piece {index} is missing");
            let mut doubled = framed.clone();
            doubled.insert(index, piece.clone());
            assert!(read(&doubled).is_err(), "piece {index} comes twice");
            for at in 4..piece.len() {
                let mut changed = framed.clone();
                let mut bytes = piece.to_vec();
                bytes[at] ^= 4;
                changed[index] = bytes.into();
                assert!(read(&changed).is_err(), "byte {at} of piece {index} is another");
            }
        }
        assert!(StreamReader::piece_bytes([255; 4]).is_err());
    }

    #[test]
    fn pieces_have_their_places() {
        let all = pieces();
        let order = |indices: &[usize]| read(&written(&indices.iter().map(|at| all[*at].clone()).collect::<Vec<_>>()));
        assert!(order(&[0, 1, 2, 3, 4]).is_ok());
        for wrong in [&[1, 4][..], &[0, 2, 1, 4], &[0, 0, 1, 4], &[0, 1, 4, 4], &[0, 4], &[0, 1, 1, 4]] {
            assert!(order(wrong).is_err(), "{wrong:?}");
        }
        assert!(StreamReader::begin(b"LOLIGOP1\x02\0\0\0").is_err_and(|e| e.to_string().contains("version")));
        assert!(StreamReader::begin(b"anything at ").is_err());
    }
}
