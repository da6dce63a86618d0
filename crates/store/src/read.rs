//! Read requests and their answers.
//!
//! One request names everything an op needs of one object, so that an op costs one round trip to the store.

use crate::id::{CollectionId, ObjectId};
use bytes::Bytes;

/// A range of an object's data, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Extent {
    /// Where it begins.
    pub offset: u64,
    /// How long it is.
    pub len: u64,
}

/// A question to a store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadRequest {
    /// The collection asked about.
    pub collection: CollectionId,
    /// The question.
    pub what: ReadWhat,
}

impl ReadRequest {
    /// Bytes of objects' data that it asks for, as if all of them were there.
    pub fn data_bytes(&self) -> u64 {
        match &self.what {
            ReadWhat::Object(_, want) => want.data.iter().fold(0, |sum, extent| sum.saturating_add(extent.len)),
            ReadWhat::List(_) | ReadWhat::Collections => 0,
        }
    }
}

/// The kinds of questions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadWhat {
    /// Parts of one object.
    Object(ObjectId, ObjectWant),
    /// The names of objects, in order.
    List(ListWant),
    /// The names of all collections (`ReadRequest::collection` is not looked at).
    Collections,
}

/// Which parts of an object are wanted. Existence and size always come along.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectWant {
    /// Attributes.
    pub attrs: AttrsWant,
    /// Data, cut off at the object's end; one buffer each in the answer.
    pub data: Vec<Extent>,
    /// Which parts of these ranges hold data; the rest reads as zeros.
    pub allocated: Vec<Extent>,
    /// The map's header.
    pub omap_header: bool,
    /// Parts of the map; one list each in the answer.
    pub omap: Vec<OmapWant>,
    /// Whether data is to be read from where it is kept, even if memory has it: what lies there is then checked.
    pub uncached: bool,
}

/// Which attributes are wanted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum AttrsWant {
    /// None.
    #[default]
    None,
    /// Those with these names, as far as they exist.
    Named(Vec<Bytes>),
    /// All.
    All,
}

/// Which entries of an object's map are wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OmapWant {
    /// The entries with these keys, as far as they exist.
    Keys(Vec<Bytes>),
    /// The entries after `after` (from the first where it is empty) whose keys begin with `prefix`, at most `entries`
    /// of them and about `bytes` of keys and values (at least one entry, where there is one).
    Range {
        /// The key before the first one wanted; empty for none.
        after: Bytes,
        /// What the keys begin with.
        prefix: Bytes,
        /// The most entries.
        entries: u64,
        /// About the most bytes.
        bytes: u64,
        /// Whether values are wanted; if not, they come back empty.
        values: bool,
    },
}

/// Which names are wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListWant {
    /// The first object that may come; none for the collection's first.
    pub from: Option<ObjectId>,
    /// The most names; `limits::LIST_OBJECTS_MAX` is the most in any case.
    pub max: usize,
    /// An attribute wanted with each name.
    pub attr: Option<Bytes>,
}

/// A listed object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListEntry {
    /// Its name.
    pub id: ObjectId,
    /// Its size in bytes.
    pub size: u64,
    /// The attribute asked for, where the object has it.
    pub attr: Option<Bytes>,
}

/// A store's answer.
#[derive(Clone, PartialEq, Debug)]
pub enum ReadResult {
    /// To `ReadWhat::Object`.
    Object(Box<ObjectView>),
    /// To `ReadWhat::List`: names in order, and where to go on (none at the end).
    List {
        /// The objects.
        entries: Vec<ListEntry>,
        /// The first object that was not listed.
        next: Option<ObjectId>,
    },
    /// To `ReadWhat::Collections`.
    Collections(Vec<CollectionId>),
}

/// What is known of an object: what the request asked for, in the order asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectView {
    /// Whether it exists; where not, everything below is empty.
    pub exists: bool,
    /// Its size in bytes.
    pub size: u64,
    /// Attributes, ordered by name.
    pub attrs: Vec<(Bytes, Bytes)>,
    /// A buffer per extent asked for; shorter where the object ends.
    pub data: Vec<Bytes>,
    /// The checksum of each of these (crc32c from `CRC_SEED`) where it is known from when it was written, in whole blocks:
    /// whoever has it travel with the data vouches for all the way. None at all where a store keeps no checksums.
    pub sums: Vec<Option<u32>>,
    /// A list per range asked for: the parts that hold data, in order, cut off at the object's end.
    pub allocated: Vec<Vec<Extent>>,
    /// The map's header.
    pub omap_header: Bytes,
    /// A part per `OmapWant`.
    pub omap: Vec<OmapPart>,
}

/// Entries of an object's map.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OmapPart {
    /// Keys and values, in order.
    pub entries: Vec<(Bytes, Bytes)>,
    /// Whether more entries that match the range follow.
    pub more: bool,
}

impl ObjectView {
    /// The attribute `name`, where it was asked for and exists.
    pub fn attr(&self, name: &[u8]) -> Option<&Bytes> {
        self.attrs.binary_search_by(|(n, _)| n.as_ref().cmp(name)).ok().map(|i| &self.attrs[i].1)
    }
}
