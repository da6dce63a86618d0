//! The devices of an extent store: the main one and, where they have their own, the metadata's and the log's.
//!
//! Owns finding them and the way of a request to its device. A store counts its blocks through all of them
//! (`store::extent::layout`), so a request's offset says which one it is for; a flush is for all. An OSD's directory
//! names them as Ceph does: `block`, `block.db`, `block.wal`, each a file or a link to one or to a device.
//!
//! Invariant: a flush has ended when it has on every device.

use crate::block_device::{BlockDevice, Ended, ReadOnlyDevice};
use crate::shaped_device::{ShapedDevice, device_model};
use base::{Duration, Instant};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use store::extent::device::{DeviceFailed, Io, IoBuf, IoId, ReadAt, WriteAt};
use store::extent::layout::{Areas, BLOCK, Geometry, Role};
use store::extent::{self, OpenError};

/// The size of the file that a new extent store gets where `bluestore_block_size` does not say. It is sparse: what is
/// not written takes no room.
const BLOCK_BYTES: u64 = 16 << 30;

/// The log of a new extent store: at the most a sixteenth of its device. Half of it has to hold the largest transaction
/// (`osd_max_write_size` is 90 MiB); what is used day by day is far less.
const LOG_BYTES_MAX: u64 = 256 << 20;

/// The smallest file made for metadata.
const META_BYTES_MIN: u64 = 64 << 20;

/// What a device is called: the name in the OSD's directory, the options for where it is and how large a file is made,
/// the option of its device model, and what lies there.
pub(crate) struct Naming {
    file: &'static str,
    pub(crate) path_option: &'static str,
    size_option: &'static str,
    pub(crate) model_option: &'static str,
    what: &'static str,
}

/// Names the model that the main device follows.
pub(crate) const MAIN_MODEL: &str = "osd_device_model";

const MAIN: Naming = Naming {
    file: "block",
    path_option: "bluestore_block_path",
    size_option: "bluestore_block_size",
    model_option: MAIN_MODEL,
    what: "the data",
};

const META: Naming = Naming {
    file: "block.db",
    path_option: "bluestore_block_db_path",
    size_option: "bluestore_block_db_size",
    model_option: "osd_meta_device_model",
    what: "the metadata",
};

pub(crate) const LOG: Naming = Naming {
    file: "block.wal",
    path_option: "bluestore_block_wal_path",
    size_option: "bluestore_block_wal_size",
    model_option: "osd_log_device_model",
    what: "the log",
};

fn in_file(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

/// A size that an option gives, such as 16G.
fn size_option(options: &BTreeMap<String, String>, name: &str) -> Result<Option<u64>, String> {
    let Some(text) = options.get(name) else { return Ok(None) };
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" | "B" => Some(0),
        "K" | "Ki" => Some(10),
        "M" | "Mi" => Some(20),
        "G" | "Gi" => Some(30),
        "T" | "Ti" => Some(40),
        _ => None,
    };
    let value = digits.parse::<u64>().ok().zip(shift).and_then(|(n, shift)| n.checked_mul(1 << shift));
    value.map(Some).ok_or_else(|| format!("{name} = {text}: expected a size in bytes, such as 16G"))
}

/// Devices one behind the other; each with the offset at which it begins.
#[derive(Debug)]
struct Joined<D>(Vec<(u64, D)>);

impl<D: ReadAt> Joined<D> {
    /// The device of an offset, and the offset there.
    fn at(&mut self, offset: u64) -> (&mut D, u64) {
        let index = self.index_of(offset);
        let (start, device) = &mut self.0[index];
        (device, offset - *start)
    }

    fn index_of(&self, offset: u64) -> usize {
        self.0.iter().rposition(|(start, _)| *start <= offset).unwrap_or(0)
    }

    fn end(&self) -> u64 {
        self.0.last().map_or(0, |(start, device)| start + device.size())
    }
}

/// The devices of a store that runs.
#[derive(Debug)]
pub(crate) struct ExtentDevices {
    devices: Joined<ShapedDevice>,
    /// Flushes that have not ended everywhere: on how many devices, and whether one has failed.
    flushes: BTreeMap<IoId, (usize, bool)>,
    ended: Vec<Ended>,
}

impl ExtentDevices {
    /// Opens those of the store in `data`, as that says itself; for a new store, makes them as `options` say.
    pub(crate) fn open(
        data: &Path,
        options: &BTreeMap<String, String>,
        is_new: bool,
        seed: u64,
    ) -> Result<(ExtentDevices, Option<Areas>), String> {
        let model = |option: &str| options.get(option).map(|text| device_model(text)).transpose();
        let shaped = |path: &Path, device, option: &str| {
            let model = model(option)?.map(|model| (model, seed));
            ShapedDevice::new(device, model).map_err(|e| in_file(path, &e))
        };
        let block = data.join(MAIN.file);
        let bytes = size_option(options, MAIN.size_option)?.unwrap_or(BLOCK_BYTES);
        if is_new {
            make_member(data, options, &MAIN, bytes)?;
        }
        let opened = BlockDevice::open(&block, if is_new { bytes } else { 0 }).map_err(|e| in_file(&block, &e))?;
        let mut main = shaped(&block, opened, MAIN.model_option)?;
        let there = extent::geometry(&mut main);
        let (geometry, areas) = match there {
            Ok(geometry) => (geometry, None),
            Err(OpenError::NoStore) if is_new => {
                let areas = new_areas(data, &main, options)?;
                (Geometry::new(&areas).map_err(|e| in_file(&block, &e))?, Some(areas))
            }
            Err(error) => return Err(in_file(&block, &error)),
        };
        let mut devices = vec![(0, main)];
        for (role, naming) in [(Role::Meta, META), (Role::Log, LOG)] {
            let Some(run) = geometry.member(role) else { continue };
            let path = data.join(naming.file);
            check_there(&path, &naming)?;
            let bytes = run.len * BLOCK;
            let device = BlockDevice::open(&path, 0).map_err(|e| in_file(&path, &e))?;
            check_size(&path, device.size(), bytes)?;
            devices.push((run.start * BLOCK, shaped(&path, device, naming.model_option)?));
        }
        let devices = ExtentDevices { devices: Joined(devices), flushes: BTreeMap::new(), ended: Vec::new() };
        Ok((devices, areas))
    }

    /// What rings when a request has ended.
    pub(crate) fn bells(&self) -> io::Result<Vec<OwnedFd>> {
        let bells = self.devices.0.iter().map(|(_, device)| device.bells());
        Ok(bells.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Takes a request; without a time no device model holds it back.
    pub(crate) fn push(&mut self, now: Option<Instant>, id: IoId, io: Io) {
        let Joined(devices) = &mut self.devices;
        if devices.len() == 1 {
            return devices[0].1.push(now, id, io);
        }
        let (Io::Read { offset, .. }
        | Io::Write { offset, .. }
        | Io::WriteVectored { offset, .. }
        | Io::Discard { offset, .. }) = &io
        else {
            self.flushes.insert(id, (devices.len(), false));
            return devices.iter_mut().for_each(|(_, device)| device.push(now, id, Io::Flush));
        };
        let (device, offset) = self.devices.at(*offset);
        device.push(now, id, moved(io, offset));
    }

    /// Hands everything collected to the kernel, and lets it tell what has ended.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        self.devices.0.iter_mut().try_for_each(|(_, device)| device.submit())
    }

    /// How many requests the devices have not ended.
    pub(crate) fn in_flight(&self) -> usize {
        self.devices.0.iter().map(|(_, device)| device.in_flight()).sum()
    }

    /// Whether the one with the data can be waited for.
    pub(crate) fn can_wait_for_data(&self) -> bool {
        self.devices.0[0].1.is_itself()
    }

    /// Whether that one has the log, too.
    pub(crate) fn can_wait_for_log(&self) -> bool {
        self.devices.0.len() == 1 && self.can_wait_for_data()
    }

    /// Waits until the one with the data has ended so many requests, at the longest for `limit`.
    pub(crate) fn wait_for_data(&mut self, count: usize, limit: Duration) -> io::Result<()> {
        self.devices.0[0].1.wait_for(count, limit)
    }

    /// Waits until some device has ended a request.
    pub(crate) fn wait(&mut self) -> io::Result<()> {
        self.submit()?;
        match self.devices.0.iter_mut().find(|(_, device)| device.in_flight() > 0) {
            Some((_, device)) => device.wait(),
            None => Ok(()),
        }
    }

    /// The requests that had ended when `submit` was called; without a time, also those that a model would hold back.
    pub(crate) fn ended(&mut self, now: Option<Instant>, out: &mut Vec<Ended>) -> io::Result<()> {
        let Joined(devices) = &mut self.devices;
        if devices.len() == 1 {
            return devices[0].1.ended(now, out);
        }
        devices.iter_mut().try_for_each(|(_, device)| device.ended(now, &mut self.ended))?;
        for (id, result) in self.ended.drain(..) {
            let Some((left, failed)) = self.flushes.get_mut(&id) else {
                out.push((id, result));
                continue;
            };
            (*left, *failed) = (*left - 1, *failed || result.is_err());
            if *left == 0 {
                out.push((id, if *failed { Err(DeviceFailed) } else { Ok(None) }));
                self.flushes.remove(&id);
            }
        }
        Ok(())
    }
}

fn moved(mut io: Io, to: u64) -> Io {
    match &mut io {
        Io::Read { offset, .. }
        | Io::Write { offset, .. }
        | Io::WriteVectored { offset, .. }
        | Io::Discard { offset, .. } => *offset = to,
        Io::Flush => {}
    }
    io
}

impl ReadAt for ExtentDevices {
    fn read_at(&mut self, offset: u64, buf: &mut IoBuf) -> Result<(), DeviceFailed> {
        let (device, offset) = self.devices.at(offset);
        device.read_at(offset, buf)
    }

    /// Nothing else may be under way.
    fn read_all(&mut self, places: &[(u64, usize)]) -> Result<Vec<IoBuf>, DeviceFailed> {
        for (id, &(offset, len)) in (0..).zip(places) {
            self.push(None, IoId(id), Io::Read { offset, buf: IoBuf::to_fill(len) });
        }
        let mut ended = Vec::with_capacity(places.len());
        while ended.len() < places.len() {
            self.wait().and_then(|()| self.ended(None, &mut ended)).map_err(|_| DeviceFailed)?;
        }
        ended.sort_unstable_by_key(|(id, _)| *id);
        ended.into_iter().map(|(_, result)| result?.ok_or(DeviceFailed)).collect()
    }

    fn size(&self) -> u64 {
        self.devices.end()
    }
}

impl WriteAt for ExtentDevices {
    fn write_at(&mut self, offset: u64, data: &[u8]) -> Result<(), DeviceFailed> {
        let (device, offset) = self.devices.at(offset);
        device.write_at(offset, data)
    }

    fn flush(&mut self) -> Result<(), DeviceFailed> {
        self.devices.0.iter_mut().try_for_each(|(_, device)| device.flush())
    }
}

fn check_there(path: &Path, naming: &Naming) -> Result<(), String> {
    if path.exists() {
        return Ok(());
    }
    let target = std::fs::read_link(path).map_or_else(|_| String::new(), |to| format!(" (a link to {})", to.display()));
    Err(format!("{}{target} is missing: {} of this store is there", path.display(), naming.what))
}

fn check_size(path: &Path, has: u64, wants: u64) -> Result<(), String> {
    if has >= wants { Ok(()) } else { Err(in_file(path, &format!("has {has} bytes, {wants} belong to the store"))) }
}

/// The areas of a new store; makes what `options` name beside its main device, and links to it.
fn new_areas(data: &Path, main: &ShapedDevice, options: &BTreeMap<String, String>) -> Result<Areas, String> {
    let main = main.size();
    let usual_log = LOG_BYTES_MAX.min(main / 16);
    let meta = make_member(data, options, &META, (main / 16).max(META_BYTES_MIN))?;
    // A block more, which labels it.
    let log = make_member(data, options, &LOG, usual_log + BLOCK)?;
    Ok(match log {
        Some(bytes) => {
            Areas { main, meta: meta.unwrap_or(0), log: (bytes - BLOCK).min(LOG_BYTES_MAX), log_apart: true }
        }
        None => Areas { main, meta: meta.unwrap_or(0), log: usual_log, log_apart: false },
    })
}

/// A file or device apart from the OSD's directory, where the options name one: how many bytes of it are used.
fn make_member(
    data: &Path,
    options: &BTreeMap<String, String>,
    naming: &Naming,
    usual: u64,
) -> Result<Option<u64>, String> {
    let Some(path) = options.get(naming.path_option).filter(|path| !path.is_empty()) else { return Ok(None) };
    let path = PathBuf::from(path);
    if !path.is_absolute() {
        return Err(format!("{} = {}: expected a whole path", naming.path_option, path.display()));
    }
    let bytes = size_option(options, naming.size_option)?.filter(|bytes| *bytes > 0).unwrap_or(usual);
    let size = BlockDevice::open(&path, bytes).map_err(|e| in_file(&path, &e))?.size();
    let link = data.join(naming.file);
    match std::os::unix::fs::symlink(&path, &link) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(in_file(&link, &error)),
        _ => {}
    }
    let used = size / BLOCK * BLOCK;
    if used < 2 * BLOCK { Err(in_file(&path, &"is too small")) } else { Ok(Some(used)) }
}

/// The devices of a store that is only looked at.
#[derive(Debug)]
pub struct ReadOnlyDevices(Joined<ReadOnlyDevice>);

impl ReadOnlyDevices {
    /// Opens those of the store whose main device is `block`.
    pub fn open(block: &Path) -> io::Result<ReadOnlyDevices> {
        let mut main = ReadOnlyDevice::open(block)?;
        // What has no superblock is for whoever reads it to complain of.
        let geometry = extent::geometry(&mut main).ok();
        let mut devices = vec![(0, main)];
        for (role, naming) in [(Role::Meta, META), (Role::Log, LOG)] {
            let Some(run) = geometry.and_then(|geometry| geometry.member(role)) else { continue };
            let path = block.with_file_name(naming.file);
            check_there(&path, &naming).map_err(io::Error::other)?;
            let device = ReadOnlyDevice::open(&path)?;
            check_size(&path, device.size(), run.len * BLOCK).map_err(io::Error::other)?;
            devices.push((run.start * BLOCK, device));
        }
        Ok(ReadOnlyDevices(Joined(devices)))
    }
}

impl ReadAt for ReadOnlyDevices {
    fn read_at(&mut self, offset: u64, buf: &mut IoBuf) -> Result<(), DeviceFailed> {
        let (device, offset) = self.0.at(offset);
        device.read_at(offset, buf)
    }

    fn size(&self) -> u64 {
        self.0.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn options(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn done(devices: &mut ExtentDevices, count: usize) -> Vec<Ended> {
        let mut ended = Vec::new();
        while ended.len() < count {
            devices.wait().expect("the rings work");
            devices.ended(None, &mut ended).expect("there are timers");
        }
        ended.sort_by_key(|(id, _)| *id);
        ended
    }

    #[test]
    fn requests_find_their_devices_and_a_flush_is_for_all() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let at = |name: &str| dir.path().join(name).display().to_string();
        let options = options(&[
            ("bluestore_block_size", "64M"),
            ("bluestore_block_db_path", &at("meta")),
            ("bluestore_block_db_size", "16M"),
            ("bluestore_block_wal_path", &at("log")),
            ("bluestore_block_wal_size", "1M"),
        ]);
        let (mut devices, areas) = ExtentDevices::open(dir.path(), &options, true, 1).expect("all can be made");
        let areas = areas.expect("it is new");
        let geometry = Geometry::new(&areas).expect("there is room");
        let starts = [0, geometry.member(Role::Meta).expect("apart").start, geometry.log_start()];
        for (index, block) in starts.into_iter().enumerate() {
            let data = Bytes::from_owner(IoBuf::copy_of(&[index as u8 + 1; 4096]));
            devices.push(None, IoId(index as u64), Io::Write { offset: block * BLOCK, data, durable: false });
        }
        devices.push(None, IoId(9), Io::Flush);
        assert!(done(&mut devices, 4).iter().all(|(_, result)| result.is_ok()));
        for (index, block) in starts.into_iter().enumerate() {
            let buf = IoBuf::new(4096);
            devices.push(None, IoId(20 + index as u64), Io::Read { offset: block * BLOCK, buf });
        }
        for ((_, result), expected) in done(&mut devices, 3).into_iter().zip(1..) {
            assert_eq!(result.expect("it is there").expect("a buffer").as_ref()[0], expected);
        }
        let places = [2, 0, 1, 0].map(|index: usize| (starts[index] * BLOCK, 4096));
        let read = devices.read_all(&places).expect("they are there");
        assert_eq!(read.iter().map(|buf| buf.as_ref()[0]).collect::<Vec<_>>(), [3, 1, 2, 1]);
        assert!(devices.read_all(&[places[0], (devices.size(), 4096)]).is_err(), "beyond the end");
        assert_eq!(devices.in_flight(), 0);
        let first = |name: &str| std::fs::read(dir.path().join(name)).expect("a file");
        assert_eq!((first("block")[0], first("meta")[0], first("log")[4096]), (1, 2, 3));
    }

    #[test]
    fn data_lie_where_the_options_say() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("disk");
        let options =
            options(&[("bluestore_block_size", "64M"), ("bluestore_block_path", &path.display().to_string())]);
        let (devices, areas) = ExtentDevices::open(dir.path(), &options, true, 1).expect("it can be made");
        assert_eq!((devices.size(), areas.expect("it is new").main), (64 << 20, 64 << 20));
        assert_eq!(std::fs::read_link(dir.path().join("block")).expect("a link"), path);
    }

    #[test]
    fn what_is_missing_is_named() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let log = dir.path().join("fast").display().to_string();
        let options = options(&[("bluestore_block_size", "64M"), ("bluestore_block_wal_path", &log)]);
        let (mut devices, areas) = ExtentDevices::open(dir.path(), &options, true, 1).expect("all can be made");
        let label = extent::Label {
            cluster: wire::types::Uuid([1; 16]),
            osd: base::OsdId(0),
            store: wire::types::Uuid([2; 16]),
            salt: 3,
        };
        extent::format(&mut devices, label, &areas.expect("it is new")).expect("there is room");
        drop(devices);
        assert!(ReadOnlyDevices::open(&dir.path().join("block")).is_ok());
        std::fs::rename(&log, dir.path().join("away")).expect("it is there");
        let error = ExtentDevices::open(dir.path(), &options, false, 1).expect_err("the log is missing");
        assert!(error.contains("block.wal (a link to ") && error.contains("is missing: the log of this store"));
        let error = ReadOnlyDevices::open(&dir.path().join("block")).expect_err("the log is missing");
        assert!(error.to_string().contains("is missing: the log"), "{error}");
        std::fs::write(&log, vec![0; 8192]).expect("writable");
        let error = ExtentDevices::open(dir.path(), &options, false, 1).expect_err("the log is too small");
        assert!(error.contains("has 8192 bytes"), "{error}");
        std::fs::write(&log, vec![0; 5 << 20]).expect("writable");
        let (mut devices, _) = ExtentDevices::open(dir.path(), &options, false, 1).expect("large enough");
        let opened = extent::open(&mut devices, extent::ExtentOptions::default());
        assert_eq!(opened.expect_err("not its log"), OpenError::NotItsLog);
    }
}
