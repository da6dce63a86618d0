//! Tenants as an OSD knows them: whose a request is, what was served of each, and what other OSDs serve.
//!
//! A promise is the cluster's, not an OSD's: OSDs tell one another every `TENANTS_TELL` what they have served of each
//! tenant that is promised a rate, and the scheduler settles by that (`qos::MClock::settle`). Where the scheduler keeps no
//! rates, nothing is told.
//!
//! Owns the table and the counts. Refuses to know how promises are kept (`scheduler`, crate `qos`) and whether they can
//! be (the monitor).
//!
//! Invariant: a number of a group means one tenant for as long as this OSD lives.

use crate::core::{Core, Level};
use crate::limits::{TENANT_PEERS_SOON, TENANTS_TELL};
use crate::osd::Osd;
use admin::{Value, object};
use base::hash::FixedHashMap;
use base::{Duration, Instant, OsdId, PoolId};
use maps::tenants::{OPTION, TenantId, TenantPromise, Tenants, Who};
use qos::{Elsewhere, GroupId};
use std::collections::BTreeMap;
use wire::messages::{OsdTenants, SubWrite, TenantNews};
use wire::net::Envelope;

/// Requests that were answered.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    ops: u64,
    bytes: u64,
    latency: Duration,
}

#[derive(Debug)]
struct Tenant {
    who: Who,
    promise: TenantPromise,
    done: Done,
    /// Copies of its writes that this OSD was given by other primaries, pieces of objects for which its requests waited, and
    /// the bytes of all these.
    copies: (u64, u64),
    /// What others have told since the last settlement, and who they were.
    elsewhere: Elsewhere,
    told_by: Vec<OsdId>,
    /// There may be something to settle.
    busy: bool,
}

/// The tenants of a pool.
#[derive(Debug, Default)]
struct OfPool {
    whole: GroupId,
    namespaces: FixedHashMap<Vec<u8>, GroupId>,
    /// By namespace and id.
    images: FixedHashMap<Vec<u8>, FixedHashMap<Vec<u8>, GroupId>>,
}

/// All tenants.
#[derive(Debug, Default)]
pub struct TenantTable {
    /// The option's value that is in force.
    text: String,
    tenants: BTreeMap<GroupId, Tenant>,
    by_id: FixedHashMap<TenantId, GroupId>,
    entities: FixedHashMap<String, GroupId>,
    pools: FixedHashMap<PoolId, OfPool>,
    last_group: u32,
    /// Everybody else's requests.
    others: Done,
    busy: Vec<GroupId>,
    settle_at: Option<Instant>,
}

/// A group and what it is promised from now on; none for nothing.
pub(crate) type Change = (GroupId, Option<TenantPromise>);

impl TenantTable {
    /// Takes over the option's value; gives what has changed. A text that is none changes nothing.
    fn replace(&mut self, text: String) -> Result<Vec<Change>, maps::tenants::BadTenant> {
        if self.text == text {
            return Ok(Vec::new());
        }
        let tenants = Tenants::parse(&text)?;
        self.text = text;
        let gone: Vec<GroupId> =
            (self.tenants.iter()).filter(|(_, known)| !tenants.0.contains_key(&known.who)).map(|(g, _)| *g).collect();
        let mut changes: Vec<Change> = Vec::new();
        for group in gone {
            if let Some(tenant) = self.tenants.remove(&group) {
                self.by_id.remove(&tenant.who.id());
                changes.push((group, None));
            }
        }
        for (who, promise) in tenants.0 {
            let id = who.id();
            let group = *self.by_id.entry(id).or_insert_with(|| {
                self.last_group += 1;
                GroupId(self.last_group)
            });
            let tenant = self.tenants.entry(group).or_insert_with(|| Tenant {
                who,
                promise: TenantPromise { weight: 0, ..promise },
                done: Done::default(),
                copies: (0, 0),
                elsewhere: Elsewhere::default(),
                told_by: Vec::new(),
                busy: false,
            });
            if tenant.promise != promise {
                tenant.promise = promise;
                changes.push((group, Some(promise)));
            }
        }
        self.index();
        Ok(changes)
    }

    fn index(&mut self) {
        (self.entities, self.pools) = Default::default();
        for (group, tenant) in &self.tenants {
            match &tenant.who {
                Who::Entity(name) => drop(self.entities.insert(name.clone(), *group)),
                Who::Pool(pool) => self.pools.entry(*pool).or_default().whole = *group,
                Who::Namespace(pool, namespace) => {
                    let of_pool = self.pools.entry(*pool).or_default();
                    of_pool.namespaces.insert(namespace.clone().into_bytes(), *group);
                }
                Who::Image(pool, namespace, image) => {
                    let images = &mut self.pools.entry(*pool).or_default().images;
                    let images = images.entry(namespace.clone().into_bytes()).or_default();
                    images.insert(image.clone().into_bytes(), *group);
                }
            }
        }
    }

    /// Whose a request is: its image's, else its namespace's, its entity's, its pool's.
    pub(crate) fn of(&self, pool: PoolId, entity: &str, namespace: &[u8], object: &[u8]) -> GroupId {
        if self.tenants.is_empty() {
            return GroupId::NONE;
        }
        let image = || {
            let (of_pool, id) = image_of(object)?;
            self.pools.get(&of_pool.unwrap_or(pool))?.images.get(namespace)?.get(id).copied()
        };
        let of_pool = self.pools.get(&pool);
        let namespace = || of_pool?.namespaces.get(namespace).copied();
        let entity = || self.entities.get(entity).copied();
        let whole = || of_pool.map(|of_pool| of_pool.whole);
        image().or_else(namespace).or_else(entity).or_else(whole).unwrap_or(GroupId::NONE)
    }

    /// The tenant that a group is.
    pub(crate) fn id_of(&self, group: GroupId) -> Option<TenantId> {
        self.tenants.get(&group).map(|tenant| tenant.who.id())
    }

    /// A request of a group has come.
    pub(crate) fn arrived(&mut self, now: Instant, group: GroupId) {
        let Some(tenant) = self.tenants.get_mut(&group).filter(|tenant| !tenant.busy && tenant.is_kept_together())
        else {
            return;
        };
        tenant.busy = true;
        self.busy.push(group);
        self.settle_at.get_or_insert(now + TENANTS_TELL);
    }

    /// A request of a group has been answered.
    pub(crate) fn answered(&mut self, group: GroupId, bytes: u64, took: Duration) {
        let done = self.tenants.get_mut(&group).map_or(&mut self.others, |tenant| &mut tenant.done);
        done.ops += 1;
        done.bytes += bytes;
        done.latency += took;
    }

    /// Another OSD says what it has served.
    pub(crate) fn told(&mut self, now: Instant, from: OsdId, message: &OsdTenants) {
        for news in &message.tenants {
            let Some(group) = self.by_id.get(&TenantId(news.tenant)).copied() else { continue };
            let Some(tenant) = self.tenants.get_mut(&group) else { continue };
            let elsewhere = &mut tenant.elsewhere;
            elsewhere.served.requests += news.requests as f64;
            elsewhere.served.bytes += news.bytes as f64;
            elsewhere.served.reserved_ns += news.reserved_ns as f64;
            elsewhere.waits |= news.waits;
            if !tenant.told_by.contains(&from) {
                tenant.told_by.push(from);
                elsewhere.servers += 1;
            }
            self.arrived(now, group);
        }
    }

    /// When to settle next.
    pub(crate) fn next_wakeup(&self) -> Option<Instant> {
        self.settle_at
    }

    /// What is known of each, for `dump_tenants`.
    pub(crate) fn dump(&self, map: &maps::OsdMap) -> Value {
        let done = |done: &Done| {
            object! {
                "ops" => done.ops,
                "bytes" => done.bytes,
                "latency_sum" => Value::Float(done.latency.as_secs_f64()),
            }
        };
        let one = |tenant: &Tenant| {
            let mut value = object! { "tenant" => tenant.who.shown(|pool| map.pool_name(pool).map(str::to_owned)) };
            tenant.promise.figures().into_iter().for_each(|(figure, number)| value.push(figure, number));
            value.extend(done(&tenant.done));
            value.push("copies", tenant.copies.0);
            value.push("copies_bytes", tenant.copies.1);
            value
        };
        object! { "tenants" => Value::array(self.tenants.values().map(one)), "others" => done(&self.others) }
    }
}

impl Tenant {
    /// Whether OSDs have to tell one another what they serve of it.
    fn is_kept_together(&self) -> bool {
        let promise = &self.promise;
        promise.reservation + promise.reservation_bytes + promise.limit + promise.limit_bytes > 0
    }
}

/// The image that an object is part of, if its name says so: the image's id, and its pool where that is another one
/// (v16.2 `src/include/rbd_types.h`: `RBD_DATA_PREFIX`, `RBD_HEADER_PREFIX`, `RBD_OBJECT_MAP_PREFIX`; `src/librbd/
/// Utils.cc`, `data_object_name`).
fn image_of(object: &[u8]) -> Option<(Option<PoolId>, &[u8])> {
    let rest = |prefix: &str| object.strip_prefix(prefix.as_bytes());
    if let Some(rest) = rest("rbd_data.") {
        let mut parts = rest.split(|byte| *byte == b'.');
        return match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(id), Some(_), None, None) => Some((None, id)),
            (Some(pool), Some(id), Some(_), None) => {
                Some((Some(PoolId(core::str::from_utf8(pool).ok()?.parse().ok()?)), id))
            }
            _ => None,
        };
    }
    let rest = rest("rbd_header.").or_else(|| rest("rbd_object_map."))?;
    Some((None, rest.split(|byte| *byte == b'.').next().unwrap_or(rest)))
}

impl Osd {
    /// Takes over what tenants are promised from now on.
    pub(crate) fn apply_tenants(&mut self) {
        match self.core.tenants.replace(self.core.settings.value(OPTION)) {
            Ok(changes) => {
                changes.into_iter().for_each(|(group, promise)| self.scheduler.promise(self.core.now, group, promise));
            }
            Err(bad) => self.core.log(Level::Error, format!("{OPTION}: {bad}; tenants stay what they are")),
        }
    }

    /// Settles what was served of tenants and tells the other OSDs, if it is time.
    pub(crate) fn settle_tenants(&mut self) {
        let now = self.core.now;
        if self.core.tenants.settle_at.is_none_or(|at| at > now) {
            return;
        }
        let mut news = Vec::new();
        let table = &mut self.core.tenants;
        let busy = core::mem::take(&mut table.busy);
        for group in busy {
            let Some(tenant) = table.tenants.get_mut(&group) else { continue };
            let elsewhere = core::mem::take(&mut tenant.elsewhere);
            tenant.told_by.clear();
            let settled = self.scheduler.settle(now, group, elsewhere);
            let told = settled.served.requests > 0.0 || settled.waits;
            if told {
                news.push(TenantNews {
                    tenant: tenant.who.id().0,
                    requests: settled.served.requests as u64,
                    bytes: settled.served.bytes as u64,
                    reserved_ns: settled.served.reserved_ns as u64,
                    waits: settled.waits,
                });
            }
            tenant.busy = told || settled.queued || elsewhere.servers > 0;
            if tenant.busy {
                table.busy.push(group);
            }
        }
        let peers = others(&self.core);
        let table = &mut self.core.tenants;
        let apart = TENANTS_TELL.max(TENANTS_TELL * peers.len() as u32 / TENANT_PEERS_SOON);
        table.settle_at = (!table.busy.is_empty()).then_some(now + apart);
        if !news.is_empty() {
            for osd in peers {
                self.core.send_osd(osd, Envelope::new(OsdTenants { tenants: news.clone() }));
            }
        }
    }
}

impl Osd {
    /// Another primary gives this OSD a write to copy: it is done at once, as that one's client waits, and counts against
    /// its tenant's part of what is left here.
    pub(crate) fn note_replicated(&mut self, write: &SubWrite) {
        self.note_copied(write.tenant, (write.transaction.len() + write.payload.len()) as u64);
    }

    /// So is what a tenant's request waits for: pieces of objects that are read here for others, or that come here.
    pub(crate) fn note_copied(&mut self, tenant: u64, bytes: u64) {
        let table = &mut self.core.tenants;
        let Some(group) = table.by_id.get(&TenantId(tenant)).copied() else { return };
        if let Some(tenant) = table.tenants.get_mut(&group) {
            tenant.copies.0 += 1;
            tenant.copies.1 += bytes;
        }
        self.scheduler.done_besides(self.core.now, group, bytes);
    }
}

/// All other OSDs that serve.
fn others(core: &Core) -> Vec<OsdId> {
    let me = core.me();
    core.map.osd_ids().filter(|osd| *osd != me && core.map.is_up(*osd)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(text: &str) -> TenantTable {
        let mut table = TenantTable::default();
        table.replace(text.to_owned()).expect("sound");
        table
    }

    #[test]
    fn the_most_specific_tenant_wins() {
        let table = table("client.a; pool:3; namespace:3/blue; image:3//1f; image:3/blue/1f");
        let who = |pool, entity, namespace: &str, object: &str| {
            let group = table.of(PoolId(pool), entity, namespace.as_bytes(), object.as_bytes());
            table.tenants.get(&group).map(|tenant| tenant.who.to_string()).unwrap_or_default()
        };
        assert_eq!(who(3, "client.a", "", "rbd_data.1f.0000000000000000"), "image:3//1f");
        assert_eq!(who(3, "client.a", "blue", "rbd_header.1f"), "image:3/blue/1f");
        assert_eq!(who(3, "client.a", "", "rbd_object_map.1f.0000000000000004"), "image:3//1f");
        assert_eq!(who(4, "client.b", "", "rbd_data.3.1f.0000000000000000"), "image:3//1f", "its data pool");
        assert_eq!(who(3, "client.a", "blue", "rbd_data.20.0000000000000000"), "namespace:3/blue");
        assert_eq!(who(3, "client.a", "", "x"), "client.a");
        assert_eq!(who(3, "client.b", "green", "rbd_data.1f.0000000000000000"), "pool:3");
        assert_eq!(who(4, "client.b", "", "rbd_data.1f.0000000000000000"), "");
    }

    #[test]
    fn objects_show_their_images() {
        assert_eq!(image_of(b"rbd_data.1f"), None);
        assert_eq!(image_of(b"rbd_data.1.2.3.4"), None);
        assert_eq!(image_of(b"rbd_data.x.2.3"), None);
        assert_eq!(image_of(b"rbd_directory"), None);
        assert_eq!(image_of(b"rbd_data.7.2.3"), Some((Some(PoolId(7)), &b"2"[..])));
    }

    #[test]
    fn only_what_has_changed_is_changed() {
        let mut table = table("client.a limit=5; client.b weight=2");
        let changed = |table: &mut TenantTable, text: &str| {
            let changes = table.replace(text.to_owned()).expect("sound").into_iter();
            changes.map(|(group, promise)| (group.0, promise.map(|promise| promise.limit))).collect::<Vec<_>>()
        };
        assert_eq!(changed(&mut table, "client.a limit=5; client.b weight=2"), []);
        assert_eq!(changed(&mut table, "client.a limit=6; client.c"), [(2, None), (1, Some(6)), (3, Some(0))]);
        assert!(table.replace("client.a limit=-5".to_owned()).is_err());
        assert_eq!(changed(&mut table, "client.c; client.b"), [(1, None), (4, Some(0))], "numbers are not given again");
    }
}
