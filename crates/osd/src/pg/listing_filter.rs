//! Filters of listings: which objects a client wants to hear of.
//!
//! Owns the filters' names and arguments. Follows Ceph v16.2 `src/osd/PrimaryLogPG.cc` (`get_pgls_filter`,
//! `pgls_filter`), and of the classes that register filters there `src/cls/hello/cls_hello.cc` and
//! `src/cls/cephfs/cls_cephfs.cc`.
//!
//! Refuses to read: it says which attribute it wants to see, and judges what it is shown.

use crate::class;
use crate::ops::state::user_attr;
use base::Errno;
use bytes::Bytes;
use wire::{Decode, Decoder, Malformed};

/// How the objects end that stand for an inode in CephFS' data pools: its first piece.
const FIRST_PIECE: &[u8] = b".00000000";
/// The attribute in which CephFS' repair notes the run that has been there.
const SCRUB_TAG: &[u8] = b"scrub_tag";

/// Which objects are wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Filter {
    /// Those whose attribute has exactly this value (`plain`, `hello.hello`).
    Value {
        /// Which.
        attr: Attr,
        /// The value.
        value: Bytes,
    },
    /// The first pieces of CephFS' files, but not those with this tag (`cephfs.inode_tag`).
    InodeTag {
        /// The tag; empty for none.
        tag: Bytes,
    },
}

/// An attribute as filters name it: by Ceph's name for it in the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attr {
    /// None: the value is that of an empty one.
    None,
    /// A user's, under our store's name.
    Users(Bytes),
    /// One of Ceph's own, which objects here do not have.
    Absent,
}

impl Attr {
    fn named(name: &Bytes) -> Attr {
        match name.split_first() {
            None => Attr::None,
            Some((b'_', users)) if !users.is_empty() => Attr::Users(user_attr(users)),
            Some(_) => Attr::Absent,
        }
    }
}

impl Filter {
    /// Reads a filter from the start of a request's payload. EINVAL for one that is not known or whose arguments cannot
    /// be read, EPERM for one of a class that nobody may load.
    pub fn read(d: &mut Decoder<'_>) -> Result<Filter, Errno> {
        // Of old, the name of a class and a method; nobody looks at them.
        d.blob().and_then(|_| d.blob()).map_err(invalid)?;
        let kind = d.blob().map_err(invalid)?;
        if kind.as_ref() == b"plain" {
            return Filter::value(d);
        }
        let dot = kind.iter().position(|byte| *byte == b'.').ok_or(Errno::EINVAL)?;
        let (class, name) = (&kind[..dot], &kind[dot + 1..]);
        if class.is_empty() || name.is_empty() {
            return Err(Errno::EINVAL);
        }
        if !class::may_be_loaded(class) {
            return Err(Errno::EPERM);
        }
        match (class, name) {
            (b"hello", b"hello") => Filter::value(d),
            (b"cephfs", b"inode_tag") => {
                let tag = d.versioned("InodeTagFilterArgs", 1, |d, _| d.blob()).map_err(invalid)?;
                Ok(Filter::InodeTag { tag })
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn value(d: &mut Decoder<'_>) -> Result<Filter, Errno> {
        let (name, value) = d.blob().and_then(|name| Ok((name, d.blob()?))).map_err(invalid)?;
        Ok(Filter::Value { attr: Attr::named(&name), value })
    }

    /// The attribute that it wants to see, by its name in the store.
    pub fn wants(&self) -> Option<Bytes> {
        match self {
            Filter::Value { attr: Attr::Users(name), .. } => Some(name.clone()),
            Filter::InodeTag { tag } if !tag.is_empty() => Some(user_attr(SCRUB_TAG)),
            _ => None,
        }
    }

    /// Whether an object of this name is wanted, whose attribute that is.
    pub fn admits(&self, name: &[u8], found: Option<&Bytes>) -> bool {
        match self {
            Filter::Value { attr: Attr::None, value } => value.is_empty(),
            Filter::Value { value, .. } => found == Some(value),
            Filter::InodeTag { tag } => {
                let other = |found: &Bytes| Bytes::from_bytes(found).ok().is_none_or(|found| found != *tag);
                name.ends_with(FIRST_PIECE) && found.is_none_or(other)
            }
        }
    }
}

fn invalid(_: Malformed) -> Errno {
    Errno::EINVAL
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::{Encode, Encoder};

    fn payload(parts: &[&[u8]]) -> Bytes {
        let mut e = Encoder::new();
        [b"pg".as_slice(), b"filter"].iter().chain(parts).for_each(|part| e.blob(part));
        e.finish()
    }

    fn read(parts: &[&[u8]]) -> Result<Filter, Errno> {
        Filter::read(&mut Decoder::shared(&payload(parts)))
    }

    #[test]
    fn values_have_to_be_equal() {
        for kind in [b"plain".as_slice(), b"hello.hello"] {
            let filter = read(&[kind, b"_color", b"red"]).expect("it is known");
            assert_eq!(filter.wants(), Some(user_attr(b"color")));
            let admits = |value: Option<&'static str>| filter.admits(b"x", value.map(Bytes::from).as_ref());
            assert!(admits(Some("red")) && !admits(Some("re")) && !admits(Some("")) && !admits(None));
        }
        let empty = read(&[b"plain", b"_color", b""]).expect("it is known");
        assert!(empty.admits(b"x", Some(&Bytes::new())) && !empty.admits(b"x", None));
        let nameless = read(&[b"plain", b"", b""]).expect("it is known");
        assert!(nameless.wants().is_none() && nameless.admits(b"x", None));
        for name in [b"_".as_slice(), b"snapset", b"color"] {
            let absent = read(&[b"plain", name, b""]).expect("it is known");
            assert!(absent.wants().is_none() && !absent.admits(b"x", None));
        }
    }

    #[test]
    fn inodes_are_found_by_their_first_piece_and_tag() {
        let read = |tag: &[u8]| {
            let mut e = Encoder::new();
            payload(&[b"cephfs.inode_tag"]).iter().for_each(|byte| e.u8(*byte));
            e.versioned(1, 1, |e| e.blob(tag));
            Filter::read(&mut Decoder::shared(&e.finish())).expect("it is known")
        };
        let any = read(b"");
        assert!(any.wants().is_none());
        assert!(any.admits(b"1000.00000000", None) && !any.admits(b"1000.00000001", None) && !any.admits(b"0", None));
        let fresh = read(b"run1");
        assert_eq!(fresh.wants(), Some(user_attr(b"scrub_tag")));
        let tag = |text: &'static str| Bytes::from(text).to_bytes();
        assert!(fresh.admits(b"1.00000000", None) && fresh.admits(b"1.00000000", Some(&tag("run0"))));
        assert!(!fresh.admits(b"1.00000000", Some(&tag("run1"))));
        assert!(fresh.admits(b"1.00000000", Some(&Bytes::from("unreadable"))));
    }

    #[test]
    fn unknown_filters_are_refused() {
        let refused = |parts: &[&[u8]]| read(parts).expect_err("it is not known");
        for kind in ["", "plane", "hello.", ".hello", "hello.nothing", "lock.lock", "rgw.filter"] {
            assert_eq!(refused(&[kind.as_bytes(), b"_a", b"1"]), Errno::EINVAL, "{kind}");
        }
        assert_eq!(refused(&[b"nobody.filter", b"_a", b"1"]), Errno::EPERM);
        let short: [&[&str]; 4] = [&[], &["plain"], &["plain", "_a"], &["cephfs.inode_tag"]];
        for parts in short {
            let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
            assert_eq!(refused(&parts), Errno::EINVAL, "{parts:?}");
        }
        assert_eq!(Filter::read(&mut Decoder::shared(&Bytes::from_static(b"\xff\xff\xff\xff"))), Err(Errno::EINVAL));
    }
}
