//! The commands that show what is inside an OSD: watches, scrubs and slots to come, ping times, memory; and those that
//! only a part which this OSD has not could do.
//!
//! Names, arguments and shapes are those of Ceph v16.2 `src/osd/OSD.cc` (`OSD::asok_command`), as its OSDs answer.

use crate::osd::Osd;
use crate::pg::Pg;
use crate::pg_query::state_name;
use admin::format::quantity::{c_time, local_time};
use admin::{Answer, Call, CommandSpec, Reply, Value, object, refuse, spec};
use base::{Duration, Errno, OsdId, PgId};
use maps::address;
use std::collections::BTreeMap;
use wire::types::{EntityAddr, UTime};

pub(crate) const COMMANDS: &[CommandSpec<Osd>] = &[
    spec("dump_watchers", "list the watches of objects that this OSD leads", "osd", "r", watchers),
    spec("dump_scrubs", "show when which PG that this OSD leads is scrubbed", "osd", "r", scrubs),
    spec("dump_scrub_reservations", "show who has a place to scrub", "osd", "r", scrub_places),
    spec("dump_recovery_reservations", "show who has or wants a slot to recover", "osd", "r", recovery_slots),
    spec(
        "dump_osd_network name=value,type=CephInt,req=false",
        "show how long OSDs take to answer, of those that take this many milliseconds or more",
        "osd",
        "r",
        network,
    ),
    spec("dump_pgstate_history", "show what state each PG is in", "osd", "r", pg_states),
    spec("dump_mempools", "show what memory is held for what", "osd", "r", memory_pools),
    spec("dump_blocklist", "list clients and networks that are shut out", "osd", "r", blocklist),
    spec("cache status", "show how much is kept in memory of objects", "osd", "r", cache_status),
    spec("cache drop", "let what the store keeps in memory go", "osd", "rw", cache_drop),
    spec("flush_store_cache", "let what the store keeps in memory go", "osd", "rw", flush_store_cache),
    spec("flush_journal", "write out what the store's journal holds", "osd", "rw", nothing_to_do),
    spec("dump_objectstore_kv_stats", "show the counts of the store's key-value database", "osd", "r", nothing_to_do),
    spec(
        "calc_objectstore_db_histogram",
        "show the sizes of keys and values in the store's database",
        "osd",
        "r",
        nothing_to_do,
    ),
    spec(
        "set_recovery_delay name=utime,type=CephInt,req=false",
        "set for how many seconds recovery waits after peering",
        "osd",
        "rw",
        set_recovery_delay,
    ),
    spec(
        "debug kick_recovery_wq name=delay,type=CephInt,range=0",
        "set for how many seconds recovery waits after peering",
        "osd",
        "rw",
        kick_recovery,
    ),
    spec("smart name=devid,type=CephString,req=false", "ask the store's devices for their health", "osd", "r", smart),
    spec("list_devices", "list the devices of the store", "osd", "r", list_devices),
    spec(
        "heap name=heapcmd,type=CephChoices,\
         strings=dump|start_profiler|stop_profiler|release|get_release_rate|set_release_rate|stats \
         name=value,type=CephString,req=false",
        "ask the allocator",
        "osd",
        "rw",
        heap,
    ),
    spec(
        "get_heap_property name=property,type=CephString",
        "show one of the allocator's properties",
        "osd",
        "r",
        heap_property,
    ),
    spec(
        "set_heap_property name=property,type=CephString name=value,type=CephInt",
        "set one of the allocator's properties",
        "osd",
        "rw",
        set_heap_property,
    ),
    spec("cpu_profiler name=arg,type=CephChoices,strings=status|flush", "ask the profiler", "osd", "rw", cpu_profiler),
    spec(
        "injectdataerr name=pool,type=CephString name=objname,type=CephObjectname \
         name=shardid,type=CephInt,req=false,range=0|255",
        "make an object's data unreadable",
        "osd",
        "rw",
        not_injected,
    ),
    spec(
        "injectmdataerr name=pool,type=CephString name=objname,type=CephObjectname \
         name=shardid,type=CephInt,req=false,range=0|255",
        "make an object's metadata unreadable",
        "osd",
        "rw",
        not_injected,
    ),
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn watchers(osd: &mut Osd, call: &Call) -> Answer {
    let mut all: Vec<_> = osd.pgs.values().filter(|pg| pg.is_primary()).flat_map(|pg| pg.watches.iter()).collect();
    all.sort_unstable_by_key(|(object, name, _)| (*object, *name));
    let one = |(object, name, record): (&store::ObjectId, &crate::watch::WatchName, &crate::watch::WatchRecord)| {
        object! {
            "namespace" => text(object.namespace()),
            "object" => text(object.name()),
            "entity_name" => object! { "type" => name.entity.kind.name(), "num" => name.entity.num },
            "cookie" => name.cookie,
            "timeout" => record.timeout_s,
            "entity_addr_t" => address::addr(&record.addr),
        }
    };
    Ok(Reply::value(call, &Value::array(all.into_iter().map(one))))
}

fn scrubs(osd: &mut Osd, call: &Call) -> Answer {
    let led = osd.pgs_in_order(Pg::is_primary);
    Ok(Reply::value(call, &Value::Array(led.into_iter().filter_map(|pg| pg.scrub_schedule(&osd.core)).collect())))
}

fn scrub_places(osd: &mut Osd, call: &Call) -> Answer {
    let pace = &osd.core.scrubs;
    let leads = |pg: &PgId| osd.pgs.get(pg).is_some_and(|pg| pg.is_primary());
    let (local, all) = (pace.places().filter(leads).count(), pace.places().count());
    let value = object! {
        "scrubs_local" => local,
        "scrubs_remote" => all - local,
        "osd_max_scrubs" => pace.options.max,
    };
    Ok(Reply::value(call, &value))
}

fn recovery_slots(osd: &mut Osd, call: &Call) -> Answer {
    Ok(Reply::value(call, &osd.core.reservations.value()))
}

/// Where each PG is now. Ceph also tells of the states before; here only the log has those.
fn pg_states(osd: &mut Osd, call: &Call) -> Answer {
    let one = |pg: &Pg| {
        object! { "pg" => pg.id.to_string(), "currently" => state_name(pg), "history" => Value::Array(Vec::new()) }
    };
    Ok(Reply::value(call, &object! { "pgs" => Value::array(osd.pgs_in_order(|_| true).into_iter().map(one)) }))
}

/// What of the grace a ping takes that is too slow (`mon_warn_on_slow_ping_ratio`, 0.05).
const SLOW_PING_PART: u32 = 20;

/// After which silence an entry is old (`osd_heartbeat_stale`).
const STALE: Duration = Duration::from_secs(600);

fn network(osd: &mut Osd, call: &Call) -> Answer {
    let (core, usual) = (&osd.core, osd.core.heartbeats.grace() / SLOW_PING_PART);
    let asked = call.int_opt("value")?.map(|ms| Duration::from_millis(ms.max(0).unsigned_abs()));
    let threshold = asked.unwrap_or(usual);
    let mut slow: Vec<_> = core
        .heartbeats
        .ping_times()
        .filter_map(|(peer, times)| Some((times.worst().filter(|worst| *worst >= threshold)?, peer, times)))
        .collect();
    slow.sort_unstable_by_key(|(worst, peer, _)| (core::cmp::Reverse(*worst), *peer));
    let entries = slow.into_iter().map(|(_, peer, times): (Duration, OsdId, _)| {
        // Pings take the way of all messages between OSDs: there is no other at the front.
        let mut entry = object! {
            "last update" => c_time(times.last_at()),
            "stale" => core.now.since(times.last_at()) > STALE,
            "from osd" => core.me().0,
            "to osd" => peer.0,
            "interface" => "back",
        };
        entry.extend(times.value());
        entry
    });
    let entries = Value::array(entries);
    Ok(Reply::value(call, &object! { "threshold" => threshold.as_millis() as u64, "entries" => entries }))
}

/// What is counted: logs and maps under Ceph's names, what the store holds under its own.
fn memory_pools(osd: &mut Osd, call: &Call) -> Answer {
    let (mut items, mut bytes) = (0, 0);
    let mut pool = |name: &'static str, count: u64, size: u64| {
        (items, bytes) = (items + count, bytes + size);
        (name, object! { "items" => count, "bytes" => size })
    };
    let logs = osd.pgs.values().map(|pg| &pg.log);
    let entries = logs.clone().map(|log| log.len() as u64).sum();
    let (maps, map_bytes) = osd.core.blobs.held();
    let mut pools = vec![
        pool("osd_pglog", entries, logs.map(|log| log.bytes() as u64).sum()),
        pool("osd_mapbl", maps as u64, map_bytes as u64),
    ];
    if let Some(store) = &osd.core.store_counters {
        let sizes = [
            ("store_cache", store.cache_bytes.0),
            ("store_waiting", store.waiting_bytes.0),
            ("store_changes", store.change_bytes.0),
            ("store_space", store.space_bytes.0),
            ("store_buffers", store.buffer_bytes.0),
        ];
        // How many things they are in is not counted.
        pools.extend(sizes.map(|(name, size)| pool(name, 0, size)));
    }
    let total = object! { "items" => items, "bytes" => bytes };
    let value = object! { "mempool" => object! { "by_pool" => Value::members(pools), "total" => total } };
    Ok(Reply::value(call, &value))
}

/// Clients, then networks: two documents, one behind the other, as Ceph writes them.
fn blocklist(osd: &mut Osd, call: &Call) -> Answer {
    let list = |entries: &BTreeMap<EntityAddr, UTime>| {
        let entry = |(addr, until): (&EntityAddr, &UTime)| {
            object! { "entity_addr_t" => address::addr(addr), "expire_time" => local_time((*until).into()) }
        };
        call.format.render(&Value::array(entries.iter().map(entry)))
    };
    Ok(Reply::data(list(&osd.core.map.blocklist) + &list(&osd.core.map.range_blocklist)))
}

fn cache_status(osd: &mut Osd, call: &Call) -> Answer {
    let mut value = object! { "object_ctx" => osd.pgs.values().map(|pg| pg.objects.len()).sum::<usize>() };
    if let Some(store) = &osd.core.store_counters {
        value.push("store_cache", object! { "bytes" => store.cache_bytes.0 });
    }
    Ok(Reply::value(call, &value))
}

/// A store in memory has no cache that could go, with Ceph's answer to that.
fn cache_drop(osd: &mut Osd, _: &Call) -> Answer {
    if osd.core.store_counters.is_none() {
        return refuse(Errno::EPERM, "Error flushing objectstore cache: (1) Operation not permitted");
    }
    osd.empty_cache();
    Ok(Reply::empty())
}

fn flush_store_cache(osd: &mut Osd, _: &Call) -> Answer {
    osd.empty_cache();
    Ok(Reply::empty())
}

/// What a commit has confirmed lies nowhere where it would have to be flushed from, and no store has a database of others'.
fn nothing_to_do(_: &mut Osd, _: &Call) -> Answer {
    Ok(Reply::empty())
}

fn delay_recovery(osd: &mut Osd, seconds: i64) {
    let delay = format!("{:.6}", seconds.max(0) as f64);
    admin::Administered::set_override(osd, "osd_recovery_delay_start", Some(delay));
}

fn set_recovery_delay(osd: &mut Osd, call: &Call) -> Answer {
    let seconds = call.int_opt("utime")?.unwrap_or(0);
    delay_recovery(osd, seconds);
    Ok(Reply::data(format!("set_recovery_delay: set osd_recovery_delay_start to {seconds}")))
}

fn kick_recovery(osd: &mut Osd, call: &Call) -> Answer {
    let seconds = call.int("delay")?;
    delay_recovery(osd, seconds);
    Ok(Reply::status(format!("kicking recovery queue. set osd_recovery_delay_start to {seconds}")))
}

/// No device is known behind the file or block device that a store is in.
fn smart(_: &mut Osd, call: &Call) -> Answer {
    Ok(Reply::value(call, &Value::object()))
}

fn list_devices(_: &mut Osd, call: &Call) -> Answer {
    Ok(Reply::value(call, &Value::Array(Vec::new())))
}

fn heap(_: &mut Osd, _: &Call) -> Answer {
    refuse(Errno::EOPNOTSUPP, "could not issue heap profiler command -- not using tcmalloc!")
}

fn heap_property(_: &mut Osd, call: &Call) -> Answer {
    Ok(Reply::value(call, &object! { "error" => "invalid property", "success" => false, "value" => 0 }))
}

fn set_heap_property(_: &mut Osd, call: &Call) -> Answer {
    Ok(Reply::value(call, &object! { "error" => "invalid property", "success" => false }))
}

fn cpu_profiler(_: &mut Osd, _: &Call) -> Answer {
    Ok(Reply::data("cpu_profiler support not linked in"))
}

fn not_injected(_: &mut Osd, _: &Call) -> Answer {
    refuse(Errno::EOPNOTSUPP, "this store cannot be made to fail")
}
