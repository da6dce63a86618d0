//! The directory of a cluster on this machine: where everything lies, who is running, how a new one is laid out.
//!
//! Owns the layout that `up`, `down`, `status` and the daemons share:
//!
//! ```text
//! DIR/ceph.conf                    for clients: CEPH_CONF=DIR/ceph.conf
//! DIR/ceph.client.admin.keyring    the administrator's key
//! DIR/run/NAME.pid                 one server process each, locked while that process lives
//! DIR/log/NAME.log
//! DIR/mon.a/                       the monitor's store and key
//! DIR/osd.N/                       an OSD's key and data
//! ```
//!
//! Invariant: a pid file is locked exactly as long as its process lives, so that what `kill -9` leaves behind is told
//! apart from a running cluster without guessing from pids.

use crate::conf::Conf;
use anyhow::{Context, bail};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A cluster's directory, absolute.
#[derive(Clone, Debug)]
pub(crate) struct ClusterDir {
    root: PathBuf,
}

/// A daemon's pid file, locked until dropped.
#[derive(Debug)]
pub(crate) struct PidFile {
    path: PathBuf,
    file: File,
}

impl Drop for PidFile {
    fn drop(&mut self) {
        // The file goes before the lock does: whoever locks it next finds it gone or finds a new one.
        let _ = fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

/// One server process of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Server {
    /// The pid file's stem: `mon.a`, `osd.0`, or `loligo` for an embedded cluster.
    pub(crate) name: String,
    /// Its process id.
    pub(crate) pid: i32,
}

impl ClusterDir {
    /// The directory `path`, which need not exist.
    pub(crate) fn new(path: &Path) -> anyhow::Result<ClusterDir> {
        let root = std::path::absolute(path).with_context(|| format!("{}: not a usable path", path.display()))?;
        Ok(ClusterDir { root })
    }

    /// The directory itself.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The clients' configuration file.
    pub(crate) fn ceph_conf(&self) -> PathBuf {
        self.root.join("ceph.conf")
    }

    /// The administrator's keyring.
    pub(crate) fn admin_keyring(&self) -> PathBuf {
        self.root.join("ceph.client.admin.keyring")
    }

    /// Where the pid files are.
    pub(crate) fn run(&self) -> PathBuf {
        self.root.join("run")
    }

    /// The log of the server `name`.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.root.join("log").join(format!("{name}.log"))
    }

    /// The data of the daemon `name` (`mon.a`, `osd.3`).
    pub(crate) fn data(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The keyring of the daemon `name`.
    pub(crate) fn daemon_keyring(&self, name: &str) -> PathBuf {
        self.data(name).join("keyring")
    }

    /// Whether a cluster has been laid out here.
    pub(crate) fn is_laid_out(&self) -> bool {
        self.ceph_conf().exists()
    }

    /// The configuration of the cluster laid out here.
    pub(crate) fn read_conf(&self) -> anyhow::Result<Conf> {
        let path = self.ceph_conf();
        let text = fs::read_to_string(&path)
            .with_context(|| format!("{}: no cluster here; `loligo up` makes one", self.root.display()))?;
        Conf::parse(&text).map_err(|e| anyhow::anyhow!("{}: {e}", path.display()))
    }

    /// The ids of the OSDs laid out here, ascending.
    pub(crate) fn osd_ids(&self) -> anyhow::Result<Vec<i32>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.root).with_context(|| self.root.display().to_string())? {
            let name = entry?.file_name();
            ids.extend(name.to_str().and_then(|n| n.strip_prefix("osd.")).and_then(|n| n.parse::<i32>().ok()));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    /// Takes the pid file of the server `name` for this process.
    pub(crate) fn take_pid_file(&self, name: &str) -> anyhow::Result<PidFile> {
        let path = self.run().join(format!("{name}.pid"));
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!("{name} is running already in {}", self.root.display()),
            Err(TryLockError::Error(e)) => return Err(e).with_context(|| path.display().to_string()),
        }
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(PidFile { path, file })
    }

    /// The servers running here: those whose pid files are locked.
    pub(crate) fn running(&self) -> anyhow::Result<Vec<Server>> {
        let Ok(entries) = fs::read_dir(self.run()) else { return Ok(Vec::new()) };
        let mut servers = Vec::new();
        for entry in entries {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|n| n.to_str()).and_then(|n| n.strip_suffix(".pid")) else {
                continue;
            };
            let Ok(file) = File::open(&path) else { continue };
            if matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
                && let Some(pid) = fs::read_to_string(&path).ok().and_then(|t| t.trim().parse().ok())
            {
                servers.push(Server { name: name.to_owned(), pid });
            }
        }
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(servers)
    }

    /// Removes the pid files that processes killed without warning left behind.
    pub(crate) fn sweep_stale_pid_files(&self) -> anyhow::Result<()> {
        let running = self.running()?;
        let Ok(entries) = fs::read_dir(self.run()) else { return Ok(()) };
        for entry in entries {
            let path = entry?.path();
            let stem = path.file_stem().and_then(|n| n.to_str()).unwrap_or_default();
            if path.extension().is_some_and(|e| e == "pid") && running.iter().all(|s| s.name != stem) {
                fs::remove_file(&path).with_context(|| path.display().to_string())?;
            }
        }
        Ok(())
    }

    /// The topmost directory that `create` would have to make, if any: what undoing it removes.
    pub(crate) fn topmost_missing(&self) -> Option<PathBuf> {
        self.root.ancestors().take_while(|a| !a.exists()).last().map(Path::to_path_buf)
    }

    /// Makes the directories every cluster has.
    pub(crate) fn create(&self) -> anyhow::Result<()> {
        for dir in [self.root.clone(), self.run(), self.root.join("log")] {
            private_dir(&dir).with_context(|| format!("{}: cannot be written", dir.display()))?;
        }
        Ok(())
    }
}

/// Makes a directory that only its owner reads: it will hold keys.
pub(crate) fn private_dir(path: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Writes a file whole or not at all, readable by its owner only.
pub(crate) fn write_private(path: &Path, contents: &[u8]) -> anyhow::Result<()> {
    let temporary = path.with_extension("new");
    let write = || -> std::io::Result<()> {
        let mut file = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(contents)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().with_context(|| format!("{}: cannot be written", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_pid_file_is_a_running_server_and_a_stale_one_is_swept() {
        let tmp = tempfile::tempdir().expect("a temporary directory");
        let dir = ClusterDir::new(&tmp.path().join("c")).expect("a usable path");
        assert_eq!(dir.topmost_missing(), Some(tmp.path().join("c")));
        dir.create().expect("writable");
        assert_eq!(dir.topmost_missing(), None);
        let held = dir.take_pid_file("osd.0").expect("free");
        fs::write(dir.run().join("osd.1.pid"), "12345\n").expect("writable");
        // Locks belong to open files, so that even this process sees its own as taken.
        assert!(dir.take_pid_file("osd.0").is_err());
        let me = Server { name: "osd.0".to_owned(), pid: std::process::id() as i32 };
        assert_eq!(dir.running().expect("readable"), vec![me]);
        dir.sweep_stale_pid_files().expect("removable");
        assert!(!dir.run().join("osd.1.pid").exists() && dir.run().join("osd.0.pid").exists());
        drop(held);
        assert!(dir.running().expect("readable").is_empty());
    }
}
