"""The monitor, every OSD and two clients are hosts of their own, in network namespaces; the network between them is cut in
all ways while clients write, and healed. Who can go on does; who is cut off never answers with what is old; and in the
end everybody is up, everything is clean, a deep scrub finds nothing, and every acknowledged byte is there."""
import json
import os
import subprocess
import time
import unittest

import hosts
from harness import Loligo, OwnCluster, run, wait_for
from verifying import Workers

OSDS = [0, 1, 2, 3]
GRACE_SECONDS = 4
PORT = 3300
# How long to look that something does not happen: longer than what would lead to it takes.
WHILE_SECONDS = GRACE_SECONDS + 2

# Reads an object again and again, each time anew, until a file is there; tells when each read began and what came of it.
READER = r"""
import os, rados, sys, threading, time
conf, name, anyone, stop = sys.argv[1], sys.argv[2], sys.argv[3] == "anyone", sys.argv[4]
cluster = rados.Rados(conffile=conf); cluster.connect()
io = cluster.open_ioctx("p")
def find():
    if not anyone:
        return io.read(name).decode()
    with rados.ReadOpCtx() as op:
        found, _ = io.get_omap_vals(op, "", "", 10)
        io.operate_read_op(op, name, rados.LIBRADOS_OPERATION_BALANCE_READS)
        return dict(found)["text"].decode()
def read():
    began = time.monotonic()
    sys.stdout.write(f"{began} asks\n")
    found = find()
    sys.stdout.write(f"{began} {found}\n")
    sys.stdout.flush()
while not os.path.exists(stop):
    threading.Thread(target=read, daemon=True).start()
    sys.stdout.flush()
    time.sleep(0.1)
"""

# Writes objects once and tells when that was acknowledged.
WRITER = r"""
import rados, sys, time
conf, text, names = sys.argv[1], sys.argv[2], sys.argv[3:]
cluster = rados.Rados(conffile=conf); cluster.connect()
io = cluster.open_ioctx("p")
for name in names:
    with rados.WriteOpCtx() as op:
        op.write_full(text.encode())
        io.set_omap(op, ("text",), (text.encode(),))
        io.operate_write_op(op, name)
print(time.monotonic())
"""

PYTHON = ("/usr/bin/python3", "-c")


@unittest.skipIf(hosts.why_not(), hosts.why_not())
class Partitions(OwnCluster):
    def setUp(self):
        super().setUp()
        self.daemons, self.readers = [], []
        self.hosts = hosts.Hosts(["mon", *map(self.host, OSDS), "near", "far"])
        # In this order, last first: daemons stop before their network goes.
        self.addCleanup(self.hosts.close)
        self.addCleanup(self.end_daemons)
        self.hosts.make()
        self.lay_out()
        self.conf = self.cluster.conf
        self.workers = Workers(self.conf, self.parent, lambda *command: self.hosts.on("near", *command))
        self.addCleanup(self.workers.kill)
        self.start("mon", "mon")
        for osd in OSDS:
            self.start(self.host(osd), "osd", "--id", osd)
        wait_for(lambda: self.answers() and self.up() == OSDS, "all are up on their hosts")
        self.ceph("osd", "pool", "create", "p", "16", "16")
        self.ceph("osd", "pool", "application", "enable", "p", "test")
        wait_for(self.is_clean, "a new pool is clean")

    def tearDown(self):
        # Not `down`: what runs here runs on other hosts, and ends before them.
        self.end_daemons()
        self.cluster.conf.unlink(missing_ok=True)
        super().tearDown()

    @staticmethod
    def host(osd):
        return f"osd{osd}"

    def lay_out(self):
        """Makes a cluster on the monitor's host alone, and writes down where each daemon is from now on."""
        options = {"osd_heartbeat_interval": 1, "osd_heartbeat_grace": GRACE_SECONDS}
        sets = [f"--set={key}={value}" for key, value in options.items()]
        shape = ["--detach", "--processes", "--osds", len(OSDS), "--port", PORT]
        run(*self.hosts.on("mon", Loligo.binary(), "up", "--dir", self.cluster.dir, *shape, *sets))
        run(*self.hosts.on("mon", Loligo.binary(), "down", "--dir", self.cluster.dir))
        lines = self.cluster.conf.read_text().replace("127.0.0.1", self.hosts.address("mon"))
        for osd in OSDS:
            lines += f"\n[osd.{osd}]\npublic_addr = {self.hosts.address(self.host(osd))}\n"
        self.cluster.conf.write_text(lines)

    def start(self, host, *verb):
        command = self.hosts.on(host, Loligo.binary(), verb[0], "--dir", self.cluster.dir, *verb[1:])
        self.daemons.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def end_daemons(self):
        for process in self.daemons + self.readers:
            process.kill()
            process.communicate()
        self.daemons, self.readers = [], []

    def ceph(self, *command, check=True):
        return run(*self.hosts.on("near", "ceph", *command), conf=self.conf, check=check)

    def json(self, *command):
        return json.loads(self.ceph(*command, "--format", "json").stdout)

    def answers(self):
        return self.ceph("--connect-timeout", "2", "status", check=False).returncode == 0

    def nodes(self):
        return {node["osd"]: node for node in self.json("osd", "dump")["osds"]}

    def up(self):
        return [osd for osd, node in self.nodes().items() if node["up"]]

    def groups(self):
        stats = self.json("pg", "dump", "pgs")
        return stats["pg_stats"] if isinstance(stats, dict) else stats

    def is_clean(self):
        states = self.json("status")["pgmap"]["pgs_by_state"]
        return [state["state_name"] for state in states] == ["active+clean"]

    def wait_up(self, osds):
        wait_for(lambda: self.up() == osds, f"of all OSDs only {osds} are up", period=0.2)

    def object_of(self, fits):
        """An object on whose members, primary first, `fits` says yes."""
        for number in range(1000):
            acting = self.json("osd", "map", "p", f"o{number}")["acting"]
            if fits(acting):
                return f"o{number}"
        self.fail("no object lies so")

    def write(self, host, text, *names):
        """Writes objects. When all are acknowledged."""
        return float(run(*self.hosts.on(host, *PYTHON, WRITER, self.conf, text, *names), conf=self.conf).stdout)

    def read_far(self, name, whom):
        """Begins to read on the far client."""
        out = self.parent / f"reads.{len(self.readers)}"
        command = self.hosts.on("far", *PYTHON, READER, self.conf, name, whom, self.parent / "stop")
        with out.open("w") as file:
            self.readers.append(subprocess.Popen(command, stdout=file, env=dict(os.environ, CEPH_ARGS="")))
        wait_for(lambda: len(self.reads(out, "found")) > 20, "the far client reads")
        return out

    @staticmethod
    def reads(out, what):
        """The reads, by when they began, that only ask so far, or that have found something."""
        lines = out.read_text().splitlines()[:-1]
        both = [(float(began), found) for began, found in map(str.split, lines)]
        return [(began, found) for began, found in both if (found == "asks") == (what == "asked")]

    def part(self, far):
        """Cuts some OSDs and the far client from everybody else."""
        far = {*map(self.host, far), "far"}
        self.hosts.part(far, set(self.hosts.names) - far)

    def settle(self):
        """The network is whole again: so is everything else, before long."""
        self.hosts.heal()
        wait_for(lambda: self.up() == OSDS, "all are up again", 120, 0.2)
        wait_for(self.is_clean, "everything is clean", 120, 0.2)
        self.workers.go_on()
        wrong, _ = self.workers.end()
        self.assertEqual(wrong, [])
        before = {group["pgid"]: group["last_deep_scrub_stamp"] for group in self.groups()}
        self.ceph("osd", "pool", "deep-scrub", "p")
        is_done = lambda group: group["last_deep_scrub_stamp"] != before[group["pgid"]]  # noqa: E731
        wait_for(lambda: all(map(is_done, self.groups())), "all is scrubbed")
        self.assertEqual([group["pgid"] for group in self.groups() if group["stat_sum"]["num_scrub_errors"]], [])
        for process in self.readers:
            process.wait(60)

    def old_is_never_read(self, far):
        """What the far half had is written anew in the near one, where two members are."""
        def splits(acting, leads):
            return (acting[0] in far) == leads and sum(osd in far for osd in acting) == 1

        led = self.object_of(lambda acting: splits(acting, True))
        held = self.object_of(lambda acting: splits(acting, False))
        self.write("near", "old", led, held)
        self.workers.begin()
        outs = [self.read_far(led, "primary"), self.read_far(held, "anyone")]
        self.part(far)
        self.wait_up([osd for osd in OSDS if osd not in far])
        written = self.write("near", "new", led, held)
        time.sleep(WHILE_SECONDS)
        for out in outs:
            self.assertIn("old", {found for _, found in self.reads(out, "found")})
            asked = [began for began, _ in self.reads(out, "asked") if began > written]
            self.assertGreater(len(asked), 20, "it goes on asking")
            self.assertEqual([found for began, found in self.reads(out, "found") if began > written], [], "nobody answers")
        self.hosts.heal()
        healed = time.monotonic()
        for out in outs:
            wait_for(lambda: any(began > healed for began, _ in self.reads(out, "found")), "the far client is answered", 90)
            self.assertEqual({found for began, found in self.reads(out, "found") if began > written}, {"new"})

    def test_one_osd_is_cut_off_with_a_client(self):
        self.old_is_never_read([3])
        self.settle()

    def test_two_halves(self):
        self.old_is_never_read([2, 3])
        self.settle()

    def test_the_monitor_is_with_the_fewer(self):
        """Groups without a member in the monitor's part go on: nobody else can. What they acknowledge stays."""
        name = self.object_of(lambda acting: 0 not in acting)
        self.write("far", "old", name)
        self.workers.begin()
        out = self.read_far(name, "primary")
        self.part([1, 2, 3])
        began = time.monotonic()
        wait_for(lambda: len(self.up()) < len(OSDS), "the monitor hears that somebody is gone", period=0.2)
        time.sleep(WHILE_SECONDS)
        self.assertEqual({found for at, found in self.reads(out, "found") if at > began}, {"old"})
        self.assertGreater(len([at for at, _ in self.reads(out, "found") if at > began]), 20)
        self.settle()

    def test_one_osd_is_cut_from_the_monitor_and_then_from_the_other_osds(self):
        self.workers.begin()
        self.hosts.part(["mon"], ["osd3"])
        for _ in range(3):
            time.sleep(WHILE_SECONDS / 3)
            self.workers.go_on(10)
        self.assertEqual(self.up(), OSDS, "the others hear it")
        self.hosts.heal()
        self.hosts.part(["osd3"], map(self.host, OSDS[:3]))
        self.wait_up(OSDS[:3])
        node = self.nodes()[3]
        time.sleep(WHILE_SECONDS)
        self.assertEqual(self.nodes()[3], node, "it does not come up where nobody hears it")
        self.workers.go_on(10)
        self.settle()

    def test_one_osd_is_not_heard_and_then_does_not_hear(self):
        others = [host for host in self.hosts.names if host != "osd3"]
        self.workers.begin()
        for way in (lambda host: ("osd3", host), lambda host: (host, "osd3")):
            for host in others:
                self.hosts.lose(*way(host))
            self.wait_up(OSDS[:3])
            self.workers.go_on(30)
            self.hosts.heal()
            wait_for(lambda: self.up() == OSDS, "all are up again", 120, 0.2)
        self.settle()

    def test_cables_that_come_loose(self):
        self.workers.begin()
        for host, away, back in (("osd3", 0.2, 0.3), ("osd1", 1, 0.5), ("mon", 2, 1), ("osd0", 3, 0.1), ("osd0", 6, 1),
                                 ("near", 2, 0)):
            self.hosts.plug(host, "down")
            time.sleep(away)
            self.hosts.plug(host, "up")
            time.sleep(back)
        self.settle()


if __name__ == "__main__":
    unittest.main()
