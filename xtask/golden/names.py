"""The numbers that Ceph gives message types and OSD ops, as far as the captures meet them.

Facts: Ceph v16.2 src/msg/Message.h, src/include/ceph_fs.h (types), src/include/rados.h (ops).
"""

MESSAGES = {
    2: "MPing", 4: "MMonMap", 5: "MMonGetMap", 6: "MMonGetOSDMap", 7: "MMonMetadata", 13: "MStatfs",
    14: "MStatfsReply", 15: "MMonSubscribe", 16: "MMonSubscribeAck", 17: "MAuth", 18: "MAuthReply",
    19: "MMonGetVersion", 20: "MMonGetVersionReply", 21: "MMDSMap", 22: "MClientSession", 24: "MClientRequest",
    26: "MClientReply", 40: "MMonPaxosOld", 41: "MOSDMap", 42: "MOSDOp", 43: "MOSDOpReply", 44: "MWatchNotify",
    45: "MFSMap", 46: "MForward", 47: "MRoute", 48: "MPoolOpReply", 49: "MPoolOp", 50: "MMonCommand",
    51: "MMonCommandAck", 52: "MLog", 53: "MLogAck", 54: "MKVData", 58: "MGetPoolStats", 59: "MGetPoolStatsReply",
    60: "MMonGlobalID", 61: "MOSDBackoff", 62: "MConfig", 63: "MGetConfig", 64: "MMonScrub", 65: "MMonElection",
    66: "MMonPaxos", 67: "MMonProbe", 68: "MMonJoin", 69: "MMonSync", 70: "MOSDPing", 71: "MOSDBoot",
    72: "MOSDFailure", 73: "MOSDAlive", 74: "MOSDMarkMeDown", 75: "MOSDFull", 76: "MMonGetPurgedSnaps",
    77: "MMonGetPurgedSnapsReply", 78: "MOSDPGTemp", 79: "MOSDBeacon", 80: "MOSDPGNotify", 81: "MOSDPGQuery",
    83: "MOSDPGLog", 84: "MOSDPGRemove", 85: "MOSDPGInfo", 86: "MOSDPGTrim", 87: "MPGStats", 88: "MPGStatsAck",
    89: "MOSDPGCreate", 91: "MOSDScrub", 92: "MOSDScrubReserve", 93: "MOSDRepScrub", 94: "MOSDPGScan",
    95: "MOSDPGBackfill", 96: "MOSDPGBackfillRemove", 97: "MCommand", 98: "MCommandReply", 99: "MBackfillReserve",
    100: "MMDSBeacon", 103: "MFSMapUser", 105: "MOSDPGPush", 106: "MOSDPGPull", 107: "MOSDPGPushReply",
    108: "MOSDECSubOpWrite", 109: "MOSDECSubOpWriteReply", 110: "MOSDECSubOpRead", 111: "MOSDECSubOpReadReply",
    112: "MOSDRepOp", 113: "MOSDRepOpReply", 114: "MOSDPGUpdateLogMissing", 115: "MOSDPGUpdateLogMissingReply",
    116: "MOSDPGCreated", 117: "MOSDRepScrubMap", 118: "MOSDPGRecoveryDelete", 119: "MOSDPGRecoveryDeleteReply",
    120: "MOSDPGCreate2", 121: "MOSDScrub2", 122: "MOSDPGReadyToMerge", 123: "MOSDMarkMeDead", 130: "MOSDPGNotify2",
    131: "MOSDPGQuery2", 132: "MOSDPGInfo2", 133: "MOSDPGLease", 134: "MOSDPGLeaseAck", 150: "MRecoveryReserve",
    151: "MOSDForceRecovery", 0x600: "MTimeCheck", 0x601: "MMonHealth", 0x608: "MMonHealthChecks",
    0x609: "MTimeCheck2", 0x700: "MMgrOpen", 0x701: "MMgrConfigure", 0x702: "MMgrReport", 0x703: "MMgrBeacon",
    0x704: "MMgrMap", 0x705: "MMonMgrDigest", 0x706: "MMonMgrReport", 0x707: "MServiceMap", 0x708: "MMgrClose",
    0x709: "MMgrCommand", 0x70A: "MMgrCommandReply",
}

_RD, _WR, _RMW, _SUB, _CACHE = 0x1000, 0x2000, 0x3000, 0x4000, 0x8000
_DATA, _ATTR, _EXEC, _PG = 0x200, 0x300, 0x400, 0x500

OPS = {
    _RD | _DATA | 1: "read", _RD | _DATA | 2: "stat", _RD | _DATA | 3: "mapext", _RD | _DATA | 4: "masktrunc",
    _RD | _DATA | 5: "sparse-read", _RD | _DATA | 6: "notify", _RD | _DATA | 7: "notify-ack",
    _RD | _DATA | 8: "assert-ver", _RD | _DATA | 9: "list-watchers", _RD | _DATA | 10: "list-snaps",
    _RD | _DATA | 11: "sync-read", _RD | _DATA | 12: "tmapget", _RD | _DATA | 17: "omap-get-keys",
    _RD | _DATA | 18: "omap-get-vals", _RD | _DATA | 19: "omap-get-header",
    _RD | _DATA | 20: "omap-get-vals-by-keys", _RD | _DATA | 25: "omap-cmp", _RD | _DATA | 30: "copy-get",
    _RD | _DATA | 31: "checksum", _RD | _DATA | 32: "cmpext",
    _WR | _DATA | 1: "write", _WR | _DATA | 2: "writefull", _WR | _DATA | 3: "truncate", _WR | _DATA | 4: "zero",
    _WR | _DATA | 5: "delete", _WR | _DATA | 6: "append", _WR | _DATA | 7: "startsync",
    _WR | _DATA | 8: "settrunc", _WR | _DATA | 9: "trimtrunc", _RMW | _DATA | 10: "tmapup",
    _WR | _DATA | 11: "tmapput", _WR | _DATA | 12: "undirty", _WR | _DATA | 13: "create",
    _WR | _DATA | 14: "rollback", _WR | _DATA | 15: "watch", _WR | _DATA | 21: "omap-set-vals",
    _WR | _DATA | 22: "omap-set-header", _WR | _DATA | 23: "omap-clear", _WR | _DATA | 24: "omap-rm-keys",
    _WR | _DATA | 26: "copy-from", _WR | _DATA | 44: "omap-rm-key-range", _WR | _DATA | 35: "set-alloc-hint",
    _WR | _DATA | 38: "writesame", _WR | _DATA | 45: "copy-from2",
    _RD | _ATTR | 1: "getxattr", _RD | _ATTR | 2: "getxattrs", _RD | _ATTR | 3: "cmpxattr",
    _WR | _ATTR | 1: "setxattr", _WR | _ATTR | 2: "setxattrs", _WR | _ATTR | 3: "resetxattrs",
    _WR | _ATTR | 4: "rmxattr", _RD | _EXEC | 1: "call",
    _RD | _PG | 1: "pgls", _RD | _PG | 2: "pgls-filter", _RD | _PG | 3: "pg-hitset-ls",
    _RD | _PG | 4: "pg-hitset-get", _RD | _PG | 5: "pgnls", _RD | _PG | 6: "pgnls-filter", _RD | _PG | 7: "scrubls",
}
