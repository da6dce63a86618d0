//! An extent store that no OSD runs on, looked at by an engineer: checked, listed, shown.
//!
//! Owns the reading; nothing here writes, and a device in use is refused.

use crate::extent_devices::ReadOnlyDevices;
use base::{Instant, PgId};
use bytes::Bytes;
use std::path::Path;
use store::extent::device::{DeviceFailed, Io, ReadAt};
use store::extent::{self, ExtentOptions, ExtentStore, Usage};
use store::{
    AttrsWant, CollectionId, Completion, Extent, ListWant, ObjectId, ObjectStore, ObjectView, ObjectWant, OmapWant,
    ReadId, ReadRequest, ReadResult, ReadWhat,
};

pub use store::extent::{CheckReport, FORMAT};

/// Why a store could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// The device cannot be opened.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// It does not open as a store.
    #[error(transparent)]
    Open(#[from] extent::OpenError),
    /// A question was refused.
    #[error(transparent)]
    Store(#[from] store::StoreError),
}

/// Checks a store; `deep` also reads all data.
pub fn check(path: &Path, deep: bool) -> Result<CheckReport, LookError> {
    Ok(extent::check(&mut ReadOnlyDevices::open(path)?, deep))
}

/// An opened store.
#[derive(Debug)]
pub struct StoreReader {
    store: ExtentStore,
    device: ReadOnlyDevices,
}

/// An object as it is listed.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its name, with all that belongs to it.
    pub id: String,
    /// Its size in bytes.
    pub size: u64,
}

/// Names listed at once.
const LIST_PAGE: usize = 1000;

impl StoreReader {
    /// Opens it, the log included.
    pub fn open(path: &Path) -> Result<StoreReader, LookError> {
        let mut device = ReadOnlyDevices::open(path)?;
        let options = ExtentOptions { read_only: true, ..ExtentOptions::default() };
        let store = extent::open(&mut device, options)?;
        Ok(StoreReader { store, device })
    }

    /// The cluster that it belongs to.
    pub(crate) fn cluster(&self) -> wire::types::Uuid {
        self.store.label().cluster
    }

    /// Whose it is, and how full.
    pub fn describe(&self) -> (String, Usage) {
        let label = self.store.label();
        (format!("osd.{} of cluster {}, store {}", label.osd, label.cluster, label.store), self.store.usage())
    }

    fn ask(&mut self, collection: CollectionId, what: ReadWhat) -> Result<ReadResult, LookError> {
        self.store.submit_read(Instant::ZERO, ReadId(0), ReadRequest { collection, what });
        loop {
            while let Some((id, io)) = self.store.poll_device() {
                let result = match io {
                    Io::Read { offset, mut buf } => self.device.read_at(offset, &mut buf).map(|()| Some(buf)),
                    _ => Err(DeviceFailed),
                };
                self.store.device_done(id, result);
            }
            match self.store.poll_completion() {
                Some(Completion::Read(_, result)) => return Ok(result?),
                Some(Completion::Committed(..) | Completion::Ahead(_)) | None => {}
            }
        }
    }

    /// The names of all collections: `meta` and placement groups.
    pub fn collections(&mut self) -> Result<Vec<String>, LookError> {
        let ReadResult::Collections(all) = self.ask(CollectionId::Meta, ReadWhat::Collections)? else {
            return Ok(Vec::new());
        };
        Ok(all.into_iter().map(name).collect())
    }

    /// The objects of a collection; none where it has no such name.
    pub fn objects(&mut self, collection: &str) -> Result<Option<Vec<Listed>>, LookError> {
        let Some(collection) = parse_collection(collection) else { return Ok(None) };
        let mut out = Vec::new();
        for id in self.ids(collection)? {
            let what = ReadWhat::Object(id.clone(), ObjectWant::default());
            if let ReadResult::Object(view) = self.ask(collection, what)? {
                out.push(Listed { id: format!("{id:?}"), size: view.size });
            }
        }
        Ok(Some(out))
    }

    pub(crate) fn ids(&mut self, collection: CollectionId) -> Result<Vec<ObjectId>, LookError> {
        let (mut out, mut from) = (Vec::new(), None);
        loop {
            let want = ListWant { from, max: LIST_PAGE, attr: None };
            let ReadResult::List { entries, next } = self.ask(collection, ReadWhat::List(want))? else {
                return Ok(out);
            };
            out.extend(entries.into_iter().map(|entry| entry.id));
            from = next;
            if from.is_none() {
                return Ok(out);
            }
        }
    }

    /// Everything of an object but its data, which `data` asks for; none where there is none of that name.
    pub fn object(&mut self, collection: &str, id: &str, data: bool) -> Result<Option<ObjectView>, LookError> {
        let Some(collection) = parse_collection(collection) else { return Ok(None) };
        let Some(id) = self.ids(collection)?.into_iter().find(|object| format!("{object:?}") == id) else {
            return Ok(None);
        };
        Ok(Some(self.view(collection, id, everything(if data { vec![WHOLE] } else { Vec::new() }))?))
    }

    /// What is wanted of an object.
    pub(crate) fn view(
        &mut self,
        collection: CollectionId,
        id: ObjectId,
        want: ObjectWant,
    ) -> Result<ObjectView, LookError> {
        match self.ask(collection, ReadWhat::Object(id, want))? {
            ReadResult::Object(view) => Ok(*view),
            _ => unreachable!("the store answers the question that was asked"),
        }
    }
}

/// All of an object.
const WHOLE: Extent = Extent { offset: 0, len: u64::MAX };

/// Everything of an object but its data, of which this is wanted.
pub(crate) fn everything(data: Vec<Extent>) -> ObjectWant {
    let all =
        OmapWant::Range { after: Bytes::new(), prefix: Bytes::new(), entries: u64::MAX, bytes: u64::MAX, values: true };
    ObjectWant {
        attrs: AttrsWant::All,
        data,
        allocated: vec![WHOLE],
        omap_header: true,
        omap: vec![all],
        uncached: false,
    }
}

fn name(collection: CollectionId) -> String {
    match collection {
        CollectionId::Meta => "meta".to_owned(),
        CollectionId::Pg(pg) => pg.to_string(),
    }
}

/// The collection of a name: `meta`, or a placement group such as 1.a.
pub(crate) fn parse_collection(text: &str) -> Option<CollectionId> {
    if text == "meta" { Some(CollectionId::Meta) } else { PgId::parse(text).map(CollectionId::Pg) }
}
