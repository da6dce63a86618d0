//! Who the tenants are: what each is promised, what it asks for, and where its requests go.
//!
//! Owns the promises and that they can be kept. Nothing here is random: all runs of a study are about the same tenants.

use qos::Promise;

/// Of what an OSD reserves for clients, so much is reserved for tenants on the busiest.
const RESERVED: f64 = 0.8;
/// Of its reservation, so much a victim asks for.
const VICTIM_ASKS: f64 = 0.8;
/// Of its reservation, so much is the limit of a greedy tenant that has one.
const LIMIT_OF_GREEDY: f64 = 1.05;
/// Tenants are of these sizes, one after the other.
const SIZES: [f64; 3] = [1.0, 2.0, 4.0];
/// How requests divide over OSDs, one tenant after the other and each time one OSD further on: as the placement groups of
/// a large image lie, and those of ever smaller ones.
const SPREADS: [(&str, [u32; OSDS]); 4] =
    [("all alike", [1, 1, 1, 1]), ("some more", [4, 3, 2, 1]), ("two OSDs", [1, 1, 0, 0]), ("one OSD", [1, 0, 0, 0])];

/// How many OSDs there are.
pub(super) const OSDS: usize = 4;

/// What a tenant is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Asks for less than is reserved for it and wants it soon.
    Victim,
    /// Has a reservation and wants more.
    Greedy,
    /// Has a limit and wants more.
    Limited,
    /// Is promised nothing and wants everything.
    Hog,
}

/// A tenant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tenant {
    pub(super) kind: Kind,
    /// Requests a second that are reserved for it; 0 for none.
    pub(super) reservation: f64,
    /// The most requests a second that it may have.
    pub(super) limit: Option<f64>,
    /// How its requests divide over OSDs, in words and in parts.
    pub(super) spread: (&'static str, [u32; OSDS]),
}

impl Tenant {
    /// What is promised it, if anything is.
    pub(super) fn promise(&self) -> Option<Promise> {
        let promised = self.reservation > 0.0 || self.limit.is_some();
        promised.then(|| Promise::new(self.reservation, 1, self.limit).expect("sound"))
    }

    /// Requests a second that a victim asks for, whatever it gets; others ask again when they are served.
    pub(super) fn asks(&self) -> Option<f64> {
        (self.kind == Kind::Victim).then_some(self.reservation * VICTIM_ASKS)
    }

    /// The OSD that a number below `parts` draws.
    pub(super) fn osd(&self, mut drawn: u32) -> usize {
        let here = |part: &u32| {
            let here = drawn < *part;
            drawn = drawn.saturating_sub(*part);
            here
        };
        self.spread.1.iter().position(here).expect("one of its parts")
    }

    /// Parts in which its requests divide.
    pub(super) fn parts(&self) -> u32 {
        self.spread.1.iter().sum()
    }
}

/// So many tenants whose reservations fit into what each OSD reserves for clients.
pub(super) fn population(count: usize, reserved_of_osd: f64) -> Vec<Tenant> {
    let mut tenants: Vec<Tenant> = (0..count).map(|number| tenant(number, count)).collect();
    let of_osd = |osd: usize| -> f64 {
        let part = |tenant: &Tenant| f64::from(tenant.spread.1[osd]) / f64::from(tenant.parts());
        tenants.iter().map(|tenant| tenant.reservation * part(tenant)).sum()
    };
    let busiest = (0..OSDS).map(of_osd).fold(0.0, f64::max);
    let unit = RESERVED * reserved_of_osd / busiest;
    for tenant in &mut tenants {
        tenant.reservation *= unit;
        tenant.limit = tenant.limit.map(|limit| limit * unit);
    }
    tenants
}

/// The tenant of that number, in rates without a unit.
fn tenant(number: usize, count: usize) -> Tenant {
    let size = SIZES[number / (SPREADS.len() * OSDS) % SIZES.len()];
    let (kind, reservation, limit) = match number * 8 / count {
        0..=3 => (Kind::Victim, size, None),
        4 => (Kind::Greedy, size, None),
        5 => (Kind::Greedy, size, Some(LIMIT_OF_GREEDY * size)),
        // Half as much, so that most have less than hogs do and are held by nothing but their limits.
        6 => (Kind::Limited, 0.0, Some(size / 2.0)),
        _ => (Kind::Hog, 0.0, None),
    };
    let (name, mut parts) = SPREADS[number % SPREADS.len()];
    parts.rotate_right(number / SPREADS.len() % OSDS);
    Tenant { kind, reservation, limit, spread: (name, parts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_fit_on_every_osd_and_fill_the_busiest() {
        for count in [8, 96, 1000] {
            let tenants = population(count, 1000.0);
            let of_osd = |osd: usize| -> f64 {
                tenants.iter().map(|t| t.reservation * f64::from(t.spread.1[osd]) / f64::from(t.parts())).sum()
            };
            let busiest = (0..OSDS).map(of_osd).fold(0.0, f64::max);
            assert!((busiest - 800.0).abs() < 1e-6, "{count}: {busiest}");
            let of = |kind| tenants.iter().filter(|tenant| tenant.kind == kind).count();
            let counts = [Kind::Victim, Kind::Greedy, Kind::Limited, Kind::Hog].map(of);
            assert_eq!(counts, [count / 2, count / 4, count / 8, count / 8]);
        }
    }

    #[test]
    fn who_is_drawn_has_a_part() {
        for tenant in population(96, 1000.0) {
            let mut drawn = [0; OSDS];
            (0..tenant.parts()).for_each(|number| drawn[tenant.osd(number)] += 1);
            assert_eq!(drawn, tenant.spread.1);
        }
    }
}
