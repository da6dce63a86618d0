//! The grammar of OSD caps, and what its profiles stand for.
//!
//! Follows Ceph v16.2 `OSDCapParser` and `OSDCapGrant::expand_profile` (`src/osd/OSDCap.cc`):
//!
//! ```text
//! caps    = grant { (";" | ",") grant }
//! grant   = "allow" right match [network] | "allow" match right [network] | profile [network]
//! right   = "*" | "all" | [r][w][x] [class-read] [class-write] | "class" NAME [METHOD]
//! match   = [namespace] tag | [pool] [namespace] [object_prefix]
//! profile = "profile" NAME [pool] [namespace]
//! ```

use super::BadCap;
use super::network::Place;
use super::osd::{Grant, Match, OsdRights, Spec, Tag};
use super::scan::Cursor;

pub(super) fn parse(text: &str) -> Result<Vec<Grant>, BadCap> {
    let mut c = Cursor::new(text);
    c.ascii_space();
    let grants = c.list(false, grant);
    if grants.is_some() {
        c.ascii_space();
    }
    match grants {
        Some(grants) if c.rest().is_empty() => Ok(grants),
        _ => Err(BadCap::stopped("osd", c.rest(), text)),
    }
}

fn blanks(c: &mut Cursor<'_>) {
    c.many(|c| matches!(c, ' ' | '\t'));
}

fn grant(c: &mut Cursor<'_>) -> Option<Grant> {
    blanks(c);
    let right_first = |c: &mut Cursor<'_>| {
        c.literal("allow")?;
        let spec = right(c)?;
        Some((objects(c), spec))
    };
    let match_first = |c: &mut Cursor<'_>| {
        c.literal("allow")?;
        let what = objects(c);
        Some((what, right(c)?))
    };
    let grant = match c.try_part(right_first).or_else(|| c.try_part(match_first)) {
        Some((what, spec)) => {
            let place = Place::new(c.network(Cursor::ascii_space));
            Grant::Direct { what, spec, place }
        }
        None => {
            let grants = c.try_part(profile)?;
            Grant::Profile { grants, place: Place::new(c.network(Cursor::ascii_space)) }
        }
    };
    blanks(c);
    Some(grant)
}

fn wildcard<'a>(c: &mut Cursor<'a>) -> Option<&'a str> {
    c.literal("*").or_else(|| c.literal("all")).map(|()| "*")
}

/// Spaces and then `part`.
fn spaced<'a, T>(c: &mut Cursor<'a>, part: impl FnOnce(&mut Cursor<'a>) -> Option<T>) -> Option<T> {
    c.try_part(|c| c.ascii_space().and_then(|()| part(c)))
}

fn right(c: &mut Cursor<'_>) -> Option<Spec> {
    if spaced(c, wildcard).is_some() {
        return Some(Spec::Rights(OsdRights::ANY));
    }
    let letters = |c: &mut Cursor<'_>| {
        let letters = [("r", OsdRights::R), ("w", OsdRights::W), ("x", OsdRights::X)];
        let rights = letters.into_iter().filter_map(|(letter, right)| c.literal(letter).map(|()| right));
        Some(rights.fold(OsdRights::NONE, OsdRights::with)).filter(|&r| r != OsdRights::NONE)
    };
    let parts = [
        spaced(c, letters),
        spaced(c, |c| c.literal("class-read")).map(|()| OsdRights::CLASS_R),
        spaced(c, |c| c.literal("class-write")).map(|()| OsdRights::CLASS_W),
    ];
    if let Some(rights) = parts.into_iter().flatten().reduce(OsdRights::with) {
        return Some(Spec::Rights(rights));
    }
    let class = spaced(c, |c| {
        c.literal("class")?;
        c.ascii_space()?;
        c.string()
    })?;
    let method = spaced(c, Cursor::string).map(str::to_owned);
    Some(Spec::Class { class: class.to_owned(), method })
}

/// The match, which may be empty.
fn objects(c: &mut Cursor<'_>) -> Match {
    let tagged = |c: &mut Cursor<'_>| {
        let namespace = namespace(c);
        Some(Match { namespace, tag: Some(tag(c)?), ..Match::default() })
    };
    if let Some(tagged) = c.try_part(tagged) {
        return tagged;
    }
    let pool = pool(c);
    let namespace = namespace(c);
    let object_prefix = spaced(c, |c| {
        c.literal("object_prefix")?;
        c.ascii_space()?;
        c.string().map(str::to_owned)
    });
    Match { pool, namespace, object_prefix, tag: None }
}

fn pool(c: &mut Cursor<'_>) -> Option<String> {
    spaced(c, |c| {
        c.literal("pool")?;
        c.equals_or(Cursor::ascii_space)?;
        c.string().map(str::to_owned)
    })
}

fn namespace(c: &mut Cursor<'_>) -> Option<String> {
    spaced(c, |c| {
        c.literal("namespace")?;
        c.equals_or(Cursor::ascii_space)?;
        let mut name = c.quoted(true).or_else(|| c.word())?.to_owned();
        if c.literal("*").is_some() {
            name.push('*');
        }
        Some(name)
    })
}

fn tag(c: &mut Cursor<'_>) -> Option<Tag> {
    let any_or_string = |c: &mut Cursor<'_>| wildcard(c).or_else(|| c.string()).map(str::to_owned);
    spaced(c, |c| {
        c.literal("tag")?;
        c.ascii_space()?;
        let application = c.string()?.to_owned();
        c.ascii_space()?;
        let key = any_or_string(c)?;
        c.ascii_space();
        c.literal("=")?;
        c.ascii_space();
        Some(Tag { application, key, value: any_or_string(c)? })
    })
}

/// A profile, spelt out. A name that is not known grants nothing.
fn profile(c: &mut Cursor<'_>) -> Option<Vec<Grant>> {
    c.literal("profile")?;
    c.equals_or(Cursor::ascii_space)?;
    let name = c.string()?;
    let pool = pool(c);
    let namespace = namespace(c);
    let within = Match { pool: pool.clone(), namespace, ..Match::default() };
    let object = |prefix: &str| Match { object_prefix: Some(prefix.to_owned()), ..Match::default() };
    let rights = |what, rights| Grant::anywhere(what, Spec::Rights(rights));
    let rbd = |what, method: &str| {
        Grant::anywhere(what, Spec::Class { class: "rbd".to_owned(), method: Some(method.to_owned()) })
    };
    // A pool's namespaces and its mirroring modes are listed in one object of the default namespace.
    let info = || Match { pool: pool.clone(), namespace: Some(String::new()), ..object("rbd_info") };
    let header = || Match { object_prefix: Some("rbd_header.".to_owned()), ..within.clone() };
    let read_write = OsdRights::R.with(OsdRights::W);
    Some(match name {
        "read-only" => vec![rights(within, OsdRights::R)],
        "read-write" => vec![rights(within, read_write)],
        "rbd" => vec![
            rights(object("rbd_info"), OsdRights::R),
            rights(object("rbd_children"), OsdRights::CLASS_R),
            rights(object("rbd_mirroring"), OsdRights::CLASS_R),
            rbd(info(), "metadata_list"),
            rights(within, read_write.with(OsdRights::X)),
        ],
        "rbd-read-only" => vec![
            rbd(info(), "metadata_list"),
            rbd(header(), "child_attach"),
            rbd(header(), "child_detach"),
            rights(within, OsdRights::R.with(OsdRights::CLASS_R)),
        ],
        _ => vec![],
    })
}
