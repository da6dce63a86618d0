"""A stock client whose map is old asks who leads a placement group that another OSD leads with every epoch it lacks."""
import json
import queue
import subprocess
import threading
import time

from harness import OwnCluster, run, wait_for

# For how long the monitor tells who has asked for a map once of those that follow, and more.
FOLLOWED_SECONDS = 17
# Says who leads the placement group, for every line it is sent.
CLIENT = r"""
import json, rados, sys
conf, pg = sys.argv[1:]
cluster = rados.Rados(conffile=conf); cluster.connect()
for line in sys.stdin:
    code, out, says = cluster.pg_command(pg, json.dumps({"prefix": "pg", "pgid": pg, "cmd": "query"}), b"")
    print(json.loads(out)["info"]["stats"]["acting_primary"] if code == 0 else says, flush=True)
"""


class OldMaps(OwnCluster):
    def setUp(self):
        super().setUp()
        self.cluster.up("--store", "memory")
        self.ceph("osd", "pool", "create", "p", 1, 1)
        wait_for(lambda: self.mine()["state"] == "active+clean", "the placement group is clean")
        self.client = subprocess.Popen(["/usr/bin/python3", "-c", CLIENT, self.cluster.conf, self.mine()["pgid"]],
                                       text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.answers = queue.Queue()
        threading.Thread(target=lambda: [self.answers.put(line) for line in self.client.stdout], daemon=True).start()

    def tearDown(self):
        self.client.kill()
        self.client.communicate()
        super().tearDown()

    def ceph(self, *command):
        return run("ceph", "-c", self.cluster.conf, *command, "-f", "json").stdout

    def mine(self):
        return json.loads(self.ceph("pg", "ls-by-pool", "p"))["pg_stats"][0]

    def leader(self):
        """Who leads, as the client finds."""
        self.client.stdin.write("?\n")
        self.client.stdin.flush()
        return int(self.answers.get(timeout=10))

    def test_who_lacks_several_epochs_finds_who_leads(self):
        # All that it lacked came in one message: it asked who led in the first, was refused, and asked the same OSD again
        # thousands of times a second, for as long as no other epoch came.
        pg = self.mine()
        first, second, third = pg["acting"]
        self.assertEqual(self.leader(), first)
        time.sleep(FOLLOWED_SECONDS)
        for chosen in (second, third, second, third):
            self.ceph("osd", "primary-temp", pg["pgid"], f"osd.{chosen}")
        self.assertEqual(self.leader(), third)
