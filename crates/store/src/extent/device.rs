//! What the engine asks of a block device, and the buffers for it.
//!
//! Owns the seam below the store: requests with ids, completions with the same ids. A driver (io_uring in production,
//! memory in tests) carries them out in any order. What a completed write wrote may be lost in a power cut until a
//! flush that began after its completion has completed too; only a durable write needs none.

mod pool;

use super::layout::BLOCK;
use bytes::{Bytes, BytesMut};

pub(crate) use pool::BUFFER_BYTES_MAX;
pub use pool::{PageAdvice, let_unused_go, use_slabs};

/// A buffer whose address and length are multiples of 4 KiB, as direct I/O wants it.
///
/// Many allocators place whole blocks so by themselves; where one does not, the buffer takes a block more. Those of the
/// usual sizes come from the thread's `pool` and go back there: their memory is there already, and warm.
#[derive(Debug)]
pub struct IoBuf {
    memory: Memory,
    /// How much of it is the buffer's content.
    len: usize,
}

/// Memory of a buffer.
#[derive(Debug, Default)]
struct Memory {
    /// Never grows beyond the capacity that it was made with: it would move. It may be longer than the buffer's content:
    /// then that is what its last user left.
    bytes: BytesMut,
    start: usize,
    /// What the buffer may use of it, in whole blocks.
    room: usize,
    /// It is a piece of a slab.
    of_slab: bool,
}

impl Memory {
    /// Room for `len` bytes, which are whole blocks.
    fn new(len: usize) -> Memory {
        let bytes = BytesMut::with_capacity(len);
        if is_aligned(&bytes) {
            return Memory { bytes, start: 0, room: len, of_slab: false };
        }
        let mut bytes = BytesMut::with_capacity(len + BLOCK_BYTES);
        // Never at its beginning: so there is room for as much as was asked for, and no more.
        let start = bytes.as_ptr().wrapping_add(1).align_offset(BLOCK_BYTES) + 1;
        bytes.resize(start, 0);
        Memory { bytes, start, room: len, of_slab: false }
    }

    /// How much of it has ever held something.
    fn used(&self) -> usize {
        self.bytes.len() - self.start
    }
}

const BLOCK_BYTES: usize = BLOCK as usize;

/// Buffers to be filled get one of a few sizes from here on: they are soon let go, and then fit the next one.
pub(crate) const ROUNDED_BYTES_MIN: usize = 64 << 10;

impl IoBuf {
    /// Nothing, with room for `len` bytes, rounded up to whole blocks.
    pub fn with_capacity(len: usize) -> IoBuf {
        IoBuf::from_pool(len, pool::take)
    }

    fn from_pool(len: usize, take: fn(usize) -> Option<Memory>) -> IoBuf {
        let room = len.max(1).next_multiple_of(BLOCK_BYTES);
        IoBuf { memory: take(room).unwrap_or_else(|| Memory::new(room)), len: 0 }
    }

    /// Zeros; `len` bytes, rounded up to whole blocks.
    pub fn new(len: usize) -> IoBuf {
        let mut buf = IoBuf::with_capacity(len);
        buf.append_zeros(len.next_multiple_of(BLOCK_BYTES));
        buf
    }

    /// Nothing, with room for at least `len` bytes, for what is let go before long: it has one of a few sizes, so that it
    /// fits the next one, too.
    pub fn passing(len: usize) -> IoBuf {
        IoBuf::with_capacity(rounded(len.max(1).next_multiple_of(BLOCK_BYTES)))
    }

    /// Bytes of no meaning, to be read into; `len` bytes, rounded up to whole blocks. Where they are many, they are to be let
    /// go soon, or copied.
    pub fn to_fill(len: usize) -> IoBuf {
        let len = len.next_multiple_of(BLOCK_BYTES);
        let room = if len < ROUNDED_BYTES_MIN { len } else { rounded(len) };
        let mut buf = IoBuf::from_pool(room, pool::take_passing);
        let used = buf.memory.used();
        if used < len {
            buf.memory.bytes.resize(buf.memory.start + len, 0);
        }
        buf.len = len;
        buf
    }

    /// A copy of `data`, filled up with zeros to whole blocks.
    pub fn copy_of(data: &[u8]) -> IoBuf {
        let mut buf = IoBuf::with_capacity(data.len());
        buf.append(data);
        buf.fill_up();
        buf
    }

    /// A copy of whole blocks that is soon let go.
    fn passing_copy_of(data: &[u8]) -> IoBuf {
        let mut buf = IoBuf::from_pool(data.len(), pool::take_passing);
        buf.append(data);
        buf
    }

    /// Appends to it; there has to be room.
    pub fn append(&mut self, data: &[u8]) {
        assert!(data.len() <= self.room(), "the caller asks for room first");
        let again = data.len().min(self.memory.used() - self.len);
        let (over, new) = data.split_at(again);
        let at = self.memory.start + self.len;
        self.memory.bytes[at..at + again].copy_from_slice(over);
        self.memory.bytes.extend_from_slice(new);
        self.len += data.len();
    }

    fn append_zeros(&mut self, len: usize) {
        let (at, end) = (self.memory.start + self.len, self.memory.start + self.len + len);
        let again = end.min(self.memory.bytes.len());
        self.memory.bytes[at..again].fill(0);
        self.memory.bytes.resize(end.max(self.memory.bytes.len()), 0);
        self.len += len;
    }

    /// How much more fits, so that whole blocks still do.
    pub fn room(&self) -> usize {
        self.memory.room - self.len
    }

    /// Fills it up with zeros to whole blocks, without which no device takes it.
    pub fn fill_up(&mut self) {
        self.append_zeros(self.len.next_multiple_of(BLOCK_BYTES) - self.len);
    }

    /// Bytes that this thread keeps for the next buffers.
    pub(crate) fn stock_bytes() -> usize {
        pool::bytes()
    }

    /// The bytes of memory that it takes beside its content. Where memory lies, and what making it lie right costs, is not
    /// told: by what this counts a cache is bounded, and a store does the same wherever an allocator puts things.
    pub fn slack(&self) -> usize {
        self.memory.room - self.len
    }
}

impl Drop for IoBuf {
    fn drop(&mut self) {
        pool::give_back(core::mem::take(&mut self.memory));
    }
}

/// The size of a buffer that gets one of a few sizes, from whole blocks.
fn rounded(whole: usize) -> usize {
    if whole <= BUFFER_BYTES_MAX { whole.next_power_of_two() } else { whole }
}

/// What a buffer made by [`IoBuf::to_fill`] was filled with, to be kept: what is large is copied.
pub(crate) fn to_keep(data: Bytes) -> Bytes {
    if data.len() <= pool::SMALL_BYTES_MAX { data } else { Bytes::from_owner(IoBuf::copy_of(&data)) }
}

/// What so many whole blocks take that are kept so, but for their slack where they are few.
pub(crate) fn room_to_keep(whole: usize) -> usize {
    if (ROUNDED_BYTES_MIN..=pool::SMALL_BYTES_MAX).contains(&whole) { rounded(whole) } else { whole }
}

fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().align_offset(BLOCK_BYTES) == 0
}

/// Whole blocks of bytes as direct I/O wants them: themselves where they lie so already, else a copy, to be let go once it is
/// written.
pub fn aligned(data: Bytes) -> Bytes {
    if is_aligned(&data) { data } else { in_one_piece(&data) }
}

/// A copy of whole blocks in a buffer for the device, to be let go once it is written: what is large lies in one piece there.
pub(crate) fn in_one_piece(data: &[u8]) -> Bytes {
    Bytes::from_owner(IoBuf::passing_copy_of(data))
}

impl AsRef<[u8]> for IoBuf {
    fn as_ref(&self) -> &[u8] {
        &self.memory.bytes[self.memory.start..][..self.len]
    }
}

impl AsMut<[u8]> for IoBuf {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.memory.bytes[self.memory.start..][..self.len]
    }
}

/// Pieces that are written to neighbouring blocks from `offset` on, each with where it goes.
pub fn placed(offset: u64, pieces: Vec<Bytes>) -> impl Iterator<Item = (u64, Bytes)> {
    pieces.into_iter().scan(offset, |next, piece| {
        let at = *next;
        *next += piece.len() as u64;
        Some((at, piece))
    })
}

/// Names a request to the device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IoId(pub u64);

/// A request to the device. Offsets and lengths are in bytes and whole blocks.
#[derive(Debug)]
pub enum Io {
    /// Fills the buffer.
    Read {
        /// Where from.
        offset: u64,
        /// What to fill.
        buf: IoBuf,
    },
    /// Writes what lies in several buffers, each of them `aligned`, to neighbouring blocks. It is not durable by itself.
    WriteVectored {
        /// Where to.
        offset: u64,
        /// What to write, in order; there is some.
        pieces: Vec<Bytes>,
    },
    /// Writes bytes that are `aligned`: address and length are whole blocks.
    Write {
        /// Where to.
        offset: u64,
        /// What to write.
        data: Bytes,
        /// Whether it has to survive a power cut once it is reported complete, without a flush.
        durable: bool,
    },
    /// Makes every write that was complete when this began survive a power cut.
    Flush,
    /// The contents of this range are of no use any more.
    Discard {
        /// Where it begins.
        offset: u64,
        /// How long it is.
        len: u64,
    },
}

/// The device did not do what it was asked, or not all of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("storage: the device failed")]
pub struct DeviceFailed;

/// Reads a device and waits: how a store is opened and checked, when nobody is served yet.
pub trait ReadAt {
    /// Fills the buffer from `offset`, whole.
    fn read_at(&mut self, offset: u64, buf: &mut IoBuf) -> Result<(), DeviceFailed>;

    /// What is at these places, each an offset and a length in bytes and whole blocks. What can do several things at a
    /// time has them together.
    fn read_all(&mut self, places: &[(u64, usize)]) -> Result<Vec<IoBuf>, DeviceFailed> {
        let read = |(offset, len): &(u64, usize)| {
            let mut buf = IoBuf::to_fill(*len);
            self.read_at(*offset, &mut buf).map(|()| buf)
        };
        places.iter().map(read).collect()
    }

    /// The device's size in bytes.
    fn size(&self) -> u64;
}

/// Writes a device and waits: how a new store is laid down.
pub trait WriteAt: ReadAt {
    /// Writes the bytes of an `IoBuf` at `offset`, whole.
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), DeviceFailed>;

    /// Makes all writes so far survive a power cut.
    fn flush(&mut self) -> Result<(), DeviceFailed>;
}

/// A device in memory, for tests and for measuring all but the disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryDevice {
    /// Its contents.
    pub bytes: Vec<u8>,
}

impl MemoryDevice {
    /// A device of zeros.
    pub fn new(len: usize) -> MemoryDevice {
        MemoryDevice { bytes: vec![0; len] }
    }

    /// Carries out a request at once; a read's buffer comes back.
    pub fn carry_out(&mut self, io: Io) -> Result<Option<IoBuf>, DeviceFailed> {
        match io {
            Io::Read { offset, mut buf } => self.read_at(offset, &mut buf).map(|()| Some(buf)),
            Io::Write { offset, data, .. } => self.write_at(offset, &data).map(|()| None),
            Io::WriteVectored { offset, pieces } => {
                placed(offset, pieces).try_for_each(|(offset, piece)| self.write_at(offset, &piece)).map(|()| None)
            }
            Io::Flush => Ok(None),
            Io::Discard { offset, len } => {
                let range = self.range(offset, len as usize)?;
                self.bytes[range].fill(0xDD);
                Ok(None)
            }
        }
    }

    fn range(&self, offset: u64, len: usize) -> Result<core::ops::Range<usize>, DeviceFailed> {
        let start = usize::try_from(offset).map_err(|_| DeviceFailed)?;
        let end = start.checked_add(len).filter(|&end| end <= self.bytes.len()).ok_or(DeviceFailed)?;
        Ok(start..end)
    }
}

impl ReadAt for MemoryDevice {
    fn read_at(&mut self, offset: u64, buf: &mut IoBuf) -> Result<(), DeviceFailed> {
        let range = self.range(offset, buf.as_ref().len())?;
        buf.as_mut().copy_from_slice(&self.bytes[range]);
        Ok(())
    }

    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }
}

impl WriteAt for MemoryDevice {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), DeviceFailed> {
        let range = self.range(offset, data.len())?;
        self.bytes[range].copy_from_slice(data);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DeviceFailed> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_whole_blocks() {
        for len in [0, 1, 4096, 4097, 100_000] {
            let buf = IoBuf::new(len);
            assert_eq!(buf.as_ref().as_ptr().align_offset(4096), 0);
            assert_eq!(buf.as_ref().len(), len.next_multiple_of(4096));
        }
        assert_eq!(&IoBuf::copy_of(b"abc").as_ref()[..5], b"abc\0\0");
    }

    #[test]
    fn a_buffer_is_used_again_and_shows_nothing_of_its_last_use() {
        drop(IoBuf::copy_of(&[7; 8192]));
        assert_eq!(IoBuf::to_fill(8192).as_ref().len(), 8192);
        assert!(IoBuf::new(8192).as_ref().iter().all(|&byte| byte == 0));
        assert!(IoBuf::with_capacity(8192).as_ref().is_empty());
        let mut filled_up = IoBuf::copy_of(&[1; 4097]);
        assert!(filled_up.as_ref()[4097..].iter().all(|&byte| byte == 0));
        filled_up.as_mut().fill(3);
        drop(filled_up);
        let mut grown = IoBuf::with_capacity(8192);
        grown.append(&[2; 5000]);
        assert_eq!((grown.as_ref(), grown.room()), (&[2; 5000][..], 8192 - 5000));
        let large = IoBuf::to_fill(100 << 10);
        assert_eq!((large.as_ref().len(), large.slack()), (100 << 10, 28 << 10));
    }

    #[test]
    fn a_buffer_grows_where_it_is_and_is_whole_once_filled_up() {
        let mut buf = IoBuf::with_capacity(5000);
        let place = buf.as_ref().as_ptr();
        assert!(buf.as_ref().is_empty() && buf.room() >= 8192);
        for byte in 0..5 {
            buf.append(&[byte; 1000]);
        }
        let all = buf.room();
        buf.append(&vec![0; all]);
        buf.fill_up();
        assert_eq!((buf.as_ref().as_ptr(), buf.as_ref().len() % 4096), (place, 0), "whole blocks fit where it is");
        assert_eq!((buf.as_ref()[999], buf.as_ref()[1000], buf.as_ref()[4999], buf.as_ref()[5000]), (0, 1, 4, 0));
        assert_eq!((buf.slack(), buf.room()), (0, 0));
    }

    /// What a buffer takes depended on where it lay, so that a simulated store kept more or less than in the run before.
    #[test]
    fn what_a_buffer_takes_does_not_depend_on_where_it_lies() {
        let here: Vec<IoBuf> = (0..64).map(|odd| (vec![0u8; 64 * odd + 1], IoBuf::to_fill(4096)).1).collect();
        assert!(here.iter().all(|buf| buf.slack() == 0));
    }

    #[test]
    fn a_device_in_memory_has_an_end() {
        let mut device = MemoryDevice::new(8192);
        device.write_at(4096, IoBuf::copy_of(b"x").as_ref()).expect("inside");
        let mut buf = IoBuf::new(4096);
        device.read_at(4096, &mut buf).expect("inside");
        assert_eq!(buf.as_ref()[0], b'x');
        assert_eq!(device.read_at(8192, &mut buf), Err(DeviceFailed));
        assert_eq!(device.read_at(u64::MAX, &mut buf), Err(DeviceFailed));
    }
}
