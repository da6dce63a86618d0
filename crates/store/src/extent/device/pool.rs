//! Memory of buffers that nobody uses at the moment, for the next ones of the same size.
//!
//! Owns a bounded stock of each thread's. What an allocator gives for a buffer of many pages is often new to the
//! process: the kernel clears it, page by page, and takes it back soon after. So what was just let go is kept, until for
//! some time nobody has asked for it: a load of large requests leaves buffers that one of small ones has no use for, and
//! the store's cache has.
//!
//! Large buffers are pieces of slabs, each a huge page where the system has such, which all threads share: daemons of one
//! process hand data to each other, and it is let go where it was last used. A device is told of memory page by page
//! unless pages follow each other there, too: a MiB of small ones fills the queue of a virtual machine's disk (virtio
//! without indirect descriptors, 256 of them), where one piece of a huge page takes as much of it as a block does.

use super::{BLOCK_BYTES, Memory};
use base::hash::FixedHashMap;
use bytes::BytesMut;
use core::mem::MaybeUninit;
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The largest buffer that is kept.
pub(crate) const BUFFER_BYTES_MAX: usize = 1 << 20;

/// What one thread keeps: a few of the largest.
const STOCK_BYTES_MAX: usize = 4 << 20;

/// What it keeps of one size, but for a few of the large ones: more are not let go before the next are asked for.
const SIZE_BYTES_MAX: usize = 512 << 10;
const LARGE_MAX: usize = 4;

/// A slab, and how its address is aligned: a huge page of x86-64 and, with small pages of 4 KiB, of arm64.
const SLAB_BYTES: usize = 2 << 20;

const _: () = assert!(SLAB_BYTES == 2 * BUFFER_BYTES_MAX, "a slab is two of the largest buffers");

/// Slabs for each thread that has buffers: six of the largest, as many as an OSD has on their way when clients keep it busy.
/// Where they are all in use, a buffer has other memory.
const SLABS_MAX: usize = 3;

/// Buffers with more room than this have a piece of a slab, whatever they need of it.
pub(super) const SMALL_BYTES_MAX: usize = 128 << 10;

/// How the system is told what pages memory is to have. Neither changes its content.
#[derive(Clone, Copy, Debug)]
pub struct PageAdvice {
    /// As large as there are.
    pub large: fn(&mut [MaybeUninit<u8>]),
    /// Small ones, as all other memory has.
    pub small: fn(&mut [MaybeUninit<u8>]),
}

static ADVICE: OnceLock<PageAdvice> = OnceLock::new();

/// From now on, memory of large buffers lies in slabs of large pages. Those that are let go get small ones again: the
/// allocator would hand them out for small things, of which each would keep a large page.
pub fn use_slabs(advice: PageAdvice) {
    let _ = ADVICE.set(advice);
}

/// Memory of one kind. What came last is taken first.
#[derive(Default)]
struct Shelf {
    idle: Vec<Memory>,
    /// So many of the oldest has nobody taken since the last look.
    unused: usize,
}

impl Shelf {
    fn pop(&mut self) -> Option<Memory> {
        let taken = self.idle.pop();
        self.unused = self.unused.min(self.idle.len());
        taken
    }

    /// Takes out what nobody has taken since the last such look.
    fn take_unused(&mut self) -> Vec<Memory> {
        let unused = self.idle.drain(..self.unused).collect();
        self.unused = self.idle.len();
        unused
    }
}

/// The slabs' pieces.
struct Slabs {
    pieces: Shelf,
    made: usize,
    /// Those that have buffers.
    threads: usize,
    /// How often they have let go what they do not use, since it was so for the slabs.
    looks: usize,
}

static SLABS: Mutex<Slabs> = Mutex::new(Slabs::new());

fn slabs() -> MutexGuard<'static, Slabs> {
    SLABS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slabs {
    const fn new() -> Slabs {
        Slabs { pieces: Shelf { idle: Vec::new(), unused: 0 }, made: 0, threads: 0, looks: 0 }
    }

    fn take(&mut self) -> Option<Memory> {
        let advice = ADVICE.get()?;
        if self.pieces.idle.is_empty() && self.made < SLABS_MAX * self.threads {
            self.made += 1;
            self.pieces.idle.extend(slab(advice.large));
        }
        self.pieces.pop()
    }

    /// Asked for as often as there are threads, lets go what nobody has taken since it last did; slabs only as a whole.
    fn let_unused_go(&mut self) {
        self.looks += 1;
        if self.looks < self.threads {
            return;
        }
        self.looks = 0;
        let mut unused = self.pieces.take_unused();
        unused.sort_by_key(Memory::slab);
        let mut kept = Vec::new();
        while let Some(piece) = unused.pop() {
            match unused.pop_if(|other| other.slab() == piece.slab()) {
                Some(other) => {
                    self.made -= 1;
                    [piece, other].into_iter().for_each(let_piece_go);
                }
                None => kept.push(piece),
            }
        }
        self.pieces.idle.splice(..0, kept);
        self.pieces.unused = self.pieces.idle.len();
    }

    /// What a thread's share of the pieces that nobody uses takes.
    fn share(&self) -> usize {
        self.pieces.idle.len() * BUFFER_BYTES_MAX / self.threads.max(1)
    }
}

/// A thread's own buffers, by their room.
struct Stock {
    buffers: FixedHashMap<usize, Shelf>,
    bytes: usize,
}

impl Stock {
    fn new() -> Stock {
        slabs().threads += 1;
        Stock { buffers: FixedHashMap::default(), bytes: 0 }
    }

    /// Lets go what has not been taken since the last time.
    fn let_unused_go(&mut self) {
        for (room, shelf) in &mut self.buffers {
            self.bytes -= room * shelf.take_unused().len();
        }
    }
}

impl Drop for Stock {
    fn drop(&mut self) {
        slabs().threads -= 1;
    }
}

/// A new slab, in pieces.
fn slab(in_large_pages: fn(&mut [MaybeUninit<u8>])) -> impl Iterator<Item = Memory> {
    // What lies before and behind it is never touched, and takes no memory.
    let mut around = BytesMut::with_capacity(2 * SLAB_BYTES);
    let mut rest = around.split_off(around.as_ptr().align_offset(SLAB_BYTES));
    in_large_pages(&mut rest.spare_capacity_mut()[..SLAB_BYTES]);
    (0..SLAB_BYTES / BUFFER_BYTES_MAX).map(move |_| {
        let behind = rest.split_off(BUFFER_BYTES_MAX);
        let bytes = core::mem::replace(&mut rest, behind);
        Memory { bytes, start: 0, room: BUFFER_BYTES_MAX, of_slab: true }
    })
}

/// Lets go of a slab's piece.
fn let_piece_go(mut piece: Memory) {
    piece.bytes.clear();
    if let Some(advice) = ADVICE.get() {
        (advice.small)(&mut piece.bytes.spare_capacity_mut()[..BUFFER_BYTES_MAX]);
    }
}

thread_local! {
    static STOCK: RefCell<Stock> = RefCell::new(Stock::new());
}

impl Memory {
    /// Which slab it is a piece of.
    fn slab(&self) -> usize {
        self.bytes.as_ptr().addr() / SLAB_BYTES
    }
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

/// Memory with this room for a buffer that is soon let go: a piece of a slab, where it is for a large one.
pub(super) fn take_passing(room: usize) -> Option<Memory> {
    let is_large = room > SMALL_BYTES_MAX && room <= BUFFER_BYTES_MAX;
    let piece = || STOCK.try_with(|_| slabs().take()).ok().flatten();
    let piece = is_large.then(piece).flatten().map(|piece| Memory { room, ..piece });
    piece.or_else(|| take(room))
}

/// Takes memory back. Odd sizes are not worth keeping.
pub(super) fn give_back(memory: Memory) {
    if memory.of_slab {
        return slabs().pieces.idle.push(memory);
    }
    let room = memory.room;
    if !(room / BLOCK_BYTES).is_power_of_two() || room > BUFFER_BYTES_MAX {
        return;
    }
    let to = |stock: &RefCell<Stock>| {
        let mut stock = stock.borrow_mut();
        let same = stock.buffers.get(&room).map_or(0, |shelf| shelf.idle.len());
        if stock.bytes + room <= STOCK_BYTES_MAX && same < LARGE_MAX.max(SIZE_BYTES_MAX / room) {
            stock.bytes += room;
            stock.buffers.entry(room).or_default().idle.push(memory);
        }
    };
    // A thread that ends keeps nothing.
    let _ = STOCK.try_with(to);
}

/// What this thread keeps, and its share of what all do.
pub(super) fn bytes() -> usize {
    STOCK.try_with(|stock| stock.borrow().bytes + slabs().share()).unwrap_or(0)
}

/// Lets go what this thread keeps and has not used since it last did this.
pub fn let_unused_go() {
    let both = |stock: &RefCell<Stock>| {
        stock.borrow_mut().let_unused_go();
        slabs().let_unused_go();
    };
    let _ = STOCK.try_with(both);
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn large_buffers_are_pieces_of_slabs_as_long_as_there_are_some() {
        fn note(memory: &mut [MaybeUninit<u8>]) {
            assert_eq!((memory.as_ptr().align_offset(SLAB_BYTES), memory.len()), (0, SLAB_BYTES));
        }
        let mut pieces: Vec<Memory> = slab(note).collect();
        assert!(pieces.iter().all(|piece| piece.of_slab && piece.bytes.capacity() == BUFFER_BYTES_MAX));
        let places = [0, 1].map(|at: usize| pieces[at].bytes.as_ptr());
        assert_eq!(places[1].addr() - places[0].addr(), BUFFER_BYTES_MAX);
        pieces.iter_mut().for_each(|piece| piece.bytes.resize(BUFFER_BYTES_MAX, 7));
        assert_eq!(places, [0, 1].map(|at: usize| pieces[at].bytes.as_ptr()), "they are filled where they lie");

        let mut slabs = Slabs { threads: 2, ..Slabs::new() };
        static SMALL: AtomicUsize = AtomicUsize::new(0);
        fn note_small(memory: &mut [MaybeUninit<u8>]) {
            SMALL.fetch_add(memory.len(), Ordering::Relaxed);
        }
        use_slabs(PageAdvice { large: note, small: note_small });
        let all: Vec<Memory> = core::iter::from_fn(|| slabs.take()).collect();
        assert_eq!(all.len(), 2 * SLABS_MAX * SLAB_BYTES / BUFFER_BYTES_MAX);
        slabs.pieces.idle.extend(all);
        let look = |slabs: &mut Slabs| {
            (0..2).for_each(|_| slabs.let_unused_go());
            (slabs.pieces.idle.len(), slabs.made)
        };
        let piece = slabs.take().expect("they are back");
        look(&mut slabs);
        slabs.let_unused_go();
        assert_eq!(slabs.made, 2 * SLABS_MAX, "it is the other thread's turn");
        slabs.let_unused_go();
        assert_eq!((slabs.pieces.idle.len(), slabs.made), (1, 1), "the other half of what is in use stays");
        slabs.pieces.idle.push(piece);
        assert_eq!((look(&mut slabs), look(&mut slabs)), ((2, 1), (0, 0)), "it had been used");
        // Other tests of this process may let theirs go, too.
        assert!(SMALL.load(Ordering::Relaxed) >= 2 * SLABS_MAX * SLAB_BYTES, "all have small pages again");
        assert!(slabs.take().is_some(), "a new one is made");
        let taken = [SMALL_BYTES_MAX, 2 * SMALL_BYTES_MAX, BUFFER_BYTES_MAX + 1].map(take_passing);
        assert_eq!(
            taken.map(|memory| memory.map(|memory| (memory.room, memory.of_slab))),
            [None, Some((2 * SMALL_BYTES_MAX, true)), None]
        );
    }

    #[test]
    fn the_stock_is_bounded_and_gives_what_fits() {
        let own = || STOCK.with(|stock| stock.borrow().bytes);
        let sizes = [1, 2, 3, 512].map(|blocks| blocks * BLOCK_BYTES);
        sizes.iter().for_each(|room| give_back(Memory::new(*room)));
        let taken = sizes.map(|room| take(room).is_some());
        assert_eq!(taken, [true, true, false, false], "neither odd nor huge ones are kept");
        (0..2000).for_each(|_| give_back(Memory::new(BLOCK_BYTES)));
        assert!(take(2 * BLOCK_BYTES).is_none());
        assert_eq!(own(), SIZE_BYTES_MAX, "of one size");
        let_unused_go();
        assert_eq!(own(), SIZE_BYTES_MAX, "of some use until now");
        let used: Vec<Memory> = (0..3).filter_map(|_| take(BLOCK_BYTES)).collect();
        used.into_iter().for_each(give_back);
        let_unused_go();
        assert_eq!(own(), 3 * BLOCK_BYTES, "what was used");
        (0..2000).for_each(|_| give_back(Memory::new(BLOCK_BYTES)));
        (0..10).for_each(|_| give_back(Memory::new(BUFFER_BYTES_MAX)));
        assert!(own() <= STOCK_BYTES_MAX, "of all");
        assert_eq!(core::iter::from_fn(|| take(BUFFER_BYTES_MAX)).count(), 3);
        assert_eq!(core::iter::from_fn(|| take(BLOCK_BYTES)).count(), SIZE_BYTES_MAX / BLOCK_BYTES);
    }
}
