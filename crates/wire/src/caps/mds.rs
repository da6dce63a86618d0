//! The check of metadata server caps.
//!
//! Follows Ceph v16.2 `src/mds/MDSAuthCaps.cc`:
//! `allow *|all|r[w][f][p][s]`, then `[fsname=..] [path=..] [root_squash]` or `[path=..] [uid=.. [gids=..]]`, then
//! `[network ..]`; or `allow` alone. That users cannot be told apart within a named file system is Pacific's grammar.

use super::BadCap;
use super::scan::Cursor;

/// The rights there are; a longer one before those it begins with.
const RIGHTS: [&str; 11] = ["*", "all", "rwfps", "rwps", "rwfp", "rwfs", "rwp", "rws", "rwf", "rw", "r"];

pub(super) fn validate(text: &str) -> Result<(), BadCap> {
    if text == "allow" {
        return Ok(());
    }
    let mut c = Cursor::new(text);
    c.ascii_space();
    let grants = c.list(true, grant);
    if grants.is_some() {
        c.ascii_space();
    }
    match grants {
        Some(_) if c.rest().is_empty() => Ok(()),
        _ => Err(BadCap::stopped("mds", c.rest(), text)),
    }
}

fn grant(c: &mut Cursor<'_>) -> Option<()> {
    c.literal("allow")?;
    c.spaces()?;
    RIGHTS.iter().find_map(|right| c.literal(right))?;
    let fs_name =
        setting(c, "fsname", |c| c.many(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')).map(|_| ()));
    setting(c, "path", |c| c.quoted(true).or_else(|| c.word()).map(|_| ()));
    let root_squash = c.try_part(|c| {
        c.spaces()?;
        c.literal("root_squash")
    });
    if fs_name.or(root_squash).is_none() && setting(c, "uid", number).is_some() {
        setting(c, "gids", |c| {
            number(c)?;
            while c.try_part(|c| c.literal(",").and_then(|()| number(c))).is_some() {}
            Some(())
        });
    }
    c.network(Cursor::spaces);
    Some(())
}

/// ` name=value`, if it follows.
fn setting(c: &mut Cursor<'_>, name: &str, value: impl FnOnce(&mut Cursor<'_>) -> Option<()>) -> Option<()> {
    c.try_part(|c| {
        c.spaces()?;
        c.literal(name)?;
        c.literal("=")?;
        value(c)
    })
}

/// A number that fits 32 bits.
fn number(c: &mut Cursor<'_>) -> Option<()> {
    c.many(|c| c.is_ascii_digit()).filter(|digits| digits.parse::<u32>().is_ok()).map(|_| ())
}
