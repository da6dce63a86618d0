#!/usr/bin/env python3
"""Maps of a running cluster as its own monitor encodes and prints them, and what Ceph's tools make of them.

    maps.py CEPH_CONF OUT EPOCH...

For each EPOCH the full OSD map, the monitor's JSON of it, its CRUSH map (as bytes and decompiled) and the placement
of every PG; beside them the monitor map, the manager's map as JSON, and the configuration. Needs Debian's ceph-common,
ceph-base and python3-rados (hence /usr/bin/python3). Refuses: incrementals, which only extract.py sees. Read next:
the README.md beside the fixtures.
"""

import json
import os
import subprocess
import sys

import rados

ONCE = (
    ("mon getmap", "monmap.bin"), ("mon dump", "monmap.json"), ("mgr dump", "mgrmap.json"), ("config dump", "config.json"),
    ("fs dump", "fsmap.json"), ("service dump", "servicemap.json"), ("osd metadata", "osd_metadata.json"),
)


def ask(cluster, path, **command):
    code, out, status = cluster.mon_command(json.dumps(command), b"")
    if code:
        raise SystemExit(f"{command}: {code} {status}")
    with open(path, "wb") as file:
        file.write(out)


def tool(path, *command):
    """What a tool prints, less the line that names the file it read."""
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    with open(path, "w") as file:
        file.writelines(line for line in out.splitlines(True) if "osdmap file" not in line)


def main():
    conf, out, epochs = sys.argv[1], sys.argv[2], [int(epoch) for epoch in sys.argv[3:]]
    os.makedirs(out, exist_ok=True)
    cluster = rados.Rados(conffile=conf)
    cluster.connect()
    for prefix, name in ONCE:
        ask(cluster, os.path.join(out, name), prefix=prefix, format="json")
    for epoch in epochs:
        full = os.path.join(out, f"osdmap.full.{epoch:04}.bin")
        crush = os.path.join(out, f"crush.{epoch:04}.bin")
        ask(cluster, full, prefix="osd getmap", epoch=epoch)
        ask(cluster, os.path.join(out, f"osdmap.full.{epoch:04}.json"), prefix="osd dump", epoch=epoch, format="json")
        derive(full, crush, os.path.join(out, f"placement.{epoch:04}.txt"))
    cluster.shutdown()


def derive(full, crush, placement):
    """The CRUSH map inside a full map, and each PG's up and acting sets, as the tools see them."""
    subprocess.run(["osdmaptool", full, "--export-crush", crush], check=True, capture_output=True)
    subprocess.run(["crushtool", "-d", crush, "-o", crush[:-3] + "txt"], check=True)
    tool(placement, "osdmaptool", full, "--test-map-pgs-dump-all")


if __name__ == "__main__":
    main()
