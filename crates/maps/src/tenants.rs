//! Tenants: to whom the cluster promises a share of service, and what.
//!
//! Owns the value of the option `osd_qos_tenants`, by which the central configuration keeps all promises and brings them
//! to every OSD: one text, entries apart by semicolons, each a tenant and its figures:
//!
//! `client.web reservation=500 weight=2; namespace:3/blue limit=1000 limit_bytes=10485760; image:3//1a2b weight=5`
//!
//! Pools stand there by number, as a name may come to mean another pool; people name them ([`Who::named`]). An image whose
//! data lies in another pool has that pool with its figures, as `data_pool=5`. Refuses to
//! know whether promises can be kept: the monitor asks that when one is made.
//!
//! Invariants: the text of what was read is read as the same; a figure that is 0 is not written, and not kept.

use crate::limits::TENANTS_MAX;
use base::PoolId;
use base::xxhash::xxh64;
use core::fmt::{self, Display, Formatter};
use std::collections::BTreeMap;

/// The option.
pub const OPTION: &str = "osd_qos_tenants";

/// What stands before the pool of an image's data.
const DATA_POOL: &str = "data_pool";

/// The greatest weight.
pub const WEIGHT_MAX: u64 = 1000;
/// The greatest rate, in operations or bytes a second: below the numbers that a float counts one by one.
pub const RATE_MAX: u64 = 1 << 50;
/// The longest name of an entity, a namespace or an image, in bytes.
const NAME_BYTES_MAX: usize = 512;

/// Bytes of an operation that a reservation takes as one: larger ones count as several.
pub const RESERVED_BYTES_PER_OP: u64 = 64 << 10;

/// Whose requests are meant. An OSD takes a request for that of its image, else of its namespace, its entity, its pool:
/// the first of these that is a tenant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Who {
    /// An authenticated entity, whatever it works on: `client.web`.
    Entity(String),
    /// A pool, all of its namespaces.
    Pool(PoolId),
    /// A namespace of a pool.
    Namespace(PoolId, String),
    /// An RBD image, by its pool, namespace (empty for the default one) and id: the objects `rbd_data.ID.*`,
    /// `rbd_header.ID` and `rbd_object_map.ID`, and its data objects in another pool, `rbd_data.POOL.ID.*`.
    Image(PoolId, String, String),
}

/// A tenant's name among OSDs: the same everywhere, also while they do not have the same promises yet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TenantId(pub u64);

/// What a tenant is promised, by the whole cluster; a figure of 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TenantPromise {
    /// At least so many operations a second, of up to 64 KiB each.
    pub reservation: u64,
    /// At least so many bytes a second.
    pub reservation_bytes: u64,
    /// Parts of what each OSD has left: from 1 to 1000.
    pub weight: u64,
    /// At most so many operations a second, of any size.
    pub limit: u64,
    /// At most so many bytes a second.
    pub limit_bytes: u64,
    /// Of an image: the pool that its data lies in, if that is another (`rbd create --data-pool`).
    pub data_pool: Option<PoolId>,
}

/// Why a text names no tenant, or a figure makes no promise. Whoever set it is to blame.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BadTenant {
    /// It names nobody.
    #[error("'{0}' is no tenant: client.NAME, pool:POOL, namespace:POOL/NAMESPACE or image:POOL/[NAMESPACE/]ID")]
    Who(String),
    /// There is no such pool.
    #[error("'{0}' is no pool")]
    Pool(String),
    /// It is no figure.
    #[error("'{0}' is not one of reservation, reservation_bytes, weight, limit and limit_bytes with a number")]
    Figure(String),
    /// It is beyond its range.
    #[error("{0} is beyond the range from {1} to {2}")]
    Range(&'static str, u64, u64),
    /// Less than the least.
    #[error("{0} is less than what is reserved")]
    LimitBelowReservation(&'static str),
    /// It stands there twice.
    #[error("{0} stands there twice")]
    Twice(Who),
    /// There are too many.
    #[error("there are more than {TENANTS_MAX} tenants")]
    TooMany,
}

impl Default for TenantPromise {
    fn default() -> Self {
        TenantPromise { reservation: 0, reservation_bytes: 0, weight: 1, limit: 0, limit_bytes: 0, data_pool: None }
    }
}

impl TenantPromise {
    /// The figures by name, as they are written.
    pub fn figures(&self) -> [(&'static str, u64); 5] {
        [
            ("reservation", self.reservation),
            ("reservation_bytes", self.reservation_bytes),
            ("weight", self.weight),
            ("limit", self.limit),
            ("limit_bytes", self.limit_bytes),
        ]
    }

    /// Sets a figure by its name; false where there is none of that name.
    pub fn set(&mut self, figure: &str, value: u64) -> bool {
        let place = match figure {
            "reservation" => &mut self.reservation,
            "reservation_bytes" => &mut self.reservation_bytes,
            "weight" => &mut self.weight,
            "limit" => &mut self.limit,
            "limit_bytes" => &mut self.limit_bytes,
            _ => return false,
        };
        *place = value;
        true
    }

    /// Whether the figures make sense together.
    pub fn check(&self) -> Result<(), BadTenant> {
        for (name, value) in self.figures() {
            let (min, max) = if name == "weight" { (1, WEIGHT_MAX) } else { (0, RATE_MAX) };
            if value < min || value > max {
                return Err(BadTenant::Range(name, min, max));
            }
        }
        if self.limit > 0 && self.limit < self.reservation {
            return Err(BadTenant::LimitBelowReservation("limit"));
        }
        if self.limit_bytes > 0 && self.limit_bytes < self.reservation_bytes {
            return Err(BadTenant::LimitBelowReservation("limit_bytes"));
        }
        Ok(())
    }

    /// The pools that it is about: where it is to be kept, and an image's own.
    pub fn pools(&self, who: &Who) -> impl Iterator<Item = PoolId> {
        let own = if let Who::Image(pool, ..) = who { Some(*pool) } else { None };
        self.kept_in(who).into_iter().chain(own)
    }

    /// Where it is to be kept: the pool that this tenant's requests go to, of an image those for its data. None for an
    /// entity, which may work on any.
    pub fn kept_in(&self, who: &Who) -> Option<PoolId> {
        match who {
            Who::Entity(_) => None,
            Who::Pool(pool) | Who::Namespace(pool, _) => Some(*pool),
            Who::Image(pool, ..) => Some(self.data_pool.unwrap_or(*pool)),
        }
    }

    /// Reads a figure, or where an image's data lies; false for anything else.
    fn read(&mut self, who: &Who, word: &str) -> bool {
        match (word.split_once('='), who) {
            (Some((DATA_POOL, value)), Who::Image(..)) => {
                self.data_pool = value.parse().ok().map(PoolId);
                self.data_pool.is_some()
            }
            (Some((name, value)), _) => value.parse().is_ok_and(|value| self.set(name, value)),
            (None, _) => false,
        }
    }

    /// The operations a second, of up to 64 KiB, that it takes to keep the reservation.
    pub fn reserved_ops(&self) -> f64 {
        match self.reservation {
            0 => self.reservation_bytes as f64 / RESERVED_BYTES_PER_OP as f64,
            ops => ops as f64,
        }
    }
}

impl Who {
    /// Its name among OSDs.
    pub fn id(&self) -> TenantId {
        TenantId(xxh64(0, self.to_string().as_bytes()))
    }

    /// Reads what a person wrote, with pools by name.
    pub fn named(text: &str, pool: impl Fn(&str) -> Option<PoolId>) -> Result<Who, BadTenant> {
        Who::read(text, pool, |name| Some(name.to_owned()))
    }

    /// As a person would write it; a pool without a name stands by its number.
    pub fn shown(&self, pool: impl Fn(PoolId) -> Option<String>) -> String {
        let pool = |id: &PoolId| pool(*id).unwrap_or_else(|| id.0.to_string());
        match self {
            Who::Entity(name) => name.clone(),
            Who::Pool(id) => format!("pool:{}", pool(id)),
            Who::Namespace(id, namespace) => format!("namespace:{}/{namespace}", pool(id)),
            Who::Image(id, namespace, image) if namespace.is_empty() => format!("image:{}/{image}", pool(id)),
            Who::Image(id, namespace, image) => format!("image:{}/{namespace}/{image}", pool(id)),
        }
    }

    fn read(
        text: &str,
        pool: impl Fn(&str) -> Option<PoolId>,
        name: impl Fn(&str) -> Option<String>,
    ) -> Result<Who, BadTenant> {
        let bad = || BadTenant::Who(text.to_owned());
        let name = |part: &str| name(part).filter(|name| name.len() <= NAME_BYTES_MAX).ok_or_else(bad);
        let pool = |part: &str| pool(part).ok_or_else(|| BadTenant::Pool(part.to_owned()));
        let Some((kind, rest)) = text.split_once(':').filter(|(kind, _)| !kind.contains('.')) else {
            let entity = name(text)?;
            let named = entity.strip_prefix("client.").is_some_and(|name| !name.is_empty());
            return if named { Ok(Who::Entity(entity)) } else { Err(bad()) };
        };
        let parts: Vec<&str> = rest.split('/').collect();
        match (kind, &parts[..]) {
            ("pool", _) if !rest.is_empty() => Ok(Who::Pool(pool(rest)?)),
            ("namespace", [id, namespace]) if !namespace.is_empty() => Ok(Who::Namespace(pool(id)?, name(namespace)?)),
            ("image", [id, image]) if !image.is_empty() => Ok(Who::Image(pool(id)?, String::new(), name(image)?)),
            ("image", [id, namespace, image]) if !image.is_empty() => {
                Ok(Who::Image(pool(id)?, name(namespace)?, name(image)?))
            }
            _ => Err(bad()),
        }
    }
}

/// As the option has it.
impl Display for Who {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Who::Entity(name) => f.write_str(&escaped(name)),
            Who::Pool(pool) => write!(f, "pool:{}", pool.0),
            Who::Namespace(pool, namespace) => write!(f, "namespace:{}/{}", pool.0, escaped(namespace)),
            Who::Image(pool, namespace, image) => {
                write!(f, "image:{}/{}/{}", pool.0, escaped(namespace), escaped(image))
            }
        }
    }
}

/// All tenants and what they are promised.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tenants(pub BTreeMap<Who, TenantPromise>);

impl Tenants {
    /// Reads the option's value.
    pub fn parse(text: &str) -> Result<Tenants, BadTenant> {
        let mut tenants = Tenants::default();
        for entry in text.split(';').map(str::trim).filter(|entry| !entry.is_empty()) {
            let mut words = entry.split_whitespace();
            let number = |text: &str| text.parse().ok().map(PoolId);
            let who = Who::read(words.next().unwrap_or_default(), number, unescaped)?;
            let mut promise = TenantPromise::default();
            for word in words {
                if !promise.read(&who, word) {
                    return Err(BadTenant::Figure(word.to_owned()));
                }
            }
            promise.check()?;
            if tenants.0.contains_key(&who) {
                return Err(BadTenant::Twice(who));
            }
            tenants.0.insert(who, promise);
            if tenants.0.len() > TENANTS_MAX {
                return Err(BadTenant::TooMany);
            }
        }
        Ok(tenants)
    }
}

/// The option's value.
impl Display for Tenants {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (number, (who, promise)) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{who}")?;
            if let Some(pool) = promise.data_pool {
                write!(f, " {DATA_POOL}={}", pool.0)?;
            }
            for (name, value) in promise.figures().into_iter().filter(|(_, value)| *value > 0) {
                write!(f, " {name}={value}")?;
            }
        }
        Ok(())
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}

/// A name in which everything that could mean something else stands as %XX.
fn escaped(name: &str) -> String {
    let one = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") };
    name.bytes().map(one).collect()
}

fn unescaped(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(core::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else if is_plain(*first) {
            bytes.push(*first);
        } else {
            return None;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn who() -> impl Strategy<Value = Who> {
        let (pool, name) = (0i64..99, "\\PC{1,12}");
        prop_oneof![
            name.prop_map(|name| Who::Entity(format!("client.{name}"))),
            pool.clone().prop_map(|pool| Who::Pool(PoolId(pool))),
            (pool.clone(), name).prop_map(|(pool, name)| Who::Namespace(PoolId(pool), name)),
            (pool, "\\PC{0,5}", name).prop_map(|(pool, ns, name)| Who::Image(PoolId(pool), ns, name)),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            all in prop::collection::btree_map(who(), (1u64..1000, 0u64..999, prop::option::of(0i64..99)), 0..20)
        ) {
            let promise = |who: &Who, (weight, limit, data_pool): (u64, u64, Option<i64>)| {
                let data_pool = data_pool.filter(|_| matches!(who, Who::Image(..))).map(PoolId);
                TenantPromise { weight, limit, data_pool, ..TenantPromise::default() }
            };
            let all = all.into_iter().map(|(who, figures)| { let promise = promise(&who, figures); (who, promise) });
            let tenants = Tenants(all.collect());
            prop_assert_eq!(Tenants::parse(&tenants.to_string()), Ok(tenants));
        }

        #[test]
        fn whatever_is_set_is_read_or_refused(text in "\\PC{0,200}") {
            if let Ok(tenants) = Tenants::parse(&text) {
                prop_assert_eq!(Tenants::parse(&tenants.to_string()), Ok(tenants));
            }
        }
    }

    #[test]
    fn people_write_names() {
        let named = |text: &str| Who::named(text, |name| (name == "rbd").then_some(PoolId(3)));
        let shown = |who: &Who| who.shown(|id| (id == PoolId(3)).then(|| "rbd".to_owned()));
        for text in
            ["client.web", "pool:rbd", "namespace:rbd/b c", "image:rbd/1a2b", "image:rbd/blue/1a2b", "client.a:b"]
        {
            assert_eq!(named(text).map(|who| shown(&who)), Ok(text.to_owned()));
        }
        assert_eq!(named("pool:x"), Err(BadTenant::Pool("x".to_owned())));
        for bad in ["", "osd.1", "client.", "web", "pool:", "namespace:rbd", "namespace:rbd/", "image:rbd/a/b/c", "x:y"]
        {
            assert_eq!(named(bad), Err(BadTenant::Who(bad.to_owned())), "{bad}");
        }
        assert_eq!(shown(&Who::Pool(PoolId(4))), "pool:4");
    }

    #[test]
    fn nonsense_is_refused_in_words() {
        let refused = |text: &str| Tenants::parse(text).expect_err(text).to_string();
        assert_eq!(refused("client.a weight=0"), "weight is beyond the range from 1 to 1000");
        assert_eq!(refused("client.a reservation=5 limit=4"), "limit is less than what is reserved");
        assert_eq!(refused("client.a; client.a"), "client.a stands there twice");
        assert!(refused("client.a limit=-1").starts_with("'limit=-1' is not one of"));
        assert!(refused("pool:1 data_pool=2").starts_with("'data_pool=2' is not one of"));
        assert!(refused("image:1//a data_pool=rbd").starts_with("'data_pool=rbd' is not one of"));
        assert!(refused("client.a speed=1").starts_with("'speed=1' is not one of"));
    }
}
