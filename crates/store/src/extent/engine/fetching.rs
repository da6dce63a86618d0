//! Reading what somebody lacks: pages and blocks of data come from the device, are checked, and wake who waits.

use super::jobs::{self, Came, PieceId};
use super::store::{ExtentStore, Purpose};
use crate::contract::StoreError;
use crate::extent::device::{Io, IoBuf};
use crate::extent::layout::{BLOCK, BlockRun};
use crate::extent::state::db::Fetched;
use crate::extent::tree::Fault;
use crate::extent::tree::page::{Page, PagePtr};
use crate::limits::TRANSACTION_BYTES_MAX;
use bytes::Bytes;
use std::sync::Arc;

/// The longest page: one entry, which came with a transaction.
const PAGE_BLOCKS_MAX: u64 = TRANSACTION_BYTES_MAX as u64 / BLOCK + 1;

impl ExtentStore {
    /// Has read what somebody lacks, and what is expected to be asked for next.
    pub(super) fn fetch(&mut self, fault: Fault) {
        let expected = core::mem::take(&mut self.db.expected);
        self.fetch_one(fault);
        for ptr in expected {
            if !self.db.cache.has_block(ptr.block) {
                self.fetch_one(Fault::Page(ptr));
            }
        }
    }

    fn fetch_one(&mut self, fault: Fault) {
        let (block, blocks, purpose) = match fault {
            Fault::Page(ptr) => (ptr.block, u64::from(ptr.blocks), Purpose::FetchPage(ptr)),
            Fault::Data(block, crc) => (block, 1, Purpose::FetchData(block, crc)),
            Fault::Room | Fault::Turn | Fault::Failed(_) => return,
        };
        if !self.fetching.insert(block) {
            return;
        }
        if !self.geometry.is_data(BlockRun::new(block, blocks)) || blocks > PAGE_BLOCKS_MAX {
            let error = wire::Malformed::new("page", "lies where no page can be").into();
            return self.came(block, Fetched::Bad(error));
        }
        let buf = IoBuf::to_fill((blocks * BLOCK) as usize);
        self.request(Io::Read { offset: block * BLOCK, buf }, purpose);
    }

    fn came(&mut self, block: u64, fetched: Fetched) {
        self.fetching.remove(&block);
        self.counts.checksum_errors += u64::from(matches!(fetched, Fetched::Bad(StoreError::Corrupt(_))));
        self.db.fetched(block, fetched);
        self.retry = true;
    }

    pub(super) fn page_came(&mut self, ptr: PagePtr, data: Option<Bytes>) {
        let page = data.ok_or(StoreError::Device).and_then(|data| Ok(Page::parse(ptr, data)?));
        self.came(ptr.block, page.map_or_else(Fetched::Bad, |page| Fetched::Page(Arc::new(page))));
    }

    pub(super) fn data_came(&mut self, block: u64, crc: u32, data: Option<Bytes>) {
        let data = data.ok_or(StoreError::Device).and_then(|data| jobs::check(&data, &[crc]).map(|()| data));
        self.came(block, data.map_or_else(Fetched::Bad, Fetched::Data));
    }

    pub(super) fn piece_came(&mut self, piece: PieceId, block: u64, data: Option<Bytes>) {
        let (done, came) = self.jobs.came(piece, data.ok_or(StoreError::Device));
        match came {
            Came::ToKeep(data) => self.db.cache.keep_data(block, data),
            Came::Good => {}
            Came::Bad => self.counts.checksum_errors += 1,
        }
        if let Some(done) = &done {
            self.read_ended(done);
        }
        self.completions.extend(done);
    }
}
