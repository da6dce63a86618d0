//! A file or block device under an extent store, by io_uring and direct I/O.
//!
//! Owns the ring, the buffers of requests on their way, and the bell that rings when one ends. Requests are collected
//! and handed to the kernel together. A transfer that ends short is a failure, as nothing can be said of the rest.
//!
//! Invariants: a buffer stays where it is, and alive, from its submission to its completion; the ring is dropped only
//! after every request has ended; only the thread that opened a device asks it for anything.
#![allow(unsafe_code)]

use crate::program::{in_huge_pages, in_small_pages};
use base::Duration;
use bytes::Bytes;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use store::extent::device::{DeviceFailed, Io, IoBuf, IoId, PageAdvice, ReadAt, WriteAt, use_slabs};

/// Requests in the kernel's hands at once; more wait here.
const ENTRIES: u32 = 256;

/// Reads among them; the other half is for all else. An object that was written here and there is read in as many pieces as
/// it has blocks, 1,024 for 4 MiB, and the record of the log that commits wait for must not stand behind them.
const READS_MAX: usize = ENTRIES as usize / 2;

/// The kernel collects the requests of one call for the device only where there are more than two (`IO_PLUG_THRESHOLD` of
/// Linux's `io_uring/io_uring.c`, v6.18): each of two would be made known to it alone, which costs more than all else.
const UNCOLLECTED: usize = 2;

/// The user data of what keeps no slot.
const NO_SLOT: u64 = u64::MAX;

/// A write that is durable when it completes (`RWF_DSYNC` of Linux's `linux/fs.h`).
const DURABLE: i32 = 2;

/// How long a device may stay locked by a process that has just been killed.
const LET_GO_LIMIT: Duration = Duration::from_secs(2);

/// A device.
pub struct BlockDevice {
    ring: IoUring,
    file: File,
    bell: OwnedFd,
    size: u64,
    /// What is on its way, by slot.
    slots: Vec<Option<(IoId, Io)>>,
    /// Of each slot, where its request's pieces lie.
    vectors: Vec<Vectors>,
    free: Vec<usize>,
    reading: usize,
    waiting_reads: VecDeque<(IoId, Io)>,
    /// All else that waits.
    waiting: VecDeque<(IoId, Io)>,
    unsubmitted: bool,
}

/// A request that has ended: a read's buffer comes back.
pub type Ended = (IoId, Result<Option<IoBuf>, DeviceFailed>);

impl BlockDevice {
    /// Opens what is at `path`; a file that is missing is made, and one shorter than `bytes` is extended to that.
    pub fn open(path: &Path, bytes: u64) -> io::Result<BlockDevice> {
        let open = |flags: OFlags| {
            let flags = i32::try_from(flags.bits()).unwrap_or(0);
            File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(flags)
                .open(path)
        };
        let file = match open(OFlags::DIRECT) {
            // A file system in memory has no direct I/O, and no need of it.
            Err(error) if error.kind() == ErrorKind::InvalidInput => open(OFlags::empty())?,
            other => other?,
        };
        if !lock(&file, FlockOperation::NonBlockingLockExclusive) {
            return Err(io::Error::new(ErrorKind::ResourceBusy, "is in use by another process"));
        }
        let size = size_of_device(&file)?;
        let size = if file.metadata()?.is_file() && size < bytes {
            file.set_len(bytes)?;
            bytes
        } else {
            size
        };
        use_slabs(PageAdvice { large: in_huge_pages, small: in_small_pages });
        let ring = ring()?;
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        ring.submitter().register_eventfd(bell.as_raw_fd())?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let (slots, free) = ((0..ENTRIES).map(|_| None).collect(), (0..ENTRIES as usize).rev().collect());
        let vectors = (0..ENTRIES).map(|_| Vectors::default()).collect();
        let (waiting_reads, waiting) = Default::default();
        Ok(BlockDevice {
            ring,
            file,
            bell,
            size,
            slots,
            vectors,
            free,
            reading: 0,
            waiting_reads,
            waiting,
            unsubmitted: false,
        })
    }

    /// A descriptor that becomes readable when a request has ended: the first since the device was asked last.
    pub fn bell(&self) -> io::Result<OwnedFd> {
        self.bell.as_fd().try_clone_to_owned()
    }

    /// Takes a request; `submit` hands it on.
    pub fn push(&mut self, id: IoId, io: Io) {
        self.queue_of(&io).push_back((id, io));
    }

    fn queue_of(&mut self, io: &Io) -> &mut VecDeque<(IoId, Io)> {
        if let Io::Read { .. } = io { &mut self.waiting_reads } else { &mut self.waiting }
    }

    /// Whose turn it is: a device keeps no order among what it has at once, so nobody may count on one here.
    fn next_waiting(&mut self) -> Option<(IoId, Io)> {
        let others = ENTRIES as usize - self.free.len() - self.reading;
        if others < ENTRIES as usize - READS_MAX
            && let Some(other) = self.waiting.pop_front()
        {
            return Some(other);
        }
        let read = (self.reading < READS_MAX).then(|| self.waiting_reads.pop_front()).flatten();
        self.reading += usize::from(read.is_some());
        read
    }

    /// How many requests have not ended.
    pub fn in_flight(&self) -> usize {
        ENTRIES as usize - self.free.len() + self.waiting.len() + self.waiting_reads.len()
    }

    /// Hands everything collected to the kernel, and lets it tell what has ended.
    pub fn submit(&mut self) -> io::Result<()> {
        while !self.free.is_empty()
            && let Some((id, io)) = self.next_waiting()
        {
            let slot = self.free.pop().expect("it is not empty");
            let (_, io) = self.slots[slot].insert((id, io));
            let entry = entry(THE_FILE, io, &mut self.vectors[slot]).user_data(slot as u64);
            // SAFETY: the buffers that the entry points to are owned by `slots[slot]`, and their list by `vectors[slot]`;
            // neither is touched until the completion with this slot's number has come, and heap memory does not move with
            // its owner.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            assert!(pushed.is_ok(), "there are as many entries as slots");
            self.unsubmitted = true;
        }
        if self.ring.submission().len() == UNCOLLECTED {
            let third = opcode::Nop::new().build().flags(squeue::Flags::SKIP_SUCCESS).user_data(NO_SLOT);
            // SAFETY: it points to nothing.
            let pushed = unsafe { self.ring.submission().push(&third) };
            debug_assert!(pushed.is_ok(), "two entries leave room");
        }
        if self.ring.submission().taskrun() {
            self.with_the_bell_still(|device| device.enter(0))?;
        } else if self.unsubmitted {
            self.enter(0)?;
        }
        self.unsubmitted = false;
        Ok(())
    }

    /// Waits until so many of the requests in the kernel's hands have ended, at the longest for `limit`. Wakes the thread once
    /// for all of them, where the bell would for each.
    ///
    /// A clock is set for the limit, which costs a virtual machine more than the wake-ups do unless the kernel's next tick
    /// comes first.
    pub fn wait_for(&mut self, count: usize, limit: Duration) -> io::Result<()> {
        let count = count.min(ENTRIES as usize - self.free.len());
        if count == 0 || !self.ring.params().is_feature_ext_arg() {
            return Ok(());
        }
        let limit = types::Timespec::from(limit);
        self.with_the_bell_still(|device| {
            let waited = device.ring.submitter().submit_with_args(count, &types::SubmitArgs::new().timespec(&limit));
            match waited {
                Ok(_) => Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted || is_over(&error) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }

    /// Lets the kernel tell what has ended, by `enter`. The bell is still meanwhile, as the ends come to light at once; it
    /// would bring the thread back for nothing.
    fn with_the_bell_still(&mut self, enter: impl FnOnce(&BlockDevice) -> io::Result<()>) -> io::Result<()> {
        self.ring.completion().disable_eventfd();
        let entered = enter(self);
        self.ring.completion().enable_eventfd();
        entered?;
        // The kernel marks first, and looks at the bell then: what ended beside this and rang nothing is marked.
        fence(Ordering::SeqCst);
        // With the bell, so that nothing is missed. Only once: the mark may be an old one, which the kernel sets last of
        // all when a request ends and may by then have been asked for.
        if self.ring.submission().taskrun() { self.enter(0) } else { Ok(()) }
    }

    fn enter(&self, wait_for: usize) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(wait_for) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until a request has ended.
    pub fn wait(&mut self) -> io::Result<()> {
        self.submit()?;
        if self.in_flight() > 0 { self.enter(1) } else { Ok(()) }
    }

    /// The requests that had ended when `submit` or `wait` was called.
    pub fn ended(&mut self, out: &mut Vec<Ended>) {
        let mut again = Vec::new();
        for completion in self.ring.completion() {
            let slot = completion.user_data() as usize;
            let Some((id, io)) = self.slots.get_mut(slot).and_then(Option::take) else { continue };
            self.free.push(slot);
            self.reading -= usize::from(matches!(io, Io::Read { .. }));
            let result = completion.result();
            if result == -libc_eintr() || result == -libc_eagain() {
                again.push((id, io));
                continue;
            }
            out.push((id, outcome(io, result)));
        }
        for (id, io) in again.into_iter().rev() {
            self.queue_of(&io).push_front((id, io));
        }
    }
}

/// A ring whose completions wait until the thread asks for them (Linux 6.1): those that come together ring the bell once,
/// and none ends the thread's wait for sockets as a signal would. On an older kernel they come as they like.
fn ring() -> io::Result<IoUring> {
    let patient = IoUring::builder().setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().build(ENTRIES);
    match patient {
        Err(error) if error.kind() == ErrorKind::InvalidInput => IoUring::new(ENTRIES),
        other => other,
    }
}

/// Whether a wait ended because its time was over.
fn is_over(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::TIME.raw_os_error())
}

fn libc_eintr() -> i32 {
    rustix::io::Errno::INTR.raw_os_error()
}

fn libc_eagain() -> i32 {
    rustix::io::Errno::AGAIN.raw_os_error()
}

fn outcome(io: Io, result: i32) -> Result<Option<IoBuf>, DeviceFailed> {
    let whole = |len: usize| usize::try_from(result) == Ok(len);
    match io {
        Io::Read { buf, .. } if whole(buf.as_ref().len()) => Ok(Some(buf)),
        Io::Write { data, .. } if whole(data.len()) => Ok(None),
        Io::WriteVectored { pieces, .. } if whole(pieces.iter().map(Bytes::len).sum()) => Ok(None),
        Io::Flush if result >= 0 => Ok(None),
        // Whether a device took the hint is its own business.
        Io::Discard { .. } => Ok(None),
        Io::Read { offset, .. } => Err(failed("read", offset, result)),
        Io::Write { offset, .. } | Io::WriteVectored { offset, .. } => Err(failed("write", offset, result)),
        Io::Flush => Err(failed("flush", 0, result)),
    }
}

fn failed(what: &str, offset: u64, result: i32) -> DeviceFailed {
    let why = if result < 0 { io::Error::from_raw_os_error(-result).to_string() } else { format!("short: {result}") };
    tracing::error!("the device failed to {what} at {offset}: {why}");
    DeviceFailed
}

/// A list of pieces of memory as the kernel reads it. It owns none of them.
#[derive(Default)]
struct Vectors(Vec<libc::iovec>);

// SAFETY: it is read by the kernel alone, which does not care for threads.
unsafe impl Send for Vectors {}

impl Vectors {
    /// Lists these pieces; those that follow each other in memory as one.
    fn list(&mut self, pieces: &[Bytes]) {
        self.0.clear();
        for piece in pieces {
            match self.0.last_mut() {
                Some(last) if last.iov_base.addr() + last.iov_len == piece.as_ptr().addr() => {
                    last.iov_len += piece.len()
                }
                _ => self.0.push(libc::iovec { iov_base: piece.as_ptr().cast_mut().cast(), iov_len: piece.len() }),
            }
        }
    }
}

/// The device among the ring's registered files, which are not looked up and held anew for each request.
const THE_FILE: types::Fixed = types::Fixed(0);

/// The kernel's form of a request; one of several pieces has them listed in `vectors`.
fn entry(fd: types::Fixed, io: &mut Io, vectors: &mut Vectors) -> squeue::Entry {
    match io {
        Io::WriteVectored { offset, pieces } => {
            vectors.list(pieces);
            opcode::Writev::new(fd, vectors.0.as_ptr(), vectors.0.len() as u32).offset(*offset).build()
        }
        Io::Read { offset, buf } => {
            let buf = buf.as_mut();
            opcode::Read::new(fd, buf.as_mut_ptr(), buf.len() as u32).offset(*offset).build()
        }
        Io::Write { offset, data, durable } => {
            let flags = if *durable { DURABLE } else { 0 };
            opcode::Write::new(fd, data.as_ptr(), data.len() as u32).offset(*offset).rw_flags(flags).build()
        }
        Io::Flush => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        Io::Discard { offset, len } => {
            let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            opcode::Fallocate::new(fd, *len).offset(*offset).mode(mode.bits() as i32).build()
        }
    }
}

impl Drop for BlockDevice {
    fn drop(&mut self) {
        let abandon = |device: &mut BlockDevice| (device.waiting.clear(), device.waiting_reads.clear());
        abandon(self);
        let mut ended = Vec::new();
        // The kernel may still write into the buffers: they have to outlive that.
        while self.free.len() < ENTRIES as usize {
            if self.enter(1).is_err() {
                self.slots.drain(..).flatten().for_each(std::mem::forget);
                return;
            }
            self.ended(&mut ended);
            abandon(self);
        }
        // The kernel takes its time over a ring: until then the file would stay open, and locked.
        let _ = self.ring.submitter().unregister_files();
    }
}

impl std::fmt::Debug for BlockDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BlockDevice").field("size", &self.size).field("in_flight", &self.in_flight()).finish()
    }
}

impl ReadAt for BlockDevice {
    fn read_at(&mut self, offset: u64, buf: &mut IoBuf) -> Result<(), DeviceFailed> {
        self.file.read_exact_at(buf.as_mut(), offset).map_err(|_| DeviceFailed)
    }

    fn size(&self) -> u64 {
        self.size
    }
}

impl WriteAt for BlockDevice {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), DeviceFailed> {
        self.file.write_all_at(data, offset).map_err(|_| DeviceFailed)
    }

    fn flush(&mut self) -> Result<(), DeviceFailed> {
        self.file.sync_all().map_err(|_| DeviceFailed)
    }
}

/// A file or block device that is only looked at.
#[derive(Debug)]
pub struct ReadOnlyDevice {
    file: File,
    size: u64,
}

impl ReadOnlyDevice {
    /// Opens it. What a running OSD writes meanwhile would look like damage: it is refused.
    pub fn open(path: &Path) -> io::Result<ReadOnlyDevice> {
        let file = File::open(path)?;
        if !lock(&file, FlockOperation::NonBlockingLockShared) {
            return Err(io::Error::new(ErrorKind::ResourceBusy, "is in use: stop its OSD first"));
        }
        let size = size_of_device(&file)?;
        Ok(ReadOnlyDevice { file, size })
    }
}

impl ReadAt for ReadOnlyDevice {
    fn read_at(&mut self, offset: u64, buf: &mut IoBuf) -> Result<(), DeviceFailed> {
        self.file.read_exact_at(buf.as_mut(), offset).map_err(|_| DeviceFailed)
    }

    fn size(&self) -> u64 {
        self.size
    }
}

/// Locks a device. The kernel lets go of the ring of a killed process, and of the files in it, a little after the process
/// is gone.
fn lock(file: &File, how: FlockOperation) -> bool {
    let began = std::time::Instant::now();
    while rustix::fs::flock(file, how).is_err() {
        if began.elapsed() > LET_GO_LIMIT {
            return false;
        }
        std::thread::sleep(LET_GO_LIMIT / 100);
    }
    true
}

fn size_of_device(mut file: &File) -> io::Result<u64> {
    let metadata = file.metadata()?;
    if metadata.file_type().is_block_device() {
        return io::Seek::seek(&mut file, io::SeekFrom::End(0));
    }
    Ok(metadata.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait_for(device: &mut BlockDevice, count: usize) -> Vec<Ended> {
        let mut ended = Vec::new();
        while ended.len() < count {
            device.wait().expect("the ring works");
            device.ended(&mut ended);
        }
        ended.sort_by_key(|(id, _)| *id);
        ended
    }

    /// Recovery read objects of 4 MiB in a thousand pieces each, and for seconds no write of a client was durable: the log's
    /// record waited until the last piece but 255 had come.
    #[test]
    fn a_write_does_not_wait_for_many_reads() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut device = BlockDevice::open(&dir.path().join("block"), 4 << 20).expect("a ring");
        let reads = 4 * u64::from(ENTRIES);
        for id in 0..reads {
            device.push(IoId(id), Io::Read { offset: id * 4096, buf: IoBuf::new(4096) });
        }
        device.submit().expect("the ring works");
        device.push(IoId(reads), Io::Write { offset: 0, data: Bytes::from_owner(IoBuf::new(4096)), durable: true });
        device.submit().expect("the ring works");
        let is_under_way = |slot: &Option<(IoId, Io)>| slot.as_ref().is_some_and(|(id, _)| *id == IoId(reads));
        assert!(device.slots.iter().any(is_under_way), "the write is in the kernel's hands");
        assert_eq!(wait_for(&mut device, reads as usize + 1).len(), reads as usize + 1);
    }

    #[test]
    fn what_is_written_is_read_and_what_is_beyond_the_end_fails() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("block");
        let mut device = BlockDevice::open(&path, 4 << 20).expect("a ring");
        for at in 0..600u64 {
            let data = Bytes::from_owner(IoBuf::copy_of(&[at as u8; 4096]));
            device.push(IoId(at), Io::Write { offset: at * 4096, data, durable: at % 100 == 0 });
        }
        assert!(wait_for(&mut device, 600).iter().all(|(_, result)| result.is_ok()));
        device.push(IoId(0), Io::Flush);
        device.push(IoId(1), Io::Read { offset: 5 * 4096, buf: IoBuf::new(8192) });
        device.push(IoId(2), Io::Read { offset: 4 << 20, buf: IoBuf::new(4096) });
        let ended = wait_for(&mut device, 3);
        let read = ended[1].1.as_ref().expect("inside").as_ref().expect("a buffer");
        assert_eq!((read.as_ref()[0], read.as_ref()[4096]), (5, 6));
        assert!(ended[2].1.is_err(), "nothing is beyond the end");
        assert_eq!(device.in_flight(), 0);
        assert!(BlockDevice::open(&path, 0).is_err() && ReadOnlyDevice::open(&path).is_err(), "one user at a time");
        let twos = Bytes::from_owner(IoBuf::copy_of(&[2; 8192]));
        let pieces = vec![Bytes::from_owner(IoBuf::new(4096)), twos.slice(..4096), twos.slice(4096..)];
        device.push(IoId(0), Io::WriteVectored { offset: 7 * 4096, pieces });
        assert!(wait_for(&mut device, 1)[0].1.is_ok());
        assert!(device.vectors.iter().any(|vectors| vectors.0.len() == 2), "neighbours in memory are one");
        device.push(IoId(0), Io::Read { offset: 6 * 4096, buf: IoBuf::new(5 * 4096) });
        let ended = wait_for(&mut device, 1);
        let read = ended[0].1.as_ref().expect("inside").as_ref().expect("a buffer");
        assert!(read.as_ref().chunks(4096).map(|block| block[0]).eq([6, 0, 2, 2, 10]));
        drop(device);
        assert_eq!(ReadOnlyDevice::open(&path).expect("free now").size(), 4 << 20);
    }

    #[test]
    fn two_requests_end_as_two() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut device = BlockDevice::open(&dir.path().join("block"), 4 << 20).expect("a ring");
        for round in 0..2 * u64::from(ENTRIES) {
            for id in [2 * round, 2 * round + 1] {
                device.push(IoId(id), Io::Read { offset: 0, buf: IoBuf::new(4096) });
            }
            let ended = wait_for(&mut device, 2);
            assert_eq!(ended.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [2 * round, 2 * round + 1]);
            assert_eq!((device.in_flight(), device.free.len()), (0, ENTRIES as usize));
        }
    }

    #[test]
    fn so_many_ends_are_waited_for_and_no_longer_than_said() {
        let (silent, mut nothing) = (eventfd(0, EventfdFlags::CLOEXEC).expect("a counter"), [0; 8]);
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut device = BlockDevice::open(&dir.path().join("block"), 4 << 20).expect("a ring");
        let mut ended = Vec::new();
        device.wait_for(1, Duration::MAX).expect("there is nothing to wait for");
        for id in 0..10 {
            device.push(IoId(id), Io::Read { offset: id * 4096, buf: IoBuf::new(4096) });
        }
        device.submit().expect("the ring works");
        device.wait_for(20, Duration::from_secs(60)).expect("ten are under way");
        device.ended(&mut ended);
        assert_eq!(ended.len(), 10);
        // What never ends by itself: a read of a counter that nobody counts up.
        let read = opcode::Read::new(types::Fd(silent.as_raw_fd()), nothing.as_mut_ptr(), 8).build().user_data(NO_SLOT);
        // SAFETY: the buffer outlives the ring, with which the read ends.
        unsafe { device.ring.submission().push(&read) }.expect("there is room");
        let slot = device.free.pop().expect("all are free");
        let (limit, began) = (Duration::from_millis(20), std::time::Instant::now());
        device.wait_for(1, limit).expect("the time is over");
        assert!(began.elapsed() >= limit, "it was waited for");
        device.free.push(slot);
    }

    #[test]
    fn a_ring_is_dropped_with_requests_on_their_way() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let mut device = BlockDevice::open(&dir.path().join("block"), 4 << 20).expect("a ring");
        for at in 0..100 {
            device.push(IoId(at), Io::Read { offset: at * 4096, buf: IoBuf::new(4096) });
        }
        device.submit().expect("the ring works");
    }
}
