//! What the monitor says it is.
//!
//! Tools read the first number of the version to know which release's protocol and commands to expect: it is Ceph's,
//! 16.2 here; what stands in the parentheses, where Ceph names its commit, is ours. OSDs say the same of themselves.

/// The features announced to clients and shown (`CEPH_FEATURES_SUPPORTED_DEFAULT` of v16.2, as captured).
pub const FEATURES: u64 = 0x3f01_cfbd_fffd_ffff;

/// The release's name.
pub const RELEASE: &str = "pacific";

/// The short version.
pub const SHORT: &str = "16.2.15";

/// The line that `ceph version` prints.
pub const LONG: &str = concat!("ceph version 16.2.15 (loligo ", env!("CARGO_PKG_VERSION"), ") pacific (stable)");
