//! A daemon's admin socket: where `ceph daemon NAME ...` asks.
//!
//! Owns the socket's file and the protocol (v16.2 `src/common/admin_socket.cc`): one request a connection, text up to a
//! zero byte or a line end, answered by a big-endian length and so many bytes. What stands in a request is the
//! engine's business. Who may connect is decided by the directory's permissions.
//!
//! Invariant: the file is removed when the daemon stops; one left by a crash is replaced, because who starts a daemon
//! holds the lock of its pid file.

use crate::daemon::Daemon;
use crate::reactor::Shared;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::spawn_local;

/// The longest request: the longest commands there are stay far below.
const REQUEST_BYTES_MAX: usize = 1 << 20;

/// How long a connection may take to say what it wants, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many connections are served at once; further ones wait.
const CONNECTIONS_MAX: usize = 64;

/// The socket of a running daemon.
#[derive(Debug)]
pub(crate) struct AdminSocket {
    path: PathBuf,
}

impl AdminSocket {
    /// Binds the socket and serves it from a task of this thread.
    pub(crate) fn serve<D: Daemon + 'static>(path: &Path, shared: &Rc<Shared<D>>) -> io::Result<AdminSocket> {
        if std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        spawn_local(accept(listener, shared.clone()));
        Ok(AdminSocket { path: path.to_owned() })
    }
}

impl Drop for AdminSocket {
    fn drop(&mut self) {
        // Somebody may have removed it already: then there is nothing to do.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn accept<D: Daemon + 'static>(listener: UnixListener, shared: Rc<Shared<D>>) {
    let room = Rc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = room.clone();
        // A semaphore that nobody closes always gives a permit in the end.
        let Ok(taken) = permit.acquire().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                taken.forget();
                let (shared, room) = (shared.clone(), room.clone());
                spawn_local(async move {
                    let served = tokio::time::timeout(PATIENCE, serve_one(stream, &shared)).await;
                    if let Ok(Err(error)) = served {
                        tracing::debug!(%error, "an admin socket's connection failed");
                    }
                    room.add_permits(1);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "accepting on the admin socket failed");
                tokio::time::sleep(PATIENCE).await;
            }
        }
    }
}

async fn serve_one<D: Daemon + 'static>(mut stream: UnixStream, shared: &Rc<Shared<D>>) -> io::Result<()> {
    let Some(request) = read_request(&mut stream).await? else { return Ok(()) };
    let answer = shared.node.borrow_mut().admin(&request);
    // What the command has changed may have to be sent or stored.
    shared.work.notify_one();
    let length = u32::try_from(answer.len()).map_err(io::Error::other)?;
    stream.write_all(&length.to_be_bytes()).await?;
    stream.write_all(&answer).await
}

/// The request's text; none where the peer left without asking or asks too much.
async fn read_request(stream: &mut UnixStream) -> io::Result<Option<String>> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).await?;
        if let Some(end) = buffer[..count].iter().position(|byte| matches!(byte, 0 | b'\n')) {
            request.extend_from_slice(&buffer[..end]);
            return Ok(Some(String::from_utf8_lossy(&request).into_owned()));
        }
        request.extend_from_slice(&buffer[..count]);
        if count == 0 || request.len() > REQUEST_BYTES_MAX {
            return Ok(None);
        }
    }
}
