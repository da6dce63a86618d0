//! Ceph's releases by number, as maps require them of daemons and clients.
//!
//! Follows Ceph v16.2 `src/common/ceph_releases.h` and `src/include/rados.h` (`CEPH_RELEASE_*`).

use core::fmt;

/// A release; 0 is none. Numbers this build does not know are kept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Release(pub u8);

impl Release {
    /// No release stated.
    pub const UNKNOWN: Release = Release(0);
    /// 10.2.
    pub const JEWEL: Release = Release(10);
    /// 12.2.
    pub const LUMINOUS: Release = Release(12);
    /// 13.2.
    pub const MIMIC: Release = Release(13);
    /// 14.2.
    pub const NAUTILUS: Release = Release(14);
    /// 15.2.
    pub const OCTOPUS: Release = Release(15);
    /// 16.2, the one spoken here.
    pub const PACIFIC: Release = Release(16);

    const NAMES: [&'static str; 21] = [
        "unknown",
        "argonaut",
        "bobtail",
        "cuttlefish",
        "dumpling",
        "emperor",
        "firefly",
        "giant",
        "hammer",
        "infernalis",
        "jewel",
        "kraken",
        "luminous",
        "mimic",
        "nautilus",
        "octopus",
        "pacific",
        "quincy",
        "reef",
        "squid",
        "tentacle",
    ];

    /// The release's name in lower case.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(usize::from(self.0)).copied().unwrap_or("unknown")
    }

    /// The release of that name, in lower case; none for "unknown".
    pub fn from_name(name: &str) -> Option<Release> {
        let at = Self::NAMES.iter().position(|known| *known == name)?;
        (at > 0).then_some(Release(at as u8))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

wire::newtype_codec! {
    Release = Release as u8;
}
