//! The superblock: what a store is, and where its last checkpoint left everything.
//!
//! Owns its form and the choice among its four copies, and the labels of devices beside the main one. Generation n is written to both copies of its parity, so that a
//! torn write leaves the other parity whole, and one damaged block leaves the other copy.

use super::device::{DeviceFailed, IoBuf, ReadAt};
use super::layout::{BLOCK, BlockRun, Geometry, Role, SUPERBLOCKS};
use super::tree::page::PagePtr;
use base::OsdId;
use base::checksum::{CRC_SEED, crc32c};
use wire::types::Uuid;
use wire::{Decoder, Encoder, Malformed};

const MAGIC: &[u8; 8] = b"LOLIGOX1";
/// The version of a store on one device, and of one with devices beside it, which older readers must not touch.
const VERSIONS: [u32; 2] = [1, 2];

const MEMBER_MAGIC: &[u8; 8] = b"LOLIGOM1";

/// Whose a store is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label {
    /// The cluster.
    pub cluster: Uuid,
    /// The OSD.
    pub osd: OsdId,
    /// This store.
    pub store: Uuid,
    /// A secret of this store that marks its log's records, so that data that looks like one is none.
    pub salt: u64,
}

/// Where the log goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LogPoint {
    /// The number of the next record.
    pub(crate) sequence: u64,
    /// Where it begins, in bytes since the store was new; its place in the ring is this modulo the log's size.
    pub(crate) position: u64,
    /// The checksum of the record before.
    pub(crate) previous_crc: u32,
}

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    pub(crate) label: Label,
    pub(crate) geometry: Geometry,
    /// Counts checkpoints.
    pub(crate) generation: u64,
    /// The tree; none while it is empty.
    pub(crate) root: Option<PagePtr>,
    /// The first record of the log that the tree does not contain.
    pub(crate) log: LogPoint,
    /// The next number of a collection or object.
    pub(crate) next_number: u64,
    /// What all pages of the bitmap sum up to.
    pub(crate) bitmap_sum: u64,
}

impl Superblock {
    pub(crate) fn encode(&self) -> IoBuf {
        let mut e = Encoder::with_capacity(256);
        e.raw(MAGIC);
        e.u32(0);
        e.u32(VERSIONS[usize::from(self.geometry.meta_blocks > 0 || self.geometry.log_apart)]);
        e.put(&self.label.cluster);
        e.put(&self.label.osd);
        e.put(&self.label.store);
        e.u64(self.label.salt);
        e.u64(self.geometry.blocks);
        e.u64(self.geometry.log_blocks);
        e.u64(self.generation);
        e.bool(self.root.is_some());
        let root = self.root.unwrap_or(PagePtr { block: 0, blocks: 0, crc: 0 });
        e.raw(&root.to_bytes());
        e.u64(self.log.sequence);
        e.u64(self.log.position);
        e.u32(self.log.previous_crc);
        e.u64(self.next_number);
        e.u64(self.bitmap_sum);
        e.u64(self.geometry.meta_blocks);
        e.bool(self.geometry.log_apart);
        let mut buf = IoBuf::copy_of(e.as_slice());
        let out = buf.as_mut();
        let crc = crc32c(CRC_SEED, &out[12..]);
        out[8..12].copy_from_slice(&crc.to_le_bytes());
        buf
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Superblock, Malformed> {
        let mut d = Decoder::new(bytes);
        if d.raw(8)? != MAGIC {
            return Err(Malformed::new("superblock", "does not begin like one"));
        }
        if d.u32()? != crc32c(CRC_SEED, d.peek()) {
            return Err(Malformed::new("superblock", "does not match its checksum"));
        }
        if !VERSIONS.contains(&d.u32()?) {
            return Err(Malformed::new("superblock", "has an unknown version"));
        }
        let label = Label { cluster: d.get()?, osd: d.get()?, store: d.get()?, salt: d.u64()? };
        let (blocks, log_blocks) = (d.u64()?, d.u64()?);
        let generation = d.u64()?;
        let has_root = d.bool()?;
        let root = Some(PagePtr::decode(&mut d)?).filter(|_| has_root);
        let log = LogPoint { sequence: d.u64()?, position: d.u64()?, previous_crc: d.u32()? };
        if !log.position.is_multiple_of(BLOCK) {
            return Err(Malformed::new("superblock", "has a log that begins inside a block"));
        }
        let (next_number, bitmap_sum) = (d.u64()?, d.u64()?);
        // Zeros where everything lies on one device.
        let geometry = Geometry { blocks, log_blocks, meta_blocks: d.u64()?, log_apart: d.bool()? };
        geometry.check()?;
        Ok(Superblock { label, geometry, generation, root, log, next_number, bitmap_sum })
    }

    /// The blocks where this generation belongs.
    pub(crate) fn places(&self) -> [u64; 2] {
        SUPERBLOCKS[(self.generation % 2) as usize]
    }
}

/// What the first block of a device beside the main one says.
pub(crate) fn member_label(label: &Label, role: Role, run: BlockRun) -> IoBuf {
    let mut e = Encoder::with_capacity(64);
    e.raw(MEMBER_MAGIC);
    e.u32(0);
    e.put(&label.store);
    e.u8(match role {
        Role::Meta => 1,
        Role::Log => 2,
    });
    e.u64(run.len);
    let mut buf = IoBuf::copy_of(e.as_slice());
    let out = buf.as_mut();
    let crc = crc32c(CRC_SEED, &out[12..]);
    out[8..12].copy_from_slice(&crc.to_le_bytes());
    buf
}

/// Refuses devices beside the main one that are not this store's.
pub(crate) fn check_members(device: &mut dyn ReadAt, sb: &Superblock) -> Result<(), OpenError> {
    if sb.geometry.all_blocks() * BLOCK > device.size() {
        return Err(Malformed::new("extent store", "is larger than its devices").into());
    }
    for role in [Role::Meta, Role::Log] {
        let Some(run) = sb.geometry.member(role) else { continue };
        let mut buf = IoBuf::new(BLOCK as usize);
        device.read_at(run.start * BLOCK, &mut buf)?;
        if buf.as_ref() != member_label(&sb.label, role, run).as_ref() {
            return Err(match role {
                Role::Meta => OpenError::NotItsMeta,
                Role::Log => OpenError::NotItsLog,
            });
        }
    }
    Ok(())
}

/// Why a device was not opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// It cannot be read.
    #[error("storage: the device cannot be read")]
    Device,
    /// It has no store.
    #[error("holds no extent store")]
    NoStore,
    /// The device given for its metadata is another's.
    #[error("the metadata's device belongs to another store")]
    NotItsMeta,
    /// The device given for its log is another's.
    #[error("the log's device belongs to another store")]
    NotItsLog,
    /// What it has is damaged.
    #[error("corrupt: {0}")]
    Corrupt(Malformed),
}

// Not as its source: who prints an error with its causes would say it twice.
impl From<Malformed> for OpenError {
    fn from(why: Malformed) -> OpenError {
        OpenError::Corrupt(why)
    }
}

impl From<DeviceFailed> for OpenError {
    fn from(DeviceFailed: DeviceFailed) -> OpenError {
        OpenError::Device
    }
}

/// The newest superblock of a device.
pub(crate) fn find(device: &mut dyn ReadAt) -> Result<Superblock, OpenError> {
    let (mut newest, mut why): (Option<Superblock>, _) = (None, None);
    for block in SUPERBLOCKS.into_iter().flatten() {
        if (block + 1) * BLOCK > device.size() {
            continue;
        }
        let mut buf = IoBuf::new(BLOCK as usize);
        device.read_at(block * BLOCK, &mut buf)?;
        match Superblock::decode(buf.as_ref()) {
            Ok(found) if newest.is_none_or(|newest| newest.generation < found.generation) => newest = Some(found),
            Ok(_) => {}
            Err(error) if buf.as_ref().starts_with(MAGIC) => why = Some(error),
            Err(_) => {}
        }
    }
    let newest = newest.ok_or(why.map_or(OpenError::NoStore, OpenError::Corrupt))?;
    if newest.geometry.blocks * BLOCK > device.size() {
        return Err(Malformed::new("extent store", "is larger than its device").into());
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extent::device::{MemoryDevice, WriteAt};

    fn sample(generation: u64) -> Superblock {
        Superblock {
            label: Label { cluster: Uuid([1; 16]), osd: OsdId(3), store: Uuid([2; 16]), salt: 77 },
            geometry: Geometry::new(&crate::extent::layout::Areas::single(64 << 20, 1 << 20)).expect("there is room"),
            generation,
            root: Some(PagePtr { block: 900, blocks: 2, crc: 5 }),
            log: LogPoint { sequence: 4, position: 8192, previous_crc: 6 },
            next_number: 9,
            bitmap_sum: 10,
        }
    }

    #[test]
    fn the_newest_whole_copy_counts() {
        let mut device = MemoryDevice::new(64 << 20);
        assert_eq!(find(&mut device), Err(OpenError::NoStore));
        for generation in [6, 7] {
            let sb = sample(generation);
            sb.places().iter().for_each(|b| device.write_at(b * BLOCK, sb.encode().as_ref()).expect("inside"));
        }
        assert_eq!(find(&mut device), Ok(sample(7)));
        device.bytes[(SUPERBLOCKS[1][0] * BLOCK) as usize + 40] ^= 1;
        assert_eq!(find(&mut device), Ok(sample(7)), "from its second copy");
        device.bytes[(SUPERBLOCKS[1][1] * BLOCK) as usize + 4000] ^= 1;
        assert_eq!(find(&mut device), Ok(sample(6)));
        device.bytes.truncate(32 << 20);
        assert!(matches!(find(&mut device), Err(OpenError::Corrupt(_))), "a device that shrank");
    }
}
