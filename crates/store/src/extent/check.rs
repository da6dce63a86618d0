//! Looking through a whole store for what must not be.
//!
//! Owns the check behind `loligo fsck`. It reads only: superblocks, bitmap, every page of the tree, what they say of
//! each other and of the space, the log; if it is to be deep, all data.

use super::device::{IoBuf, ReadAt};
use super::layout::{BLOCK, BlockRun, SUPERBLOCKS};
use super::log::record::Entry;
use super::log::replay;
use super::objects::object::Object;
use super::open;
use super::space::BlockSet;
use super::space::shared::Extra;
use super::state::collection::Stretch;
use super::state::db::decode_object;
use super::superblock::{self, OpenError, Superblock};
use super::tree::LEVELS_MAX;
use super::tree::key::Key;
use super::tree::keys;
use super::tree::page::{Page, PagePtr};
use base::checksum::{CRC_SEED, crc32c};
use bytes::Bytes;
use std::collections::BTreeMap;
use wire::Decoder;

/// Something that must not be.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Problem {
    /// The store as a whole cannot be opened.
    #[error("the store does not open: {0}")]
    Unopenable(OpenError),
    /// A page of the tree cannot be read as one.
    #[error("the page at block {block}: {why}")]
    Page {
        /// Where it is.
        block: u64,
        /// What is wrong.
        why: String,
    },
    /// An entry of the tree makes no sense.
    #[error("an entry of the tree at block {block}: {why}")]
    Entry {
        /// The page.
        block: u64,
        /// What is wrong.
        why: String,
    },
    /// Blocks belong to two places.
    #[error("blocks {0:?} belong to more than one place")]
    Overlap(BlockRun),
    /// Objects belong to two collections.
    #[error("objects kept under {0} belong to more than one collection")]
    TwoOwners(u64),
    /// Blocks are taken and belong to nothing.
    #[error("blocks {0:?} are taken and belong to nothing")]
    Leak(BlockRun),
    /// Blocks are in use and free.
    #[error("blocks {0:?} are in use and marked free")]
    Free(BlockRun),
    /// The holders of a shared block are not as many as is written.
    #[error("block {block} has {holders} holders, not {written}")]
    Holders {
        /// The block.
        block: u64,
        /// Those that were found.
        holders: u32,
        /// Those that should be.
        written: u32,
    },
    /// A block of data is not what was written.
    #[error("block {block} of an object's data does not match its checksum")]
    Data {
        /// The block.
        block: u64,
    },
    /// The log is damaged.
    #[error("the log: {0}")]
    Log(OpenError),
}

/// The most problems that are kept: beyond, there is no point in counting.
const PROBLEMS_MAX: usize = 1000;

/// What a check has found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckReport {
    /// What must not be.
    pub problems: Vec<Problem>,
    /// Copies of the newest superblock that are none: a power cut may tear one, the other serves, and the checkpoint
    /// after the next writes both anew.
    pub torn_superblocks: Vec<u64>,
    /// Checkpoints since the store was new.
    pub generation: u64,
    /// Pages of the tree.
    pub pages: u64,
    /// Collections.
    pub collections: u64,
    /// Objects.
    pub objects: u64,
    /// Entries of objects' maps.
    pub omap_entries: u64,
    /// Blocks that hold data.
    pub data_blocks: u64,
    /// Blocks that hold pages.
    pub page_blocks: u64,
    /// Records in the log since the last checkpoint.
    pub log_records: u64,
    /// Whether the data itself was read.
    pub deep: bool,
}

impl CheckReport {
    fn found(&mut self, problem: Problem) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }
}

/// Checks a store; `deep` also reads all data.
pub fn check(device: &mut dyn ReadAt, deep: bool) -> CheckReport {
    let mut report = CheckReport { deep, ..CheckReport::default() };
    let opened = superblock::find(device).and_then(|sb| {
        superblock::check_members(device, &sb)?;
        Ok((sb, open::load(device, &sb, 1 << 20)?))
    });
    let (sb, db) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            report.found(Problem::Unopenable(error));
            return report;
        }
    };
    report.generation = sb.generation;
    check_superblocks(device, &sb, &mut report);
    let of_collections = db.collections.values().flat_map(|collection| collection.stretches().iter().copied());
    let mut stretches: Vec<Stretch> = of_collections.chain(db.trash.iter().copied()).collect();
    stretches.sort_unstable();
    for pair in stretches.windows(2).filter(|pair| pair[0].number == pair[1].number) {
        if pair[0].range.and(pair[1].range).is_some() {
            report.found(Problem::TwoOwners(pair[0].number.0));
        }
    }
    let mut walk = Walk {
        device,
        sb: &sb,
        deep,
        report: &mut report,
        named: BlockSet::new(sb.geometry.space_blocks()),
        extra: BTreeMap::new(),
        stretches,
        objects: BTreeMap::new(),
    };
    if let Some(root) = sb.root {
        walk.page(root, None, &Key::default(), None);
    }
    let Walk { mut named, extra, .. } = walk;
    report.collections = db.collections.len() as u64;
    for run in sb.geometry.fixed() {
        named.insert(run);
    }
    db.space.image().without(&named).into_iter().for_each(|run| report.found(Problem::Leak(run)));
    named.without(db.space.image()).into_iter().for_each(|run| report.found(Problem::Free(run)));
    check_holders(db.shared.iter(), extra, &mut report);
    match replay::read(device, &sb, None) {
        Ok(found) => {
            report.log_records = found.records.len() as u64;
            check_out_of_line(device, &sb, &found, &mut named, &mut report);
        }
        Err(error) => report.found(Problem::Log(error)),
    }
    report
}

/// Entries that the log's records only name: of those that had been acknowledged, the blocks are what was written, and
/// no one else's.
fn check_out_of_line(
    device: &mut dyn ReadAt,
    sb: &Superblock,
    found: &replay::Found,
    named: &mut BlockSet,
    report: &mut CheckReport,
) {
    let acknowledged = found.records.iter().filter(|record| record.header.point.sequence <= found.durable);
    let entries = acknowledged.flat_map(|record| record.entries.iter().map(|bytes| (bytes, &record.apart)));
    for (bytes, apart) in entries {
        let place = match Entry::decode(bytes, apart) {
            Ok(Entry::OutOfLine(place)) => place,
            Ok(_) => continue,
            Err(error) => {
                report.found(Problem::Log(error.into()));
                continue;
            }
        };
        for run in &place.runs {
            if !sb.geometry.is_data(*run) || !named.insert(*run) {
                report.found(Problem::Overlap(*run));
            }
        }
        if let Err(error) = open::read_out_of_line(device, sb.label.salt, &place) {
            report.found(Problem::Log(error));
        }
    }
}

fn check_superblocks(device: &mut dyn ReadAt, sb: &Superblock, report: &mut CheckReport) {
    for block in SUPERBLOCKS[(sb.generation % 2) as usize] {
        let mut buf = IoBuf::new(BLOCK as usize);
        let read = device.read_at(block * BLOCK, &mut buf);
        if read.is_err() || Superblock::decode(buf.as_ref()).as_ref() != Ok(sb) {
            report.torn_superblocks.push(block);
        }
    }
}

fn check_holders(
    written: impl Iterator<Item = (BlockRun, u32)>,
    mut extra: BTreeMap<u64, u32>,
    report: &mut CheckReport,
) {
    for (run, holders) in written {
        for block in run.start..run.end() {
            let found = extra.remove(&block).unwrap_or(0);
            if found != holders {
                report.found(Problem::Holders { block, holders: found + 1, written: holders + 1 });
            }
        }
    }
    for (block, found) in extra {
        report.found(Problem::Holders { block, holders: found + 1, written: 1 });
    }
}

struct Walk<'a> {
    device: &'a mut dyn ReadAt,
    sb: &'a Superblock,
    deep: bool,
    report: &'a mut CheckReport,
    named: BlockSet,
    /// How many holders blocks have beyond the first.
    extra: BTreeMap<u64, u32>,
    /// Where objects may be, in order.
    stretches: Vec<Stretch>,
    /// Objects' numbers, and whether they may have maps.
    objects: BTreeMap<u64, bool>,
}

impl Walk<'_> {
    fn page(&mut self, ptr: PagePtr, level: Option<u8>, lower: &Key, bound: Option<&Key>) {
        let run = BlockRun::new(ptr.block, u64::from(ptr.blocks));
        let bad = |why: &str| Problem::Page { block: ptr.block, why: why.to_owned() };
        if !self.sb.geometry.is_data(run) || run.len == 0 {
            return self.report.found(bad("lies where no page can be"));
        }
        if !self.named.insert(run) {
            return self.report.found(Problem::Overlap(run));
        }
        let mut buf = IoBuf::new((run.len * BLOCK) as usize);
        if self.device.read_at(run.start * BLOCK, &mut buf).is_err() {
            return self.report.found(bad("cannot be read"));
        }
        let page = match Page::parse(ptr, Bytes::from_owner(buf)) {
            Ok(page) => page,
            Err(error) => return self.report.found(bad(&error.to_string())),
        };
        self.report.pages += 1;
        self.report.page_blocks += run.len;
        if level.is_some_and(|level| level != page.level()) || page.level() >= LEVELS_MAX {
            return self.report.found(bad("is not of the level where it stands"));
        }
        if page.key(0) < &**lower || bound.is_some_and(|bound| page.key(page.len() - 1) >= &**bound) {
            self.report.found(bad("has keys that belong elsewhere"));
        }
        for at in 0..page.len() {
            if page.level() > 0 {
                let lower = if at == 0 { lower.clone() } else { page.key(at).into() };
                let next: Option<Key> = (at + 1 < page.len()).then(|| page.key(at + 1).into());
                self.page(page.child(at), Some(page.level() - 1), &lower, next.as_ref().or(bound));
            } else if let Err(why) = self.entry(page.key(at), page.value(at)) {
                self.report.found(Problem::Entry { block: ptr.block, why });
            }
        }
    }

    fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), String> {
        let number = keys::number(key).ok_or("has a key without a number");
        match key.first() {
            Some(&keys::COLLECTION) => keys::read_collection(key).map(drop).map_err(|e| e.to_string()),
            Some(&keys::TRASH) => keys::read_trash(key).map(drop).map_err(|e| e.to_string()),
            Some(&keys::SHARED) => {
                number?;
                Extra::decode(&mut Decoder::new(value)).map(drop).map_err(|e| e.to_string())
            }
            Some(&keys::OMAP) => {
                self.report.omap_entries += 1;
                let owner = self.objects.get(&number?);
                owner.filter(|has_map| **has_map).map(|_| ()).ok_or("is of the map of no object".to_owned())
            }
            Some(&keys::OBJECT) => {
                let hash = keys::read_object(key).map_err(|e| e.to_string())?.reversed_hash();
                let (number, place) = (number?, |s: &Stretch| (s.number.0, s.range.last()));
                let at = self.stretches.partition_point(|stretch| place(stretch) < (number, hash));
                if !self.stretches.get(at).is_some_and(|s| s.number.0 == number && s.range.contains(hash)) {
                    return Err("is an object of no collection".to_owned());
                }
                let object = decode_object(value).map_err(|e| e.to_string())?;
                self.object(&object)
            }
            _ => Err("has a key of no known kind".to_owned()),
        }
    }

    fn object(&mut self, object: &Object) -> Result<(), String> {
        self.report.objects += 1;
        for run in object.blocks.runs() {
            if !self.sb.geometry.is_data(run) {
                return Err("is an object whose data lies where none can be".to_owned());
            }
            for block in run.start..run.end() {
                if !self.named.insert(BlockRun::new(block, 1)) {
                    *self.extra.entry(block).or_default() += 1;
                } else {
                    self.report.data_blocks += 1;
                }
            }
        }
        if self.deep {
            self.data(object);
        }
        let number = object.number.0;
        if number >= self.sb.next_number || self.objects.insert(number, object.has_omap).is_some() {
            return Err("is an object whose number is another's".to_owned());
        }
        Ok(())
    }

    fn data(&mut self, object: &Object) {
        let crcs: Vec<u32> = object.blocks.all().map(|(_, mapped)| mapped.crc).collect();
        let mut crcs = crcs.into_iter();
        for run in object.blocks.runs() {
            let mut at = run.start;
            while at < run.end() {
                let count = (run.end() - at).min(256);
                let mut buf = IoBuf::new((count * BLOCK) as usize);
                let read = self.device.read_at(at * BLOCK, &mut buf).is_ok();
                let blocks = buf.as_ref().chunks_exact(BLOCK as usize);
                for ((block, data), crc) in (at..at + count).zip(blocks).zip(&mut crcs) {
                    if !read || crc32c(CRC_SEED, data) != crc {
                        self.report.found(Problem::Data { block });
                    }
                }
                at += count;
            }
        }
    }
}
