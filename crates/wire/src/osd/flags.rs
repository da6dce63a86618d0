//! Flag words of requests and of their single operations.
//!
//! Follows Ceph v16.2 `src/include/rados.h`. Unknown bits are kept, not refused: they are hints of newer clients.
//! Read next: `opcode`.

use core::fmt;
use core::ops::BitOr;

macro_rules! flags {
    ($(#[$doc:meta])* $type:ident { $($(#[$fdoc:meta])* $name:ident = $value:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub struct $type(pub u32);

        impl $type {
            $($(#[$fdoc])* pub const $name: $type = $type($value);)*

            /// Whether any bit of `other` is set.
            pub const fn has(self, other: $type) -> bool {
                self.0 & other.0 != 0
            }

            /// With the bits of `other` cleared.
            pub const fn without(self, other: $type) -> $type {
                $type(self.0 & !other.0)
            }
        }

        impl BitOr for $type {
            type Output = $type;
            fn bitor(self, other: $type) -> $type {
                $type(self.0 | other.0)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut rest = self.0;
                let mut plus = "";
                for (value, text) in [$(($value, $text)),*] {
                    if rest & value != 0 {
                        write!(f, "{plus}{text}")?;
                        rest &= !value;
                        plus = "+";
                    }
                }
                if rest != 0 { write!(f, "{plus}{rest:#x}") } else if plus.is_empty() { f.write_str("-") } else { Ok(()) }
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

flags! {
    /// Flags of a whole request (`CEPH_OSD_FLAG_*`); texts as Ceph prints them.
    RequestFlags {
        /// Wants, or is, an acknowledgement from memory; historical.
        ACK = 0x1, "ack";
        /// Historical.
        ONNVRAM = 0x2, "onnvram";
        /// Wants, or is, the acknowledgement of durability.
        ONDISK = 0x4, "ondisk";
        /// Sent before.
        RETRY = 0x8, "retry";
        /// May read.
        READ = 0x10, "read";
        /// May write.
        WRITE = 0x20, "write";
        /// Refuse with EOLDSNAPC if the snapshot context is older than the object's.
        ORDERSNAP = 0x40, "ordersnap";
        /// Historical.
        PEERSTAT_OLD = 0x80, "peerstat_old";
        /// Any replica may serve the read.
        BALANCE_READS = 0x100, "balance_reads";
        /// Execute in parallel; historical.
        PARALLELEXEC = 0x200, "parallelexec";
        /// Concerns a placement group, no object.
        PGOP = 0x400, "pgop";
        /// May call object classes.
        EXEC = 0x800, "exec";
        /// Historical.
        EXEC_PUBLIC = 0x1000, "exec_public";
        /// A near replica may serve the read.
        LOCALIZE_READS = 0x2000, "localize_reads";
        /// Reads are ordered with writes.
        RWORDERED = 0x4000, "rwordered";
        /// Skip cache-tier logic.
        IGNORE_CACHE = 0x8000, "ignore_cache";
        /// Skip read-write locks.
        SKIPRWLOCKS = 0x1_0000, "skiprwlocks";
        /// Ignore a pool's overlay.
        IGNORE_OVERLAY = 0x2_0000, "ignore_overlay";
        /// Part of a flush.
        FLUSH = 0x4_0000, "flush";
        /// The snapshot number is a clone's number.
        MAP_SNAP_CLONE = 0x8_0000, "map_snap_clone";
        /// Use the given snapshot context although the pool has pool snapshots.
        ENFORCE_SNAPC = 0x10_0000, "enforce_snapc";
        /// Has been redirected.
        REDIRECTED = 0x20_0000, "redirected";
        /// The redirected bit means something.
        KNOWN_REDIR = 0x40_0000, "known_if_redirected";
        /// Try although the cluster or pool is full.
        FULL_TRY = 0x80_0000, "full_try";
        /// Do it although the cluster or pool is full.
        FULL_FORCE = 0x100_0000, "full_force";
        /// Do not follow a manifest's redirect.
        IGNORE_REDIRECT = 0x200_0000, "ignore_redirect";
        /// Writes return their operations' results and data.
        RETURNVEC = 0x400_0000, "returnvec";
        /// Knows that a pool can answer EIO for all (Reef and later).
        SUPPORTS_POOL_EIO = 0x800_0000, "supports_pool_eio";
    }
}

flags! {
    /// Flags of one operation (`CEPH_OSD_OP_FLAG_*`).
    OpFlags {
        /// Creation must not find the object.
        EXCL = 0x1, "excl";
        /// Go on with the next operation if this one fails.
        FAILOK = 0x2, "failok";
        /// Accesses are random.
        FADVISE_RANDOM = 0x4, "fadvise_random";
        /// Accesses are sequential.
        FADVISE_SEQUENTIAL = 0x8, "fadvise_sequential";
        /// The data will be wanted soon.
        FADVISE_WILLNEED = 0x10, "fadvise_willneed";
        /// The data will not be wanted soon.
        FADVISE_DONTNEED = 0x20, "fadvise_dontneed";
        /// The data is wanted once.
        FADVISE_NOCACHE = 0x40, "fadvise_nocache";
        /// Counted references, in manifests.
        WITH_REFERENCE = 0x80, "with_reference";
        /// Read past the store's cache, for deep scrub.
        BYPASS_CLEAN_CACHE = 0x100, "bypass_clean_cache";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_print_as_ceph_prints_them() {
        let flags = RequestFlags::ONDISK | RequestFlags::WRITE | RequestFlags::KNOWN_REDIR;
        assert_eq!(flags.to_string(), "ondisk+write+known_if_redirected");
        assert_eq!((RequestFlags(0x4000_0000) | RequestFlags::ACK).to_string(), "ack+0x40000000");
        assert_eq!(RequestFlags(0).to_string(), "-");
    }
}
