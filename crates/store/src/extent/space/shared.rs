//! Blocks that more than one object holds: what copies of objects share.
//!
//! Owns the counts. A run of blocks with the same number of holders beyond the first is one entry; blocks without an
//! entry have one holder. All of it is in memory and, run by run, in the tree.
//!
//! Invariants: runs do not overlap; no count is 0.

use crate::extent::layout::BlockRun;
use std::collections::BTreeMap;
use wire::{Decoder, Encoder, Malformed};

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shared {
    runs: BTreeMap<u64, Extra>,
    /// The first blocks of runs that came, went or changed since they were last asked for.
    changed: Vec<u64>,
}

/// How long a run is, and how many holders it has beyond the first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extra {
    pub(crate) len: u64,
    pub(crate) holders: u32,
}

impl Extra {
    pub(crate) fn encode(&self, e: &mut Encoder) {
        e.u64(self.len);
        e.u32(self.holders);
    }

    pub(crate) fn decode(d: &mut Decoder<'_>) -> Result<Extra, Malformed> {
        let extra = Extra { len: d.u64()?, holders: d.u32()? };
        let sound = extra.len > 0 && extra.holders > 0;
        if sound { Ok(extra) } else { Err(Malformed::new("shared blocks", "are none or have one holder")) }
    }
}

impl Shared {
    /// Takes a run from the tree.
    pub(crate) fn load(&mut self, start: u64, extra: Extra) {
        self.runs.insert(start, extra);
    }

    pub(crate) fn get(&self, start: u64) -> Option<&Extra> {
        self.runs.get(&start)
    }

    /// The runs and their holders beyond the first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockRun, u32)> + '_ {
        self.runs.iter().map(|(start, extra)| (BlockRun::new(*start, extra.len), extra.holders))
    }

    /// Whether any of these blocks has more than one holder.
    pub(crate) fn holds_any(&self, run: BlockRun) -> bool {
        let last = self.runs.range(..run.end()).next_back();
        last.is_some_and(|(start, extra)| start + extra.len > run.start)
    }

    /// What has changed since this was last asked.
    pub(crate) fn take_changed(&mut self) -> Vec<u64> {
        core::mem::take(&mut self.changed)
    }

    /// One more holder of these blocks.
    pub(crate) fn add(&mut self, run: BlockRun) {
        self.split_at(run.start);
        self.split_at(run.end());
        let mut at = run.start;
        while at < run.end() {
            let next = self.runs.range(at..run.end()).next().map(|(start, extra)| (*start, *extra));
            match next {
                Some((start, extra)) if start == at => {
                    self.set(start, Extra { holders: extra.holders + 1, ..extra });
                    at += extra.len;
                }
                _ => {
                    let end = next.map_or(run.end(), |(start, _)| start);
                    self.set(at, Extra { len: end - at, holders: 1 });
                    at = end;
                }
            }
        }
    }

    /// One holder less; `free` gets the blocks that nobody holds any more.
    pub(crate) fn drop_run(&mut self, run: BlockRun, mut free: impl FnMut(BlockRun)) {
        if self.runs.is_empty() {
            return free(run);
        }
        self.split_at(run.start);
        self.split_at(run.end());
        let mut at = run.start;
        while at < run.end() {
            let next = self.runs.range(at..run.end()).next().map(|(start, extra)| (*start, *extra));
            match next {
                Some((start, extra)) if start == at => {
                    if extra.holders > 1 {
                        self.set(start, Extra { holders: extra.holders - 1, ..extra });
                    } else {
                        self.runs.remove(&start);
                        self.changed.push(start);
                    }
                    at += extra.len;
                }
                _ => {
                    let end = next.map_or(run.end(), |(start, _)| start);
                    free(BlockRun::new(at, end - at));
                    at = end;
                }
            }
        }
    }

    fn set(&mut self, start: u64, extra: Extra) {
        self.runs.insert(start, extra);
        self.changed.push(start);
    }

    /// Cuts the run that reaches over this block's beginning.
    fn split_at(&mut self, block: u64) {
        let Some((&start, &extra)) = self.runs.range(..block).next_back() else { return };
        if start + extra.len > block {
            self.set(start, Extra { len: block - start, ..extra });
            self.set(block, Extra { len: start + extra.len - block, ..extra });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Rng;

    #[test]
    fn counts_are_those_of_each_block() {
        let mut rng = Rng::new(9);
        for _ in 0..200 {
            let (mut shared, mut holders) = (Shared::default(), [1u32; 64]);
            for _ in 0..30 {
                let start = rng.below(60);
                let run = BlockRun::new(start, 1 + rng.below(64 - start));
                let (first, end) = (run.start as usize, run.end() as usize);
                if rng.chance(1, 2) {
                    if holders[first..end].contains(&0) {
                        continue;
                    }
                    shared.add(run);
                    holders[first..end].iter_mut().for_each(|n| *n += 1);
                } else {
                    if holders[first..end].contains(&0) {
                        continue;
                    }
                    let mut free: Vec<BlockRun> = Vec::new();
                    shared.drop_run(run, |run| free.push(run));
                    holders[first..end].iter_mut().for_each(|n| *n -= 1);
                    let freed: Vec<u64> = free.iter().flat_map(|r| r.start..r.end()).collect();
                    let expected: Vec<u64> = (run.start..run.end()).filter(|&b| holders[b as usize] == 0).collect();
                    assert_eq!(freed, expected);
                }
            }
            for (block, &count) in holders.iter().enumerate() {
                let at = block as u64;
                let extra = shared.iter().find(|(run, _)| run.start <= at && at < run.end()).map_or(0, |(_, n)| n);
                assert_eq!(extra, count.saturating_sub(1), "block {block}");
            }
        }
    }
}
