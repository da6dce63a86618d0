//! A placement group out of one OSD's extent store and into another's, while neither OSD runs.
//!
//! Owns the way between `store::pg_stream` and the stores. An import reads its file twice: first all of it is checked,
//! then it is carried out. Objects go in before the records that speak of them, so that a half-done import counts as
//! nothing, to the OSD as to the next import.

use crate::osd_store::{OsdStore, StoreKind};
use crate::store_tools::{LookError, StoreReader, everything, parse_collection};
use base::OsdId;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, Write};
use std::path::Path;
use store::pg_stream::{Piece, START_BYTES, StreamReader, StreamWriter};
use store::{CollectionId, Extent, ListWant, ObjectId, Op, RECORD, ReadRequest, ReadResult, ReadWhat, Transaction};
use wire::Malformed;
use wire::types::Uuid;

/// Data of one piece, and about as much of one transaction.
const PART_BYTES: u64 = 1 << 20;

/// Map entries of one piece.
const PART_ENTRIES: usize = 1000;

/// Why a placement group was not brought over.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The store cannot be looked at, or lacks it.
    #[error(transparent)]
    Look(#[from] LookError),
    /// The file cannot be read or written.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// The file is damaged, or is none.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] store::StoreError),
    /// It must not be done.
    #[error("{0}")]
    Refused(String),
}

/// How much was brought over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transferred {
    /// Objects, the OSD's records included.
    pub objects: u64,
    /// Bytes of data.
    pub bytes: u64,
}

/// Writes a placement group of the store at `block` as a stream.
pub fn export(block: &Path, pg: &str, out: &mut dyn Write) -> Result<Transferred, TransferError> {
    let refused = || TransferError::Refused(format!("{pg}: the store has no such placement group"));
    let mut reader = StoreReader::open(block)?;
    let collection = parse_collection(pg).filter(|id| *id != CollectionId::Meta).ok_or_else(refused)?;
    if !reader.collections()?.iter().any(|name| name == pg) {
        return Err(refused());
    }
    let (mut writer, start) = StreamWriter::begin();
    out.write_all(&start)?;
    out.write_all(&writer.piece(&Piece::Whose(reader.cluster(), collection)))?;
    let (records, objects): (Vec<_>, Vec<_>) = reader.ids(collection)?.into_iter().partition(is_record);
    let mut done = Transferred::default();
    for id in objects.into_iter().chain(records) {
        done.bytes += export_object(&mut reader, collection, id, &mut writer, out)?;
        done.objects += 1;
    }
    out.write_all(&writer.piece(&Piece::End(done.objects)))?;
    out.flush()?;
    Ok(done)
}

fn is_record(id: &ObjectId) -> bool {
    id.snap() == RECORD
}

fn export_object(
    reader: &mut StoreReader,
    collection: CollectionId,
    id: ObjectId,
    writer: &mut StreamWriter,
    out: &mut dyn Write,
) -> Result<u64, TransferError> {
    let view = reader.view(collection, id.clone(), everything(Vec::new()))?;
    let head = Piece::Object { id: id.clone(), size: view.size, attrs: view.attrs, omap_header: view.omap_header };
    out.write_all(&writer.piece(&head))?;
    let mut bytes = 0;
    for extent in view.allocated.into_iter().flatten() {
        let end = extent.offset + extent.len;
        let mut offset = extent.offset;
        while offset < end {
            let part = Extent { offset, len: PART_BYTES.min(end - offset) };
            let want = store::ObjectWant { data: vec![part], ..store::ObjectWant::default() };
            let data = reader.view(collection, id.clone(), want)?.data.pop().unwrap_or_default();
            bytes += data.len() as u64;
            out.write_all(&writer.piece(&Piece::Data(offset, data)))?;
            offset += part.len;
        }
    }
    let entries: Vec<_> = view.omap.into_iter().flat_map(|part| part.entries).collect();
    for part in entries.chunks(PART_ENTRIES) {
        out.write_all(&writer.piece(&Piece::Omap(part.to_vec())))?;
    }
    Ok(bytes)
}

/// The pieces of a file.
struct Pieces {
    file: BufReader<File>,
    stream: StreamReader,
}

impl Pieces {
    fn open(path: &Path) -> Result<Pieces, TransferError> {
        Pieces::begin(BufReader::new(File::open(path)?))
    }

    fn begin(mut file: BufReader<File>) -> Result<Pieces, TransferError> {
        let mut start = [0; START_BYTES];
        file.read_exact(&mut start).map_err(cut_off)?;
        Ok(Pieces { file, stream: StreamReader::begin(&start)? })
    }

    /// The same from the beginning.
    fn again(self) -> Result<Pieces, TransferError> {
        let mut file = self.file;
        file.rewind()?;
        Pieces::begin(file)
    }

    fn next(&mut self) -> Result<Option<Piece>, TransferError> {
        if self.stream.is_ended() {
            return Ok(None);
        }
        let mut len = [0; 4];
        self.file.read_exact(&mut len).map_err(cut_off)?;
        let len = StreamReader::piece_bytes(len)?;
        let mut bytes = Vec::new();
        // What is not there is not made room for.
        (&mut self.file).take(len as u64).read_to_end(&mut bytes)?;
        if bytes.len() < len {
            return Err(Malformed::new("export", "is cut off").into());
        }
        Ok(Some(self.stream.piece(&Bytes::from(bytes))?))
    }
}

fn cut_off(error: std::io::Error) -> TransferError {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Malformed::new("export", "is cut off").into(),
        _ => error.into(),
    }
}

/// Takes the placement group of a file into the store in `data`, that of OSD `id`. Says which it was.
pub fn import(
    data: &Path,
    id: OsdId,
    cluster: Uuid,
    options: &BTreeMap<String, String>,
    from: &Path,
) -> Result<(String, Transferred), TransferError> {
    let mut pieces = Pieces::open(from)?;
    let Some(Piece::Whose(whose, collection)) = pieces.next()? else {
        return Err(Malformed::new("export", "does not say what it holds").into());
    };
    let CollectionId::Pg(pg) = collection else {
        return Err(TransferError::Refused("it holds no placement group".to_owned()));
    };
    if whose != cluster {
        return Err(TransferError::Refused(format!("pg {pg} is cluster {whose}'s, not {cluster}'s")));
    }
    while pieces.next()?.is_some() {}
    let (mut store, _) =
        OsdStore::open(StoreKind::Extent, id, cluster, data, options).map_err(TransferError::Refused)?;
    make_room(&mut store, collection, pg)?;
    let mut pieces = pieces.again()?;
    let done = take_in(&mut store, collection, &mut pieces)?;
    store.close().map_err(TransferError::Refused)?;
    Ok((pg.to_string(), done))
}

/// Refuses a placement group that is there; removes what an import that was cut off has left of it.
fn make_room(store: &mut OsdStore, collection: CollectionId, pg: base::PgId) -> Result<(), TransferError> {
    let (mut from, mut is_there) = (None, false);
    loop {
        let what = ReadWhat::List(ListWant { from, max: PART_ENTRIES, attr: None });
        let (entries, next) = match store.ask(ReadRequest { collection, what }) {
            Ok(ReadResult::List { entries, next }) => (entries, next),
            Ok(_) | Err(store::StoreError::NoCollection) => break,
            Err(error) => return Err(error.into()),
        };
        is_there = true;
        if entries.iter().any(|entry| is_record(&entry.id)) {
            return Err(TransferError::Refused(format!("osd has pg {pg} already")));
        }
        from = next;
        if from.is_none() {
            break;
        }
    }
    if is_there {
        store.commit(Transaction::remove(collection))?;
    }
    Ok(store.commit(Transaction::create(collection))?)
}

fn take_in(store: &mut OsdStore, collection: CollectionId, pieces: &mut Pieces) -> Result<Transferred, TransferError> {
    let mut done = Transferred::default();
    let (mut t, mut held) = (Transaction::new(collection), 0);
    let mut current: Option<ObjectId> = None;
    let missing = || Malformed::new("export", "has content of no object");
    while let Some(piece) = pieces.next()? {
        // The records go together, and last.
        let in_records = current.as_ref().is_some_and(is_record);
        if held >= PART_BYTES as usize && !in_records {
            store.commit(core::mem::replace(&mut t, Transaction::new(collection)))?;
            held = 0;
        }
        match piece {
            Piece::Whose(..) => {}
            Piece::Object { id, size, attrs, omap_header } => {
                t.push(&id, Op::Truncate(size));
                held += 128;
                for (name, value) in attrs {
                    held += value.len();
                    t.push(&id, Op::SetAttr(name, value));
                }
                if !omap_header.is_empty() {
                    t.push(&id, Op::OmapHeader(omap_header));
                }
                current = Some(id);
                done.objects += 1;
            }
            Piece::Data(offset, data) => {
                (held, done.bytes) = (held + data.len(), done.bytes + data.len() as u64);
                t.push(current.as_ref().ok_or_else(missing)?, Op::Write(offset, data));
            }
            Piece::Omap(entries) => {
                held += entries.iter().map(|(key, value)| key.len() + value.len() + 32).sum::<usize>();
                t.push(current.as_ref().ok_or_else(missing)?, Op::OmapSet(entries));
            }
            Piece::End(_) => {}
        }
    }
    store.commit(t)?;
    Ok(done)
}
