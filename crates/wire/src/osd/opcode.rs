//! Operation codes: number, name, and what an operation may do to an object.
//!
//! Follows Ceph v16.2 `src/include/rados.h` (`__CEPH_FORALL_OSD_OPS`): four bits of mode, four of type, a number.
//! Read next: `op`.

use core::fmt;

/// The code of one operation on an object or a placement group (`CEPH_OSD_OP_*`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OpCode(pub u16);

const MODE_READ: u16 = 0x1000;
const MODE_WRITE: u16 = 0x2000;
const MODE_SUB: u16 = 0x4000;
const MODE_CACHE: u16 = 0x8000;
const TYPE: u16 = 0x0F00;
const DATA: u16 = 0x0200;
const ATTR: u16 = 0x0300;
const EXEC: u16 = 0x0400;
const PG: u16 = 0x0500;
const MULTI: u16 = 0x0600;

macro_rules! opcodes {
    ($($name:ident = $mode:expr, $type:expr, $nr:literal, $text:literal;)*) => {
        impl OpCode {
            $(#[doc = concat!("`", $text, "`")] pub const $name: OpCode = OpCode($mode | $type | $nr);)*

            /// Every code known here, in Ceph's order.
            pub const ALL: &[OpCode] = &[$(OpCode::$name),*];

            /// The name Ceph prints, or `???`.
            pub fn name(self) -> &'static str {
                match self { $(OpCode::$name => $text,)* _ => "???" }
            }
        }
    };
}

opcodes! {
    READ = MODE_READ, DATA, 1, "read";
    STAT = MODE_READ, DATA, 2, "stat";
    MAPEXT = MODE_READ, DATA, 3, "mapext";
    MASKTRUNC = MODE_READ, DATA, 4, "masktrunc";
    SPARSE_READ = MODE_READ, DATA, 5, "sparse-read";
    NOTIFY = MODE_READ, DATA, 6, "notify";
    NOTIFY_ACK = MODE_READ, DATA, 7, "notify-ack";
    ASSERT_VER = MODE_READ, DATA, 8, "assert-version";
    LIST_WATCHERS = MODE_READ, DATA, 9, "list-watchers";
    LIST_SNAPS = MODE_READ, DATA, 10, "list-snaps";
    SYNC_READ = MODE_READ, DATA, 11, "sync_read";
    WRITE = MODE_WRITE, DATA, 1, "write";
    WRITEFULL = MODE_WRITE, DATA, 2, "writefull";
    TRUNCATE = MODE_WRITE, DATA, 3, "truncate";
    ZERO = MODE_WRITE, DATA, 4, "zero";
    DELETE = MODE_WRITE, DATA, 5, "delete";
    APPEND = MODE_WRITE, DATA, 6, "append";
    STARTSYNC = MODE_WRITE, DATA, 7, "startsync";
    SETTRUNC = MODE_WRITE, DATA, 8, "settrunc";
    TRIMTRUNC = MODE_WRITE, DATA, 9, "trimtrunc";
    TMAPUP = MODE_READ | MODE_WRITE, DATA, 10, "tmapup";
    TMAPPUT = MODE_WRITE, DATA, 11, "tmapput";
    TMAPGET = MODE_READ, DATA, 12, "tmapget";
    CREATE = MODE_WRITE, DATA, 13, "create";
    ROLLBACK = MODE_WRITE, DATA, 14, "rollback";
    WATCH = MODE_WRITE, DATA, 15, "watch";
    OMAPGETKEYS = MODE_READ, DATA, 17, "omap-get-keys";
    OMAPGETVALS = MODE_READ, DATA, 18, "omap-get-vals";
    OMAPGETHEADER = MODE_READ, DATA, 19, "omap-get-header";
    OMAPGETVALSBYKEYS = MODE_READ, DATA, 20, "omap-get-vals-by-keys";
    OMAPSETVALS = MODE_WRITE, DATA, 21, "omap-set-vals";
    OMAPSETHEADER = MODE_WRITE, DATA, 22, "omap-set-header";
    OMAPCLEAR = MODE_WRITE, DATA, 23, "omap-clear";
    OMAPRMKEYS = MODE_WRITE, DATA, 24, "omap-rm-keys";
    OMAPRMKEYRANGE = MODE_WRITE, DATA, 44, "omap-rm-key-range";
    OMAP_CMP = MODE_READ, DATA, 25, "omap-cmp";
    COPY_FROM = MODE_WRITE, DATA, 26, "copy-from";
    COPY_FROM2 = MODE_WRITE, DATA, 45, "copy-from2";
    UNDIRTY = MODE_WRITE, DATA, 28, "undirty";
    ISDIRTY = MODE_READ, DATA, 29, "isdirty";
    COPY_GET = MODE_READ, DATA, 30, "copy-get";
    CACHE_FLUSH = MODE_CACHE, DATA, 31, "cache-flush";
    CACHE_EVICT = MODE_CACHE, DATA, 32, "cache-evict";
    CACHE_TRY_FLUSH = MODE_CACHE, DATA, 33, "cache-try-flush";
    TMAP2OMAP = MODE_READ | MODE_WRITE, DATA, 34, "tmap2omap";
    SETALLOCHINT = MODE_WRITE, DATA, 35, "set-alloc-hint";
    CACHE_PIN = MODE_WRITE, DATA, 36, "cache-pin";
    CACHE_UNPIN = MODE_WRITE, DATA, 37, "cache-unpin";
    WRITESAME = MODE_WRITE, DATA, 38, "write-same";
    CHECKSUM = MODE_READ, DATA, 31, "checksum";
    CMPEXT = MODE_READ, DATA, 32, "cmpext";
    SET_REDIRECT = MODE_WRITE, DATA, 39, "set-redirect";
    SET_CHUNK = MODE_CACHE, DATA, 40, "set-chunk";
    TIER_PROMOTE = MODE_WRITE, DATA, 41, "tier-promote";
    UNSET_MANIFEST = MODE_WRITE, DATA, 42, "unset-manifest";
    TIER_FLUSH = MODE_CACHE, DATA, 43, "tier-flush";
    TIER_EVICT = MODE_CACHE, DATA, 44, "tier-evict";
    CLONERANGE = MODE_WRITE, MULTI, 1, "clonerange";
    ASSERT_SRC_VERSION = MODE_READ, MULTI, 2, "assert-src-version";
    SRC_CMPXATTR = MODE_READ, MULTI, 3, "src-cmpxattr";
    GETXATTR = MODE_READ, ATTR, 1, "getxattr";
    GETXATTRS = MODE_READ, ATTR, 2, "getxattrs";
    CMPXATTR = MODE_READ, ATTR, 3, "cmpxattr";
    SETXATTR = MODE_WRITE, ATTR, 1, "setxattr";
    SETXATTRS = MODE_WRITE, ATTR, 2, "setxattrs";
    RESETXATTRS = MODE_WRITE, ATTR, 3, "resetxattrs";
    RMXATTR = MODE_WRITE, ATTR, 4, "rmxattr";
    CALL = MODE_READ, EXEC, 1, "call";
    PGLS = MODE_READ, PG, 1, "pgls";
    PGLS_FILTER = MODE_READ, PG, 2, "pgls-filter";
    PG_HITSET_LS = MODE_READ, PG, 3, "pg-hitset-ls";
    PG_HITSET_GET = MODE_READ, PG, 4, "pg-hitset-get";
    PGNLS = MODE_READ, PG, 5, "pgnls";
    PGNLS_FILTER = MODE_READ, PG, 6, "pgnls-filter";
    SCRUBLS = MODE_READ, PG, 7, "scrubls";
}

impl OpCode {
    /// Whether the operation reads the object. A class call's own flags say whether it does, not its code.
    pub fn reads(self) -> bool {
        self.0 & MODE_READ != 0 && self != OpCode::CALL
    }

    /// Whether its code says that it reads, as a class call's does whatever the class does.
    pub fn reads_or_calls(self) -> bool {
        self.0 & MODE_READ != 0
    }

    /// Whether the operation changes the object. A class call's own flags say whether it does, not its code.
    pub fn writes(self) -> bool {
        self.0 & MODE_WRITE != 0
    }

    /// Whether it belongs to cache tiering.
    pub fn is_cache(self) -> bool {
        self.0 & MODE_CACHE != 0
    }

    /// Whether it was for OSDs among themselves.
    pub fn is_sub(self) -> bool {
        self.0 & MODE_SUB != 0
    }

    /// Whether it concerns a placement group, no object.
    pub fn is_pg(self) -> bool {
        self.0 & TYPE == PG
    }

    /// Whether it concerns an extended attribute.
    pub fn is_attr(self) -> bool {
        self.0 & TYPE == ATTR
    }

    /// Whether its parameters are an extent of the object's data (`ceph_osd_op_uses_extent`).
    pub fn uses_extent(self) -> bool {
        matches!(
            self,
            OpCode::READ
                | OpCode::MAPEXT
                | OpCode::MASKTRUNC
                | OpCode::SPARSE_READ
                | OpCode::SYNC_READ
                | OpCode::WRITE
                | OpCode::WRITEFULL
                | OpCode::TRUNCATE
                | OpCode::ZERO
                | OpCode::APPEND
                | OpCode::TRIMTRUNC
                | OpCode::CMPEXT
        )
    }
}

impl fmt::Display for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for OpCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "???" => write!(f, "op {:#x}", self.0),
            name => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_well_known_ones_have_their_numbers() {
        let distinct: std::collections::BTreeSet<_> = OpCode::ALL.iter().collect();
        assert_eq!(distinct.len(), OpCode::ALL.len());
        let known =
            [(OpCode::READ, 0x1201), (OpCode::WRITEFULL, 0x2202), (OpCode::CALL, 0x1401), (OpCode::PGNLS, 0x1505)];
        for (code, number) in known {
            assert_eq!(code.0, number, "{code}");
        }
        assert!(OpCode::TMAPUP.reads() && OpCode::TMAPUP.writes());
        assert!(!OpCode::CALL.reads() && !OpCode::CALL.writes());
    }
}
