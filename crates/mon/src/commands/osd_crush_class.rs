//! `osd crush class` and the classes of devices.
//!
//! Follows Ceph v16.2 `src/mon/OSDMonitor.cc`; the editing itself is `crush::edit`'s.

use super::osd_crush::edit;
use super::{Answer, Call, CommandSpec, Refused, Reply, refuse, spec};
use crate::format::Value;
use crate::mon::Mon;
use crate::object;
use base::{Errno, OsdId};
use crush::edit::EditError;

pub(super) const COMMANDS: &[CommandSpec] = &[
    spec("osd crush class ls", "list device classes", "osd", "r", class_ls),
    spec(
        "osd crush class ls-osd name=class,type=CephString,goodchars=[A-Za-z0-9-_]",
        "list the OSDs of a class",
        "osd",
        "r",
        class_ls_osd,
    ),
    spec(
        "osd crush class create name=class,type=CephString,goodchars=[A-Za-z0-9-_]",
        "make a device class",
        "osd",
        "rw",
        class_create,
    ),
    spec(
        "osd crush class rm name=class,type=CephString,goodchars=[A-Za-z0-9-_]",
        "remove a device class",
        "osd",
        "rw",
        class_rm,
    ),
    spec(
        "osd crush class rename name=srcname,type=CephString,goodchars=[A-Za-z0-9-_] name=dstname,type=CephString,goodchars=[A-Za-z0-9-_]",
        "rename a device class",
        "osd",
        "rw",
        class_rename,
    ),
    spec(
        "osd crush set-device-class name=class,type=CephString name=ids,type=CephString,n=N",
        "set the class of OSDs",
        "osd",
        "rw",
        set_class,
    ),
    spec(
        "osd crush rm-device-class name=ids,type=CephString,n=N",
        "take the class away from OSDs",
        "osd",
        "rw",
        rm_class,
    ),
    spec("osd crush get-device-class name=ids,type=CephString,n=N", "show the class of OSDs", "osd", "r", get_class),
];

fn class_ls(mon: &mut Mon, call: &Call) -> Answer {
    Ok(Reply::value(call, &Value::array(mon.osds.map().crush.class_names().values())))
}

fn class_ls_osd(mon: &mut Mon, call: &Call) -> Answer {
    let name = call.text("class")?;
    let crush = &mon.osds.map().crush;
    let Some(class) = crush.class_id(&name) else {
        return refuse(Errno::ENOENT, format!("class '{name}' does not exist"));
    };
    let osds: Vec<i32> = crush.class_devices(class).collect();
    Ok(Reply::either(call, || Value::array(osds.iter().copied()), || osds.iter().map(|o| format!("{o}\n")).collect()))
}

fn class_create(mon: &mut Mon, call: &Call) -> Answer {
    let name = call.text("class")?;
    if mon.osds.upcoming().crush.class_id(&name).is_some() {
        return Ok(Reply::status(format!("class '{name}' already exists")));
    }
    edit(mon, |crush| crush.create_class(&name).map(|_| true))?;
    let id = mon.osds.upcoming().crush.class_id(&name).unwrap_or(0);
    Ok(Reply::status(format!("created class {name} with id {id} to crush map")))
}

fn class_rm(mon: &mut Mon, call: &Call) -> Answer {
    let name = call.text("class")?;
    let Some(id) = mon.osds.upcoming().crush.class_id(&name) else { return Ok(Reply::empty()) };
    edit(mon, |crush| crush.remove_class(&name).map(|()| true))?;
    Ok(Reply::status(format!("removed class {name} with id {id} from crush map")))
}

fn class_rename(mon: &mut Mon, call: &Call) -> Answer {
    let (from, to) = (call.text("srcname")?, call.text("dstname")?);
    if mon.osds.upcoming().crush.class_id(&from).is_none() {
        let text = format!("fail to rename '{from}' to '{to}' : (2) No such file or directory");
        return refuse(Errno::ENOENT, text);
    }
    if mon.osds.upcoming().crush.class_id(&to).is_some() {
        return refuse(Errno::EEXIST, format!("fail to rename '{from}' to '{to}' : (17) File exists"));
    }
    edit(mon, |crush| crush.rename_class(&from, &to).map(|()| true))?;
    Ok(Reply::status(format!("rename class '{from}' to '{to}'")))
}

fn set_class(mon: &mut Mon, call: &Call) -> Answer {
    let class = call.text("class")?;
    let osds = super::osd::osds_named(mon, &call.list("ids")?)?;
    let mut changed = Vec::new();
    edit(mon, |crush| {
        for osd in &osds {
            if let Some(have) = crush.item_class(osd.0).filter(|have| *have != class) {
                return Err(EditError::NameTaken(format!("osd.{osd}' has already bound to class '{have}")));
            }
            if crush.set_device_class(osd.0, &class)? {
                changed.push(osd.0);
            }
        }
        Ok(!changed.is_empty())
    })
    .map_err(|r| if r.errno == Errno::EEXIST { Refused { errno: Errno::EBUSY, ..r } } else { r })?;
    let ids: Vec<String> = osds.iter().map(|o| o.to_string()).collect();
    Ok(Reply::status(format!("set osd(s) {} to class '{class}'", ids.join(","))))
}

fn rm_class(mon: &mut Mon, call: &Call) -> Answer {
    let osds = super::osd::osds_named(mon, &call.list("ids")?)?;
    edit(mon, |crush| {
        let mut changed = false;
        for osd in &osds {
            changed |= crush.remove_device_class(osd.0)?;
        }
        Ok(changed)
    })?;
    let ids: Vec<String> = osds.iter().map(|o| o.to_string()).collect();
    Ok(Reply::status(format!("done removing class of osd(s): {}", ids.join(","))))
}

fn get_class(mon: &mut Mon, call: &Call) -> Answer {
    let osds = super::osd::osds_named(mon, &call.list("ids")?)?;
    let crush = &mon.osds.map().crush;
    let class = |osd: &OsdId| crush.item_class(osd.0).unwrap_or_default().to_owned();
    let value = || Value::array(osds.iter().map(|osd| object! { "osd" => osd.0, "device_class" => class(osd) }));
    let plain = || match osds.len() {
        1 => osds.iter().map(class).filter(|name| !name.is_empty()).map(|name| name + "\n").collect(),
        _ => osds.iter().map(|osd| format!("osd.{osd} {}\n", class(osd))).collect(),
    };
    Ok(Reply::either(call, value, plain))
}
