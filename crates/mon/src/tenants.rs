//! Whether what tenants are promised can be kept.
//!
//! A reservation takes part of what OSDs promise their clients as a class, which each of them reports (the counter
//! `qos.client_res`; none where its scheduler keeps no promises). It is counted at every OSD to the part of the pool's
//! groups that lie there, replicas too: so it can be kept if all of the tenant's operations are writes. An entity, which
//! may work on any pool, is counted at each OSD with the pool that has the largest part there;
//! an image's in the pool that its data lies in.
//!
//! What this cannot foresee is that a tenant's operations all go to one object, or an OSD's failure: then reservations
//! that do not fit any more are kept in proportion. Promises that were made and cannot be kept now are a health warning.

use crate::mon::Mon;
use admin::{Refused, refuse};
use base::{Epoch, Errno, OsdId, PgId, PoolId};
use maps::OsdMap;
use maps::tenants::{OPTION, TenantPromise, Tenants, Who};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The counter by which an OSD says how many operations a second it promises its clients.
const REPORTED: &str = "qos.client_res";

/// The scheduler that keeps reservations and limits.
const KEEPS: &str = "mclock_scheduler";

/// How much more than an OSD promises its clients is warned of: what is learnt of devices wavers by so much.
const WARNED_ABOVE: f64 = 1.1;

/// The part of each pool's groups that each OSD holds.
type Parts = BTreeMap<PoolId, BTreeMap<OsdId, f64>>;

/// The parts by the map that was asked about last: health is looked at more often than groups move.
#[derive(Debug, Default)]
pub(crate) struct KnownParts(RefCell<(Epoch, Arc<Parts>)>);

impl KnownParts {
    fn by(&self, map: &OsdMap) -> Arc<Parts> {
        let mut known = self.0.borrow_mut();
        if known.0 != map.epoch {
            *known = (map.epoch, Arc::new(parts(map)));
        }
        Arc::clone(&known.1)
    }
}

fn parts(map: &OsdMap) -> Parts {
    let part = |pool: PoolId, pg_num: u32| {
        let mut parts = BTreeMap::new();
        for seed in 0..pg_num {
            for osd in map.pg_to_up_acting(PgId::new(pool, seed)).acting.into_iter().filter(|osd| *osd != OsdId::NONE) {
                *parts.entry(osd).or_default() += 1.0 / f64::from(pg_num);
            }
        }
        parts
    };
    map.pools.iter().map(|(id, pool)| (*id, part(*id, pool.pg_num))).collect()
}

/// The part of a tenant's operations that an OSD has to do.
fn part_at(parts: &Parts, who: &Who, promise: &TenantPromise, osd: OsdId) -> f64 {
    let of = |pool: &BTreeMap<OsdId, f64>| pool.get(&osd).copied().unwrap_or(0.0);
    match promise.kept_in(who) {
        Some(pool) => parts.get(&pool).map_or(0.0, of),
        None => parts.values().map(of).fold(0.0, f64::max),
    }
}

/// Who holds groups of pools, and how much of what is reserved each would have to keep, in operations a second.
fn loads(parts: &Parts, tenants: &Tenants) -> BTreeMap<OsdId, f64> {
    let holders = parts.values().flat_map(|pool| pool.keys().copied());
    let load = |osd| tenants.0.iter().map(|(who, p)| p.reserved_ops() * part_at(parts, who, p, osd)).sum();
    holders.map(|osd| (osd, load(osd))).collect()
}

/// What an OSD promises its clients and what it would have to keep, in operations a second, and the part of a tenant's
/// operations that it has to do.
struct Room {
    osd: OsdId,
    promised: f64,
    load: f64,
    part: f64,
}

impl Mon {
    /// All tenants and what they are promised; what cannot be read counts as nothing, as it does with OSDs.
    pub(crate) fn tenants(&self) -> Tenants {
        Tenants::parse(self.central.value_for("osd", OPTION).unwrap_or_default()).unwrap_or_default()
    }

    /// A tenant as a person names it.
    pub(crate) fn shown_tenant(&self, who: &Who) -> String {
        who.shown(|pool| self.osds.map().pool_name(pool).map(str::to_owned))
    }

    /// How many operations a second an OSD promises its clients; none before it has said so.
    fn promised_to_clients(&self, osd: OsdId) -> Option<f64> {
        let (_, reported) = self.daemon_reports.of(osd)?.counters.get(REPORTED)?;
        Some(reported.value as f64)
    }

    /// Refuses promises that the OSDs cannot keep. What was promised before, or more than is promised now, is not asked
    /// again.
    pub(crate) fn check_tenants(&self, tenants: &Tenants) -> Result<(), Refused> {
        let before = self.tenants();
        let grown = |(who, promise): &(&Who, &TenantPromise)| {
            let before = before.0.get(*who).copied().unwrap_or_default();
            let is_moved = promise.data_pool != before.data_pool && promise.reserved_ops() > 0.0;
            promise.reserved_ops() > before.reserved_ops() || is_moved
        };
        let grown: Vec<(&Who, &TenantPromise)> = tenants.0.iter().filter(grown).collect();
        if grown.is_empty() {
            return Ok(());
        }
        let parts = self.known_parts.by(self.osds.map());
        let loads = loads(&parts, tenants);
        if loads.is_empty() {
            return refuse(Errno::ERANGE, "there is no pool whose service could be promised");
        }
        for (osd, load) in loads {
            let Some(promised) = self.promised_to_clients(osd) else {
                return refuse(Errno::EAGAIN, format!("osd.{osd} has not said yet what it promises its clients"));
            };
            if load <= promised * (1.0 + 1e-9) {
                continue;
            }
            let has_part = |(who, promise): &&(&Who, &TenantPromise)| part_at(&parts, who, promise, osd) > 0.0;
            let Some((who, promise)) = grown.iter().find(has_part) else { continue };
            let room = Room { osd, promised, load, part: part_at(&parts, who, promise, osd) };
            return refuse(Errno::ERANGE, self.too_much(who, promise, &room));
        }
        Ok(())
    }

    /// What tenants were promised and is not kept, a line each.
    pub(crate) fn broken_promises(&self) -> Vec<String> {
        let (tenants, map) = (self.tenants(), self.osds.map());
        let is_gone = |(who, promise): &(&Who, &TenantPromise)| promise.pools(who).any(|pool| map.pool(pool).is_none());
        let gone = tenants.0.iter().filter(is_gone).map(|(who, _)| {
            let name = self.shown_tenant(who);
            format!("{name} is promised service of a pool that is no more; `ceph qos rm {name}` takes that back")
        });
        let mut lines: Vec<String> = gone.collect();
        lines.extend(self.limits_not_kept(&tenants));
        if tenants.0.values().all(|promise| promise.reserved_ops() == 0.0) {
            return lines;
        }
        for (osd, load) in loads(&self.known_parts.by(map), &tenants) {
            if let Some(promised) = self.promised_to_clients(osd).filter(|promised| load > promised * WARNED_ABOVE) {
                lines.push(format!(
                    "osd.{osd} would have to keep {load:.0} operations a second for tenants, copies included, and promises \
                     its clients {promised:.0}"
                ));
            }
        }
        lines
    }

    /// Which OSDs pass over tenants' limits, where there are any.
    fn limits_not_kept(&self, tenants: &Tenants) -> Option<String> {
        if tenants.0.values().all(|promise| promise.limit == 0 && promise.limit_bytes == 0) {
            return None;
        }
        let map = self.osds.map();
        // One that has been told to keep them, and has not said yet that it does, is about to.
        let keeps = |osd: &OsdId| self.central.value_for(&format!("osd.{}", osd.0), "osd_op_queue") == Some(KEEPS);
        let lax = |osd: &OsdId| map.is_up(*osd) && !keeps(osd) && self.promised_to_clients(*osd) == Some(0.0);
        let lax = map.osd_ids().filter(lax);
        let names: Vec<String> = lax.map(|osd| format!("osd.{osd}")).collect();
        (!names.is_empty()).then(|| format!("limits are not kept by {}: osd_op_queue is not {KEEPS}", names.join(", ")))
    }

    fn too_much(&self, who: &Who, promise: &TenantPromise, room: &Room) -> String {
        let (name, reserved) = (self.shown_tenant(who), promise.reserved_ops());
        let Room { osd, promised, load, part } = *room;
        if promised < 1.0 {
            return format!(
                "{name} cannot be promised a reservation: osd.{osd} promises its clients nothing; its osd_op_queue is not \
                 {KEEPS}, which alone keeps reservations"
            );
        }
        let fits = ((promised - (load - reserved * part)) / part).max(0.0);
        format!(
            "{name} cannot be promised {reserved:.0} operations a second: osd.{osd} would have to keep {load:.0}, copies \
             included, and promises its clients {promised:.0}; {fits:.0} would fit"
        )
    }
}
