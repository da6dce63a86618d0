#!/usr/bin/env python3
"""The few messages, frames and maps of an extraction that the test suite carries.

    curate.py EXTRACTION FIXTURES

Owns: the choice (small, and as different from each other as possible) and the fixtures' index. Refuses: making bytes;
each file is one of extract.py's, unchanged. Read next: the README.md beside the fixtures.
"""

import os
import re
import shutil
import sys
from collections import defaultdict

SMALL = 4096
# Types whose labels (ops, command, subscription) matter each for itself, and how many of them to carry.
WIDE = {"MOSDOp": 90, "MOSDOpReply": 80, "MMonSubscribe": 14, "MMonCommand": 8, "MMonCommandAck": 8, "MOSDMap": 10,
        "MPoolOp": 6, "MPoolOpReply": 4, "MConfig": 6, "MAuth": 6, "MAuthReply": 6, "MWatchNotify": 4,
        "MCommand": 5, "MCommandReply": 5, "MMgrCommand": 5, "MMgrCommandReply": 5, "MMonGetVersion": 5,
        "MPGStats": 6, "MOSDBoot": 5, "MLog": 5, "MMonMap": 3, "MMgrMap": 5}
PER_TYPE = 6
# What only Ceph's own OSDs and managers say to each other: Loligo's OSDs have their own protocol, its monitor does the
# manager's duties.
FOREIGN = """
    MBackfillReserve MMgrBeacon MMonMgrDigest MMonMgrReport MOSDPGBackfill MOSDPGInfo2 MOSDPGLease MOSDPGLeaseAck
    MOSDPGLog MOSDPGNotify MOSDPGNotify2 MOSDPGPull MOSDPGPush MOSDPGPushReply MOSDPGQuery2 MOSDPGRecoveryDelete
    MOSDPGRecoveryDeleteReply MOSDPGRemove MOSDPGScan MOSDPGTrim MOSDPGUpdateLogMissing MOSDPGUpdateLogMissingReply
    MOSDPing MOSDRepOp MOSDRepOpReply MOSDRepScrub MOSDRepScrubMap MOSDScrubReserve MRecoveryReserve
""".split()
HANDSHAKES = ("client-mon", "client-osd", "client-mgr", "osd-osd", "osd-mon", "osd-mgr", "mgr-mon")


def rows(extraction):
    with open(os.path.join(extraction, "index.tsv")) as file:
        head = file.readline().rstrip("\n").split("\t")
        for line in file:
            row = dict(zip(head, line.rstrip("\n").split("\t")))
            row["size"] = sum(int(row[part]) for part in ("front", "middle", "data"))
            if row["file"] != "-":
                yield row


def choose(candidates, limit):
    """Up to `limit`: from each label (and direction and version) the smallest, then a middling one, small ones first."""
    groups = defaultdict(list)
    for row in candidates:
        kinds = re.sub(r"\.-?\d+", "", row["direction"])
        groups[(row["label"], kinds, row["version"])].append(row)
    rounds = defaultdict(list)
    for group in groups.values():
        group.sort(key=lambda row: (row["size"], row["file"]))
        within = [row for row in group if row["size"] <= SMALL] or group[:4]
        picks = [within[0], within[-1], within[len(within) // 2], within[len(within) // 4]]
        for turn, row in enumerate({row["file"]: row for row in picks}.values()):
            rounds[turn].append(row)
    picked = []
    for turn in sorted(rounds):
        ordered = sorted(rounds[turn], key=lambda row: (row["size"], row["file"]))
        # The richest of the first round matter as much as the smallest: take from both ends.
        while ordered and len(picked) < limit:
            picked.append(ordered.pop(0))
            if ordered and len(picked) < limit and limit <= 8:
                picked.append(ordered.pop())
    return picked


def main():
    extraction, fixtures = sys.argv[1:3]
    for part in ("messages", "frames", "handshakes"):
        shutil.rmtree(os.path.join(fixtures, part), ignore_errors=True)
        os.makedirs(os.path.join(fixtures, part))
    by_type = defaultdict(list)
    for row in rows(extraction):
        if row["name"] not in FOREIGN:
            by_type[(int(row["type"]), row["name"])].append(row)
    total, lines = 0, []
    for (kind, name), candidates in sorted(by_type.items()):
        for count, row in enumerate(choose(candidates, WIDE.get(name, PER_TYPE)), 1):
            path = f"messages/{kind:04}_{name}_{count:02}.bin"
            shutil.copyfile(os.path.join(extraction, row["file"]), os.path.join(fixtures, path))
            total += os.path.getsize(os.path.join(fixtures, path))
            kinds = re.sub(r"\.-1\b", "", row["direction"])
            lines.append("\t".join((path, name, row["version"], row["compat"], kinds, row["front"], row["middle"], row["data"], row["label"])))
    for name in HANDSHAKES:
        folders = sorted(entry for entry in os.listdir(os.path.join(extraction, "handshakes")) if entry.startswith(name + "_"))
        if folders:
            shutil.copytree(os.path.join(extraction, "handshakes", folders[0]), os.path.join(fixtures, "handshakes", name))
    for entry in sorted(os.listdir(os.path.join(extraction, "handshakes"))):
        if re.match(r"(refused|reconnect|retry|race)", entry):
            shutil.copytree(os.path.join(extraction, "handshakes", entry), os.path.join(fixtures, "handshakes", entry))
    seen = defaultdict(int)
    for entry in sorted(os.listdir(os.path.join(extraction, "frames"))):
        tag = re.sub(r"_[a-z]+-[a-z]+_\d+\.bin$", "", entry)
        seen[tag] += 1
        if seen[tag] <= 3:
            shutil.copyfile(os.path.join(extraction, "frames", entry), os.path.join(fixtures, "frames", entry))
    for mode in ("crc", "secure"):
        source, target = (os.path.join(root, "streams", mode) for root in (extraction, fixtures))
        shutil.rmtree(target, ignore_errors=True)
        if os.path.isdir(source):
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.tsv"))
    with open(os.path.join(fixtures, "messages", "INDEX.tsv"), "w") as file:
        file.write("file\tname\tversion\tcompat\tdirection\tfront\tmiddle\tdata\tlabel\n")
        file.writelines(line + "\n" for line in lines)
    print(f"{len(lines)} messages, {total} bytes")


if __name__ == "__main__":
    main()
