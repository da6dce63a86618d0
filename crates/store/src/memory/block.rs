//! A block of an object's data: bytes of its own, or a part of a large buffer that a client wrote in one piece.
//!
//! Owns the choice between copying and sharing. A large write is kept in the buffer in which it was received, block by
//! block, and read back as a slice of it: a MiB then costs neither the way in nor the way out a copy. Whoever changes
//! a block gets bytes of its own first. Who keeps parts sees to it that a buffer is not held for a small rest of it:
//! see `Object::settle`.

use bytes::Bytes;
use std::sync::Arc;

/// The size of a block: large enough that whole-object I/O is a few copies, small enough that the copy of a shared
/// one costs microseconds.
pub(super) const BLOCK: u64 = 64 << 10;

/// A write of at least this many bytes is kept where it is. The buffer behind it may be larger by what a socket's
/// read leaves room for, 64 KiB: at most a quarter then.
pub(super) const SHARED_BYTES_MIN: usize = 256 << 10;

/// The bytes of a block.
#[derive(Clone, Debug)]
pub(super) enum Block {
    /// Its own, shared by clones.
    Own(Arc<Vec<u8>>),
    /// A part of a client's write.
    Part(Part),
}

/// A part of a buffer.
#[derive(Clone, Debug)]
pub(super) struct Part {
    buffer: Bytes,
    start: usize,
    len: usize,
}

impl Default for Block {
    fn default() -> Block {
        Block::Own(Arc::default())
    }
}

impl From<Vec<u8>> for Block {
    fn from(bytes: Vec<u8>) -> Block {
        Block::Own(Arc::new(bytes))
    }
}

/// Blocks are equal if they hold the same bytes, wherever these are.
impl PartialEq for Block {
    fn eq(&self, other: &Block) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for Block {}

impl Block {
    /// The whole block that begins at `start` of `buffer`.
    pub(super) fn part(buffer: &Bytes, start: usize) -> Block {
        Block::Part(Part { buffer: buffer.clone(), start, len: BLOCK as usize })
    }

    /// What it holds.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Block::Own(bytes) => bytes,
            Block::Part(part) => &part.buffer[part.start..part.start + part.len],
        }
    }

    /// How much it holds.
    pub(super) fn len(&self) -> usize {
        match self {
            Block::Own(bytes) => bytes.len(),
            Block::Part(part) => part.len,
        }
    }

    /// Gives it bytes of its own.
    pub(super) fn own(&mut self) {
        if let Block::Part(_) = self {
            *self = Block::from(self.bytes().to_vec());
        }
    }

    fn own_bytes(&mut self) -> &mut Vec<u8> {
        self.own();
        match self {
            Block::Own(bytes) => Arc::make_mut(bytes),
            Block::Part(_) => unreachable!("it was just given its own"),
        }
    }

    /// Overwrites from `start`; what lies between its end and `start` reads as zeros. Gives the part that it was.
    pub(super) fn write(&mut self, start: usize, data: &[u8]) -> Option<Part> {
        let former = match self {
            Block::Own(_) => None,
            Block::Part(part) => Some(part.clone()),
        };
        let bytes = self.own_bytes();
        let end = start + data.len();
        if start == bytes.len() {
            bytes.extend_from_slice(data);
        } else {
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[start..end].copy_from_slice(data);
        }
        former
    }

    /// Cuts it off after `len` bytes.
    pub(super) fn truncate(&mut self, len: usize) {
        match self {
            Block::Own(bytes) if bytes.len() > len => Arc::make_mut(bytes).truncate(len),
            Block::Own(_) => {}
            Block::Part(part) => part.len = part.len.min(len),
        }
    }

    /// Makes a range inside it zeros.
    pub(super) fn fill_zeros(&mut self, from: usize, to: usize) {
        self.own_bytes()[from..to].fill(0);
    }
}

impl Part {
    /// Whether both are parts of one buffer.
    pub(super) fn is_beside(&self, other: &Part) -> bool {
        self.buffer.as_ptr() == other.buffer.as_ptr() && self.buffer.len() == other.buffer.len()
    }

    /// Whether it begins `distance` bytes after `first` in the same buffer.
    pub(super) fn is_at(&self, first: &Part, distance: u64) -> bool {
        self.is_beside(first) && self.start as u64 == first.start as u64 + distance
    }

    /// How many blocks of the same buffer may lie before and after it in an object.
    pub(super) fn blocks_around(&self) -> (u64, u64) {
        let after = self.buffer.len() - self.start;
        (self.start as u64 / BLOCK + 1, after as u64 / BLOCK + 1)
    }

    /// The length of the buffer.
    pub(super) fn buffer_len(&self) -> u64 {
        self.buffer.len() as u64
    }

    /// The `len` bytes from `start` of it, which may go on into the parts that follow.
    pub(super) fn slice(&self, start: usize, len: usize) -> Bytes {
        self.buffer.slice(self.start + start..self.start + start + len)
    }
}
