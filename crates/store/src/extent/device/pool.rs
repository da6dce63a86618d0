//! Memory of buffers that nobody uses at the moment, for the next ones of the same size.
//!
//! Owns a bounded stock of each thread's. What an allocator gives for a buffer of many pages is often new to the
//! process: the kernel clears it, page by page, and takes it back soon after. So what was just let go is kept.

use super::{BLOCK_BYTES, Memory};
use base::hash::FixedHashMap;
use std::cell::RefCell;

/// The largest buffer that is kept.
pub(super) const BUFFER_BYTES_MAX: usize = 1 << 20;

/// What one thread keeps: a few of the largest.
const STOCK_BYTES_MAX: usize = 4 << 20;

/// What it keeps of one size, but for a few of the large ones: more are not let go before the next are asked for.
const SIZE_BYTES_MAX: usize = 512 << 10;
const LARGE_MAX: usize = 4;

#[derive(Default)]
struct Stock {
    /// By their room.
    buffers: FixedHashMap<usize, Vec<Memory>>,
    bytes: usize,
}

thread_local! {
    static STOCK: RefCell<Stock> = RefCell::default();
}

/// Memory with exactly this room. It holds what was last in it.
pub(super) fn take(room: usize) -> Option<Memory> {
    let from = |stock: &RefCell<Stock>| {
        let mut stock = stock.borrow_mut();
        let found = stock.buffers.get_mut(&room)?.pop()?;
        stock.bytes -= room;
        Some(found)
    };
    STOCK.try_with(from).ok().flatten()
}

/// Takes memory back. Odd sizes are not worth keeping.
pub(super) fn give_back(memory: Memory) {
    let room = memory.room();
    if !(room / BLOCK_BYTES).is_power_of_two() || room > BUFFER_BYTES_MAX {
        return;
    }
    let to = |stock: &RefCell<Stock>| {
        let mut stock = stock.borrow_mut();
        let same = stock.buffers.get(&room).map_or(0, Vec::len);
        if stock.bytes + room <= STOCK_BYTES_MAX && same < LARGE_MAX.max(SIZE_BYTES_MAX / room) {
            stock.bytes += room;
            stock.buffers.entry(room).or_default().push(memory);
        }
    };
    // A thread that ends keeps nothing.
    let _ = STOCK.try_with(to);
}

/// What this thread keeps.
pub(super) fn bytes() -> usize {
    STOCK.try_with(|stock| stock.borrow().bytes).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stock_is_bounded_and_gives_what_fits() {
        let sizes = [1, 2, 3, 512].map(|blocks| blocks * BLOCK_BYTES);
        sizes.iter().for_each(|room| give_back(Memory::new(*room)));
        let taken = sizes.map(|room| take(room).is_some());
        assert_eq!(taken, [true, true, false, false], "neither odd nor huge ones are kept");
        (0..2000).for_each(|_| give_back(Memory::new(BLOCK_BYTES)));
        assert!(take(2 * BLOCK_BYTES).is_none());
        assert_eq!(bytes(), SIZE_BYTES_MAX, "of one size");
        (0..10).for_each(|_| give_back(Memory::new(BUFFER_BYTES_MAX)));
        assert!(bytes() <= STOCK_BYTES_MAX, "of all");
        assert_eq!(core::iter::from_fn(|| take(BUFFER_BYTES_MAX)).count(), 3);
        assert_eq!(core::iter::from_fn(|| take(BLOCK_BYTES)).count(), SIZE_BYTES_MAX / BLOCK_BYTES);
    }
}
