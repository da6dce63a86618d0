//! `osd set`, `osd unset` and the settings of the whole cluster: flags, ratios, required releases.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc` (`prepare_set_flag`, `prepare_command_impl`).

use super::osd::osds_named;
use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::mon::Mon;
use base::{Errno, OsdId};
use maps::osd_map::MapFlags;
use maps::{OsdState, Release};

const FLAG_ARGUMENT: &str = "osd set name=key,type=CephChoices,strings=full|pause|noup|nodown|noout|noin|nobackfill|\
norebalance|norecover|noscrub|nodeep-scrub|notieragent|nosnaptrim|pglog_hardlimit name=yes_i_really_mean_it,type=CephBool,req=false";
const UNSET_ARGUMENT: &str = "osd unset name=key,type=CephChoices,strings=full|pause|noup|nodown|noout|noin|nobackfill|\
norebalance|norecover|noscrub|nodeep-scrub|notieragent|nosnaptrim";

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec(FLAG_ARGUMENT, "set a flag of the cluster", "osd", "rw", set),
    spec(UNSET_ARGUMENT, "clear a flag of the cluster", "osd", "rw", unset),
    spec("osd pause", "stop clients' reads and writes", "osd", "rw", pause),
    spec("osd unpause", "let clients read and write again", "osd", "rw", unpause),
    spec(
        "osd set-full-ratio name=ratio,type=CephFloat,range=0.0|1.0",
        "set the usage at which OSDs are full",
        "osd",
        "rw",
        set_full_ratio,
    ),
    spec(
        "osd set-backfillfull-ratio name=ratio,type=CephFloat,range=0.0|1.0",
        "set the usage at which OSDs take no backfill",
        "osd",
        "rw",
        set_backfillfull_ratio,
    ),
    spec(
        "osd set-nearfull-ratio name=ratio,type=CephFloat,range=0.0|1.0",
        "set the usage at which OSDs are nearly full",
        "osd",
        "rw",
        set_nearfull_ratio,
    ),
    spec("osd get-require-min-compat-client", "show the oldest clients allowed", "osd", "r", get_min_client),
    spec(
        "osd set-require-min-compat-client name=version,type=CephString name=yes_i_really_mean_it,type=CephBool,req=false",
        "set the oldest clients allowed",
        "osd",
        "rw",
        set_min_client,
    ),
    spec(
        "osd require-osd-release name=release,type=CephChoices,strings=luminous|mimic|nautilus|octopus|pacific name=yes_i_really_mean_it,type=CephBool,req=false",
        "set the oldest OSDs allowed",
        "osd",
        "rw",
        require_release,
    ),
    spec(
        "osd setmaxosd name=newmax,type=CephInt,range=0",
        "set one more than the highest OSD id",
        "osd",
        "rw",
        setmaxosd,
    ),
    spec(
        "osd set-group name=flags,type=CephString name=who,type=CephString,n=N",
        "set noup, nodown, noin or noout of OSDs, CRUSH nodes or classes",
        "osd",
        "rw",
        set_group,
    ),
    spec(
        "osd unset-group name=flags,type=CephString name=who,type=CephString,n=N",
        "clear noup, nodown, noin or noout of OSDs, CRUSH nodes or classes",
        "osd",
        "rw",
        unset_group,
    ),
    spec("osd add-noup name=ids,type=CephString,n=N", "keep OSDs from coming up", "osd", "rw", |m, c| {
        osd_flag(m, c, OsdState::NOUP, true)
    })
    .deprecated(),
    spec("osd add-nodown name=ids,type=CephString,n=N", "keep OSDs from being marked down", "osd", "rw", |m, c| {
        osd_flag(m, c, OsdState::NODOWN, true)
    })
    .deprecated(),
    spec("osd add-noin name=ids,type=CephString,n=N", "keep OSDs from being marked in", "osd", "rw", |m, c| {
        osd_flag(m, c, OsdState::NOIN, true)
    })
    .deprecated(),
    spec("osd add-noout name=ids,type=CephString,n=N", "keep OSDs from being marked out", "osd", "rw", |m, c| {
        osd_flag(m, c, OsdState::NOOUT, true)
    })
    .deprecated(),
    spec("osd rm-noup name=ids,type=CephString,n=N", "let OSDs come up", "osd", "rw", |m, c| {
        osd_flag(m, c, OsdState::NOUP, false)
    })
    .deprecated(),
    spec("osd rm-nodown name=ids,type=CephString,n=N", "let OSDs be marked down", "osd", "rw", |m, c| {
        osd_flag(m, c, OsdState::NODOWN, false)
    })
    .deprecated(),
    spec("osd rm-noin name=ids,type=CephString,n=N", "let OSDs be marked in", "osd", "rw", |m, c| {
        osd_flag(m, c, OsdState::NOIN, false)
    })
    .deprecated(),
    spec("osd rm-noout name=ids,type=CephString,n=N", "let OSDs be marked out", "osd", "rw", |m, c| {
        osd_flag(m, c, OsdState::NOOUT, false)
    })
    .deprecated(),
];

fn flags(key: &str) -> Option<MapFlags> {
    match key {
        "pause" => Some(MapFlags::PAUSERD.with(MapFlags::PAUSEWR)),
        // `full` is among the arguments, and refused: pools have a flag of their own (v16.2 `prepare_command_impl`).
        "noup" | "nodown" | "noout" | "noin" | "nobackfill" | "norebalance" | "norecover" | "noscrub"
        | "nodeep-scrub" | "notieragent" | "nosnaptrim" | "pglog_hardlimit" => MapFlags::from_name(key),
        _ => None,
    }
}

fn change_flags(mon: &mut Mon, flags: MapFlags, set: bool) -> Reply {
    let have = mon.osds.upcoming().flags;
    let want = if set { have.with(flags) } else { have.without(flags) };
    if want != have {
        mon.osds.change().new_flags = Some(want);
    }
    let names: Vec<&str> = flags.names().collect();
    Reply::status(format!("{} is {}", names.join(","), if set { "set" } else { "unset" }))
}

fn set(mon: &mut Mon, call: &Call) -> Answer {
    let key = call.text("key")?;
    match flags(&key) {
        Some(flags) => Ok(change_flags(mon, flags, true)),
        None => refuse(Errno::EINVAL, format!("unrecognized flag '{key}'")),
    }
}

fn unset(mon: &mut Mon, call: &Call) -> Answer {
    let key = call.text("key")?;
    match flags(&key).filter(|f| *f != MapFlags::PGLOG_HARDLIMIT) {
        Some(flags) => Ok(change_flags(mon, flags, false)),
        None => refuse(Errno::EINVAL, format!("unrecognized flag '{key}'")),
    }
}

fn pause(mon: &mut Mon, _: &Call) -> Answer {
    Ok(change_flags(mon, MapFlags::PAUSERD.with(MapFlags::PAUSEWR), true))
}

fn unpause(mon: &mut Mon, _: &Call) -> Answer {
    Ok(change_flags(mon, MapFlags::PAUSERD.with(MapFlags::PAUSEWR), false))
}

fn ratio(call: &Call) -> Result<f32, Refused> {
    let ratio = call.float("ratio")?;
    if !(0.0..=1.0).contains(&ratio) {
        return refuse(Errno::EINVAL, format!("ratio {ratio} is not between 0 and 1"));
    }
    Ok(ratio as f32)
}

fn set_full_ratio(mon: &mut Mon, call: &Call) -> Answer {
    let ratio = ratio(call)?;
    mon.osds.change().new_full_ratio = Some(ratio);
    Ok(Reply::status(format!("osd set-full-ratio {ratio}")))
}

fn set_backfillfull_ratio(mon: &mut Mon, call: &Call) -> Answer {
    let ratio = ratio(call)?;
    mon.osds.change().new_backfillfull_ratio = Some(ratio);
    Ok(Reply::status(format!("osd set-backfillfull-ratio {ratio}")))
}

fn set_nearfull_ratio(mon: &mut Mon, call: &Call) -> Answer {
    let ratio = ratio(call)?;
    mon.osds.change().new_nearfull_ratio = Some(ratio);
    Ok(Reply::status(format!("osd set-nearfull-ratio {ratio}")))
}

fn get_min_client(mon: &mut Mon, _: &Call) -> Answer {
    Ok(Reply::data(format!("{}\n", mon.osds.map().require_min_compat_client.name())))
}

fn set_min_client(mon: &mut Mon, call: &Call) -> Answer {
    let name = call.text("version")?;
    let Some(release) = Release::from_name(&name) else {
        return refuse(Errno::EINVAL, format!("version {name} is not recognized"));
    };
    mon.osds.change().new_require_min_compat_client = Some(release);
    Ok(Reply::status(format!("set require_min_compat_client to {name}")))
}

fn require_release(mon: &mut Mon, call: &Call) -> Answer {
    let name = call.text("release")?;
    let Some(release) = Release::from_name(&name) else {
        return refuse(Errno::EINVAL, format!("unrecognized release {name}"));
    };
    if release < mon.osds.upcoming().require_osd_release {
        return refuse(Errno::EPERM, "require_osd_release cannot be lowered once it has been set");
    }
    if release > Release::PACIFIC {
        return refuse(Errno::EPERM, "OSDs of this cluster speak Pacific");
    }
    mon.osds.change().new_require_osd_release = Some(release);
    Ok(Reply::empty())
}

fn setmaxosd(mon: &mut Mon, call: &Call) -> Answer {
    let newmax = call.int("newmax")?;
    let id_max = mon.osd_id_max();
    let Some(max) = i32::try_from(newmax).ok().filter(|max| (0..=id_max).contains(max)) else {
        return refuse(Errno::ERANGE, format!("cannot set max_osd to {newmax} which is > conf.mon_max_osd ({id_max})"));
    };
    let next = mon.osds.upcoming();
    if let Some(osd) = (max..next.max_osd()).map(OsdId).find(|osd| next.exists(*osd)) {
        let text = format!("cannot shrink max_osd to {max} because osd.{osd} (and possibly others) still in use");
        return refuse(Errno::EBUSY, text);
    }
    mon.osds.change().new_max_osd = Some(max as u32);
    Ok(Reply::status(format!("set new max_osd = {max}")))
}

fn osd_flag(mon: &mut Mon, call: &Call, bit: OsdState, set: bool) -> Answer {
    let osds = osds_named(mon, &call.list("ids")?)?;
    change_osd_flags(mon, osds.into_iter(), bit, set);
    Ok(Reply::empty())
}

fn change_osd_flags(mon: &mut Mon, osds: impl Iterator<Item = OsdId>, bits: OsdState, set: bool) {
    for osd in osds {
        let have = mon.osds.upcoming().state(osd);
        let want = if set { have.with(bits) } else { have.without(bits) };
        if mon.osds.upcoming().exists(osd) && want != have {
            mon.osds.flip_state(osd, OsdState(have.0 ^ want.0));
        }
    }
}

fn set_group(mon: &mut Mon, call: &Call) -> Answer {
    group(mon, call, true)
}

fn unset_group(mon: &mut Mon, call: &Call) -> Answer {
    group(mon, call, false)
}

fn group(mon: &mut Mon, call: &Call, set: bool) -> Answer {
    let text = call.text("flags")?;
    let mut bits = OsdState::default();
    for name in text.split(',') {
        bits = bits.with(match name {
            "noup" => OsdState::NOUP,
            "nodown" => OsdState::NODOWN,
            "noin" => OsdState::NOIN,
            "noout" => OsdState::NOOUT,
            _ => {
                return refuse(
                    Errno::EINVAL,
                    format!("unrecognized flag '{name}', must be one of {{noup,nodown,noin,noout}}"),
                );
            }
        });
    }
    for who in call.list("who")? {
        if let Ok(osds) = osds_named(mon, core::slice::from_ref(&who)) {
            change_osd_flags(mon, osds.into_iter(), bits, set);
            continue;
        }
        let next = mon.osds.upcoming();
        let (node, class) = (next.crush.item_id(&who), next.crush.class_id(&who));
        let (node_flags, class_flags) = (next.crush_node_flags.clone(), next.device_class_flags.clone());
        let change = |have: u32| if set { have | bits.0 } else { have & !bits.0 };
        match (node, class) {
            (Some(node), _) => {
                let have = node_flags.get(&node).copied().unwrap_or(0);
                mon.osds.change().new_crush_node_flags.insert(node, change(have));
            }
            (None, Some(class)) => {
                let have = class_flags.get(&class).copied().unwrap_or(0);
                mon.osds.change().new_device_class_flags.insert(class, change(have));
            }
            (None, None) => return refuse(Errno::EINVAL, format!("invalid osd id or CRUSH node or class '{who}'")),
        }
    }
    Ok(Reply::empty())
}
