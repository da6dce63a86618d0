//! The knobs that change how a map places data, and the profiles that set them together.
//!
//! Follows Ceph v16.2 `src/crush/CrushWrapper.h` (`set_tunables_*`) and `crush.h`. Owns values and names; what each
//! knob does is `mapper`'s. Legacy profiles are decoded, mapped and told apart; new maps use the default (jewel).

/// How hard and in which manner a rule tries. Rules may override most of these with `set_*` steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tunables {
    /// Retries in the same bucket after a collision, before the descent starts again. 0 since bobtail.
    pub choose_local_tries: u32,
    /// Retries by permutation of the same bucket. 0 since bobtail.
    pub choose_local_fallback_tries: u32,
    /// Retries from the top for one slot; tries are one more.
    pub choose_total_tries: u32,
    /// 1: a chooseleaf's inner descent is tried once and a failure retries the outer one.
    pub chooseleaf_descend_once: u32,
    /// 0: the inner descent starts with r = 0; n > 0: with the outer r shifted right by n - 1.
    pub chooseleaf_vary_r: u8,
    /// 1: firstn's inner descent is the same whichever slot asks, so that a device that leaves moves fewer others.
    pub chooseleaf_stable: u8,
    /// How the straws of the old straw buckets are computed when they change: 0 (with a flaw) or 1.
    pub straw_calc_version: u8,
    /// Bit n allows new buckets of algorithm n.
    pub allowed_bucket_algs: u32,
}

/// uniform, list, straw: what argonaut could do.
const LEGACY_ALGS: u32 = 1 << 1 | 1 << 2 | 1 << 4;
/// The same and straw2.
const HAMMER_ALGS: u32 = LEGACY_ALGS | 1 << 5;

/// A named set of tunables, oldest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Profile {
    /// The first release's; also "legacy".
    Argonaut,
    /// No local tries, 50 total tries, descend once.
    Bobtail,
    /// chooseleaf_vary_r 1.
    Firefly,
    /// straw2 allowed.
    Hammer,
    /// chooseleaf_stable 1; also "default" and "optimal".
    Jewel,
}

impl Profile {
    /// Every profile, newest first: the order in which Ceph recognises them.
    pub const NEWEST_FIRST: [Profile; 5] =
        [Profile::Jewel, Profile::Hammer, Profile::Firefly, Profile::Bobtail, Profile::Argonaut];

    /// The name in `ceph osd crush tunables NAME`.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Argonaut => "argonaut",
            Profile::Bobtail => "bobtail",
            Profile::Firefly => "firefly",
            Profile::Hammer => "hammer",
            Profile::Jewel => "jewel",
        }
    }

    /// The profile that a user means by `name`, with Ceph's aliases.
    pub fn parse(name: &str) -> Option<Profile> {
        match name {
            "legacy" => Some(Profile::Argonaut),
            "default" | "optimal" => Some(Profile::Jewel),
            _ => Profile::NEWEST_FIRST.into_iter().find(|profile| profile.name() == name),
        }
    }

    /// The tunables that it sets. `straw_calc_version` is no part of a profile before hammer; fresh maps have 1 then.
    pub fn tunables(self) -> Tunables {
        let argonaut = Tunables {
            choose_local_tries: 2,
            choose_local_fallback_tries: 5,
            choose_total_tries: 19,
            chooseleaf_descend_once: 0,
            chooseleaf_vary_r: 0,
            chooseleaf_stable: 0,
            straw_calc_version: 0,
            allowed_bucket_algs: LEGACY_ALGS,
        };
        let bobtail = Tunables {
            choose_local_tries: 0,
            choose_local_fallback_tries: 0,
            choose_total_tries: 50,
            chooseleaf_descend_once: 1,
            ..argonaut
        };
        let firefly = Tunables { chooseleaf_vary_r: 1, ..bobtail };
        let hammer = Tunables { straw_calc_version: 1, allowed_bucket_algs: HAMMER_ALGS, ..firefly };
        match self {
            Profile::Argonaut => argonaut,
            Profile::Bobtail => bobtail,
            Profile::Firefly => firefly,
            Profile::Hammer => hammer,
            Profile::Jewel => Tunables { chooseleaf_stable: 1, ..hammer },
        }
    }
}

impl Default for Tunables {
    /// What `ceph osd crush tunables default` sets in Pacific: jewel.
    fn default() -> Tunables {
        Profile::Jewel.tunables()
    }
}

impl Tunables {
    /// The newest profile whose values these are; `straw_calc_version`, which no mapping reads, is not compared.
    pub fn profile(&self) -> Option<Profile> {
        Profile::NEWEST_FIRST
            .into_iter()
            .find(|profile| Tunables { straw_calc_version: self.straw_calc_version, ..profile.tunables() } == *self)
    }

    /// Whether these are what new clusters get.
    pub fn is_optimal(&self) -> bool {
        self.profile() == Some(Profile::Jewel)
    }
}
