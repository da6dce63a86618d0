//! Objects of which no holder is up, as an operator lists them and gives them up.
//!
//! Follows Ceph v16.2 `src/osd/PrimaryLogPG.cc` (`do_command`) and `src/osd/PeeringState.cc` (`QueryUnfound`). What giving
//! up does is `pg::lost`'s.

use crate::limits::LIST_NAMES_MAX;
use crate::osd::Osd;
use crate::pg::Pg;
use crate::pg::lost::{GiveUp, Probed};
use crate::pg_query::led;
use admin::{Answer, Call, Refused, Reply, Value, object, refuse};
use base::{Errno, OsdId, PgId, SnapId};
use core::ops::Bound;
use maps::stats::show::version;
use store::ObjectId;
use wire::net::ConnId;

/// Over the admin socket an answer cannot wait for other OSDs.
pub(crate) fn on_the_socket(_: &mut Osd, _: &Call) -> Answer {
    refuse(Errno::EOPNOTSUPP, "mark_unfound_lost takes a while: ask for it by `ceph tell`")
}

/// Whether a call gives up what is unfound.
pub(crate) fn is_giving_up(call: &Call) -> bool {
    let named = |name: &str| call.text_opt(name).ok().flatten();
    call.prefix == "mark_unfound_lost"
        || call.prefix == "pg" && named("cmd").is_some_and(|cmd| cmd == "mark_unfound_lost")
}

impl Osd {
    /// The PGs that this OSD leads and that lack objects which nobody who was asked has.
    pub fn with_unfound(&self) -> Vec<PgId> {
        let lacks = |pg: &Pg| pg.is_primary() && !pg.recovery.unfound.is_empty();
        self.pgs_in_order(lacks).into_iter().map(|pg| pg.id).collect()
    }

    /// Gives up what is unfound in a PG. None where the answer comes later.
    pub(crate) fn give_up_unfound(&mut self, conn: ConnId, tid: u64, call: &Call) -> Option<Answer> {
        let how = match call.text("mulcmd").as_deref() {
            Ok("revert") => GiveUp::Revert,
            Ok("delete") => GiveUp::Delete,
            _ => {
                let text = "mode must be 'revert' or 'delete'; mark not yet implemented";
                return Some(refuse(Errno::EINVAL, text));
            }
        };
        let begun = led(self, call).and_then(|(core, pg)| pg.mark_unfound_lost(core, how, (conn, tid)));
        match begun {
            Ok(true) => None,
            Ok(false) => Some(Ok(Reply::status("pg has no unfound objects"))),
            Err(no) => Some(Err(no)),
        }
    }
}

/// `list_unfound`: the objects, after `offset` where that is given, and who might have them.
pub(crate) fn list(osd: &mut Osd, call: &Call) -> Answer {
    let offset = call.text_opt("offset")?.map(|text| parse_head(&text)).transpose()?;
    let (core, pg) = led(osd, call)?;
    let pool = pg.id.pool.0;
    let mut value = object! {};
    if let Some(offset) = &offset {
        value.push("offset", head_value(offset, pool));
    }
    let after = offset.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut unfound = pg.recovery.unfound.range((after, Bound::Unbounded));
    let object = |head: &ObjectId| {
        let (need, have) = pg.missing.get(head).map_or_else(Default::default, |need| (need.version, need.have));
        object! {
            "oid" => head_value(head, pool),
            "need" => version(need),
            "have" => version(have),
            "flags" => "none",
            "clean_regions" => "clean_offsets: [], clean_omap: 0, new_object: 1",
            "locations" => Value::Array(vec![]),
        }
    };
    value.push("num_missing", pg.missing.len());
    value.push("num_unfound", pg.recovery.unfound.len());
    value.push("objects", Value::array(unfound.by_ref().take(LIST_NAMES_MAX as usize).map(object)));
    let active = pg.is_active();
    value.push("state", if active { "Active" } else { "Started" });
    value.push("available_might_have_unfound", active);
    if active {
        let sources = pg.sources_of_unfound(core).into_iter();
        let source = |(osd, probed): (OsdId, Probed)| object! { "osd" => osd.0.to_string(), "status" => probed.text() };
        value.push("might_have_unfound", Value::array(sources.map(source)));
    }
    value.push("more", unfound.next().is_some());
    Ok(Reply::value(call, &value))
}

/// An object's head, in the fields of Ceph's `hobject_t`.
fn head_value(head: &ObjectId, pool: i64) -> Value {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    object! {
        "oid" => text(head.name()),
        "key" => text(head.key()),
        "snapid" => -2,
        "hash" => head.hash(),
        "max" => 0,
        "pool" => pool,
        "namespace" => text(head.namespace()),
    }
}

/// The head that the same fields name; what is left out is empty.
fn parse_head(text: &str) -> Result<ObjectId, Refused> {
    let wrong = |why: &str| refuse(Errno::EINVAL, format!("error parsing offset: {why}"));
    let Ok(serde_json::Value::Object(fields)) = serde_json::from_str(text) else { return wrong("bad json") };
    let part = |name: &str| fields.get(name).map_or(Some(""), |value| value.as_str());
    let (Some(name), Some(key), Some(namespace)) = (part("oid"), part("key"), part("namespace")) else {
        return wrong("names are text");
    };
    let hash = fields.get("hash").map_or(Some(0), serde_json::Value::as_u64).and_then(|hash| u32::try_from(hash).ok());
    let Some(hash) = hash else { return wrong("a hash has 32 bits") };
    if [name, key, namespace].iter().any(|part| part.len() > usize::from(u16::MAX)) {
        return wrong("no object has so long a name");
    }
    Ok(ObjectId::new(hash, namespace.as_bytes(), key.as_bytes(), name.as_bytes(), SnapId::HEAD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_told_and_read_back_and_nonsense_is_refused() {
        let head = ObjectId::new(0xdead_beef, b"space", b"key", b"name", SnapId::HEAD);
        let Ok(read) = parse_head(&head_value(&head, 3).to_json()) else { panic!("it is our own") };
        assert_eq!(read, head);
        let Ok(first) = parse_head("{}") else { panic!("what is left out is empty") };
        assert_eq!(first, ObjectId::new(0, b"", b"", b"", SnapId::HEAD));
        let long = format!("{{\"oid\": \"{}\"}}", "x".repeat(70_000));
        for text in ["", "[]", "{", r#"{"oid": 1}"#, r#"{"hash": -1}"#, r#"{"hash": 4294967296}"#, &long] {
            assert!(parse_head(text).is_err(), "{text}");
        }
    }
}
