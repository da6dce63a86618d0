#!/usr/bin/env python3
"""Incremental OSD maps as a stopped monitor's store has them.

    incrementals.py STORE_DB OUT EPOCH...

STORE_DB is MON_DATA/store.db of a monitor that does not run; each EPOCH becomes OUT/osdmap.inc.EPOCH.bin, the bytes
that peers with all features get. Needs Debian's ceph-base. Refuses: whole maps, which maps.py asks the running
monitor for.
"""

import os
import subprocess
import sys


def main():
    store, out, epochs = sys.argv[1], sys.argv[2], [int(epoch) for epoch in sys.argv[3:]]
    os.makedirs(out, exist_ok=True)
    for epoch in epochs:
        path = os.path.join(out, f"osdmap.inc.{epoch:04}.bin")
        command = ["ceph-kvstore-tool", "rocksdb", store, "get", "osdmap", str(epoch), "out", path]
        subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    main()
