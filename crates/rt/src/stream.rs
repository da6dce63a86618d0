//! One socket: its reading task, and writes that never wait.
//!
//! Owns the buffers between socket and messenger. Payloads leave the read buffer as slices, so a message is not copied
//! on its way to the engine; the buffer grows to exactly one big frame when the messenger says how much is missing.
//! A stream has a buffer of its own only while part of a frame waits in it: all others of a thread read into one, so
//! that an idle client costs none.

use crate::daemon::Daemon;
use crate::linger::Found;
use crate::reactor::{Node, Shared};
use admin::Transport;
use base::Instant;
use bytes::BytesMut;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::{AbortHandle, spawn_local};
use wire::msgr::{Messenger, StreamId};

/// Room offered to a read: as much where messages are so small that it holds a crowd of them, and as much where they are
/// not.
const READ_BYTES_SMALL: usize = 16 << 10;
const READ_BYTES: usize = 64 << 10;

/// A read that brings more messages than the second has room for too many, one that brings fewer than the first for too
/// few.
const MESSAGES_PER_READ: std::ops::RangeInclusive<usize> = 12..=64;

/// Less room than this part of what is offered is not worth a system call: the buffer is renewed.
const READ_BYTES_LEFT: usize = 4;

/// How many slices one gathered write takes. Linux takes 1024; more than a few dozen gain nothing.
const WRITE_SLICES: usize = 64;

/// Reads, and about how many messages, in a row from one socket before the pump and the other sockets get their turn:
/// more at a time leave the caches before they are answered, and the answers before the client has read them.
const READS_PER_TURN: u32 = 8;
const MESSAGES_PER_TURN: usize = 48;

/// How much room a thread offers to its reads.
#[derive(Debug)]
pub(crate) struct ReadRoom(usize);

impl Default for ReadRoom {
    fn default() -> ReadRoom {
        ReadRoom(READ_BYTES)
    }
}

impl ReadRoom {
    /// Takes note of what a read brought.
    fn brought(&mut self, bytes: usize, messages: usize) {
        if messages > *MESSAGES_PER_READ.end() {
            self.0 = READ_BYTES_SMALL;
        } else if messages < *MESSAGES_PER_READ.start() && bytes > READ_BYTES_SMALL / 2 {
            self.0 = READ_BYTES;
        }
    }
}

/// A connected socket.
#[derive(Debug)]
pub(crate) struct Stream {
    writer: OwnedWriteHalf,
    reader: AbortHandle,
    /// Waits for the socket to take more.
    late_writer: RefCell<Option<AbortHandle>>,
}

impl Stream {
    /// Takes a socket and starts its reading task.
    pub(crate) fn new<D: Daemon + 'static>(id: StreamId, socket: TcpStream, shared: &Rc<Shared<D>>) -> Stream {
        let (reader, writer) = socket.into_split();
        let reader = spawn_local(read(id, reader, shared.clone())).abort_handle();
        Stream { writer, reader, late_writer: RefCell::new(None) }
    }

    /// Writes as much of the stream's bytes as the socket takes. False where some are left.
    pub(crate) fn write(
        &self,
        now: Instant,
        id: StreamId,
        messenger: &mut Messenger,
        carried: &mut Transport,
    ) -> io::Result<bool> {
        while let Some(queue) = messenger.outgoing(id).filter(|queue| !queue.is_empty()) {
            let mut slices = [io::IoSlice::new(&[]); WRITE_SLICES];
            let count = queue.io_slices(&mut slices);
            let written = match &slices[..count] {
                [one] => self.writer.try_write(one),
                many => self.writer.try_write_vectored(many),
            };
            match written {
                Ok(written) => {
                    carried.msgr_send_bytes.add(written as u64);
                    messenger.written(now, id, written);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(e),
            }
        }
        Ok(true)
    }

    /// Ends the stream's tasks; the socket closes with the last of them.
    pub(crate) fn close(&self) {
        self.reader.abort();
        if let Some(writer) = self.late_writer.take() {
            writer.abort();
        }
    }
}

/// Reads until the stream ends.
async fn read<D: Daemon + 'static>(id: StreamId, mut socket: OwnedReadHalf, shared: Rc<Shared<D>>) {
    let (mut partial, mut found) = (BytesMut::new(), Found::default());
    let (mut reads, mut messages) = (0, 0);
    loop {
        let result = poll_fn(|cx| poll_read(cx, id, &mut socket, (&mut partial, &mut found), &shared)).await;
        shared.work.notify_one();
        match result {
            Ok(brought) => (reads, messages) = (reads + 1, messages + brought),
            Err(error) => return shared.node.borrow_mut().fail_stream(id, &error),
        }
        if reads >= READS_PER_TURN || messages >= MESSAGES_PER_TURN {
            (reads, messages) = (0, 0);
            tokio::task::yield_now().await;
        }
    }
}

/// Reads once and hands what came to the messenger; `partial` keeps what is no whole frame yet. Says how many messages
/// that completed, of which `found` has the average.
fn poll_read<D: Daemon + 'static>(
    cx: &mut Context<'_>,
    id: StreamId,
    socket: &mut OwnedReadHalf,
    (partial, found): (&mut BytesMut, &mut Found),
    shared: &Shared<D>,
) -> Poll<io::Result<usize>> {
    let mut node = shared.node.borrow_mut();
    let own = !partial.is_empty();
    let mut buffer = std::mem::take(if own { partial } else { &mut node.read_buffer });
    let (want, room) = (node.messenger.want(id), node.read_room.0);
    if buffer.is_empty() && buffer.capacity() > room {
        buffer = BytesMut::new();
    }
    if buffer.capacity() - buffer.len() < want.max(room / READ_BYTES_LEFT) {
        buffer.reserve(want.max(room));
    }
    let read = pin!(socket.read_buf(&mut buffer)).poll(cx);
    let result = match read {
        Poll::Ready(Ok(0)) => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
        Poll::Ready(Ok(count)) => {
            let messages = node.received(id, &mut buffer, count, found);
            node.read_room.brought(count, messages);
            Poll::Ready(Ok(messages))
        }
        Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
        Poll::Pending => Poll::Pending,
    };
    if !buffer.is_empty() {
        *partial = buffer;
    } else if buffer.capacity() >= node.read_buffer.capacity() {
        node.read_buffer = buffer;
    }
    result
}

/// Waits in a task of its own until the socket takes more, and writes on.
pub(crate) fn write_when_ready<D: Daemon + 'static>(id: StreamId, stream: &Rc<Stream>, shared: &Rc<Shared<D>>) {
    if stream.late_writer.borrow().is_some() {
        return;
    }
    let (own, shared) = (stream.clone(), shared.clone());
    let task = spawn_local(async move {
        loop {
            let ready = own.writer.writable().await;
            let mut node = shared.node.borrow_mut();
            let now = node.clock.now();
            let Node { messenger, carried, .. } = &mut *node;
            match ready.and_then(|()| own.write(now, id, messenger, carried)) {
                Ok(false) => continue,
                Ok(true) => drop(own.late_writer.take()),
                Err(error) => node.fail_stream(id, &error),
            }
            shared.work.notify_one();
            return;
        }
    });
    *stream.late_writer.borrow_mut() = Some(task.abort_handle());
}
