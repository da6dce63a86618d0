"""Clients that misbehave lose their own connection and harm nobody else; clients without rights get Ceph's errno."""
import base64
import os
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest

import harness
from harness import ceph_json, run

POOL = "hostile"
BANNER = b"ceph v2\n" + struct.pack("<HQQ", 16, 1, 0)


def address(addrvec):
    return next(a["addr"] for a in addrvec if a["type"] == "v2").rsplit(":", 1)


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        harness.make_pool(POOL)
        mon = ceph_json("mon", "dump")["mons"][0]["public_addrs"]["addrvec"]
        osd = ceph_json("osd", "dump")["osds"][0]["public_addrs"]["addrvec"]
        cls.daemons = [address(mon), address(osd)]

    @classmethod
    def tearDownClass(cls):
        harness.drop_pool(POOL)

    def connect(self, daemon):
        sock = socket.create_connection((daemon[0], int(daemon[1])), timeout=10)
        self.addCleanup(sock.close)
        return sock

    def closes(self, sock, seconds=40):
        """The daemon ends the connection by itself."""
        sock.settimeout(seconds)
        try:
            while sock.recv(65536):
                pass
        except ConnectionError:
            pass

    def still_serves(self):
        run("rados", "-p", POOL, "put", "o", "/etc/hostname")
        run("rados", "-p", POOL, "get", "o", "-")

    def test_garbage_instead_of_a_banner(self):
        for daemon in self.daemons:
            sock = self.connect(daemon)
            sock.sendall(os.urandom(4096))
            self.closes(sock)
        self.still_serves()

    def test_msgr1_is_refused(self):
        for daemon in self.daemons:
            sock = self.connect(daemon)
            sock.sendall(b"ceph v027" + bytes(272))
            self.closes(sock)
        self.still_serves()

    def test_garbage_after_the_banner(self):
        for daemon in self.daemons:
            sock = self.connect(daemon)
            sock.sendall(BANNER + os.urandom(4096))
            self.closes(sock)
        self.still_serves()

    @unittest.skipUnless("LOLIGO" in os.environ, "real Ceph waits for the bytes")
    def test_a_huge_length_is_not_waited_for(self):
        # A preamble with a right checksum that promises 4 GiB.
        head = struct.pack("<BB", 1, 1) + struct.pack("<IH", 0xFFFFFFF0, 8) + bytes(18) + bytes(2)
        frame = head + struct.pack("<I", crc32c(head))
        for daemon in self.daemons:
            sock = self.connect(daemon)
            sock.sendall(BANNER + frame + bytes(65536))
            self.closes(sock)
        self.still_serves()

    @unittest.skipUnless("LOLIGO" in os.environ, "real Ceph waits for the bytes")
    def test_a_huge_banner_is_not_waited_for(self):
        for daemon in self.daemons:
            sock = self.connect(daemon)
            sock.sendall(b"ceph v2\n" + struct.pack("<H", 0xFFFF) + bytes(60000))
            self.closes(sock)
        self.still_serves()

    def test_half_a_frame_and_silence_harm_nobody(self):
        idle = [self.connect(d) for d in self.daemons for _ in range(50)]
        for i, sock in enumerate(idle):
            sock.sendall((BANNER + bytes(64))[: 3 + i % 60])
        self.still_serves()

    def test_a_client_that_stops_reading_harms_nobody(self):
        run("rados", "-p", POOL, "bench", "2", "write", "-b", "4194304", "-t", "8", "--no-cleanup")
        command = ["rados", "-p", POOL, "bench", "60", "rand", "-t", "64"]
        reader = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(1)
            # Its answers now pile up, first in the socket and then at the OSDs.
            reader.send_signal(signal.SIGSTOP)
            for _ in range(5):
                self.still_serves()
        finally:
            reader.kill()
            reader.wait()
        self.still_serves()
        run("rados", "-p", POOL, "cleanup")


def crc32c(data, crc=0):
    """msgr2's preamble checksum: CRC-32C from 0 without inversions."""
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc


class Rights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        harness.make_pool(POOL)
        run("rados", "-p", POOL, "put", "o", "/etc/hostname")
        cls.keyrings = tempfile.TemporaryDirectory(prefix="loligo-test-")

    @classmethod
    def tearDownClass(cls):
        harness.drop_pool(POOL)
        cls.keyrings.cleanup()

    def client(self, name, *caps):
        """Makes an entity; gives the flags by which a tool becomes it."""
        path = f"{self.keyrings.name}/{name}"
        text = run("ceph", "auth", "get-or-create", f"client.{name}", *caps).stdout
        self.addCleanup(run, "ceph", "auth", "rm", f"client.{name}")
        with open(path, "w") as file:
            file.write(text)
        return ["-n", f"client.{name}", "-k", path]

    def rados(self, who, *command):
        return run("rados", *who, "-p", POOL, *command, check=False)

    def denied(self, done, errno):
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(f"({errno})", done.stderr)

    def test_read_only_reads_and_does_not_write(self):
        who = self.client("reader", "mon", "allow r", "osd", f"allow r pool={POOL}")
        self.assertEqual(self.rados(who, "get", "o", "/dev/null").returncode, 0)
        self.denied(self.rados(who, "put", "o", "/etc/hostname"), 1)

    def test_another_pools_rights_do_not_help(self):
        who = self.client("elsewhere", "mon", "allow r", "osd", "allow rwx pool=another")
        self.denied(self.rados(who, "get", "o", "/dev/null"), 1)

    def test_a_namespace_is_a_fence(self):
        who = self.client("tenant", "mon", "allow r", "osd", f"allow rw pool={POOL} namespace=mine")
        self.assertEqual(self.rados(who, "-N", "mine", "put", "o", "/etc/hostname").returncode, 0)
        self.denied(self.rados(who, "-N", "other", "put", "o", "/etc/hostname"), 1)
        self.denied(self.rados(who, "put", "o", "/etc/hostname"), 1)

    def test_caps_change_for_those_who_connect_next(self):
        who = self.client("changing", "mon", "allow r", "osd", f"allow rw pool={POOL}")
        self.assertEqual(self.rados(who, "put", "o", "/etc/hostname").returncode, 0)
        run("ceph", "auth", "caps", "client.changing", "mon", "allow r", "osd", f"allow r pool={POOL}")
        self.denied(self.rados(who, "put", "o", "/etc/hostname"), 1)

    def test_monitor_commands_need_monitor_rights(self):
        who = self.client("watcher", "mon", "allow r")
        self.assertEqual(run("ceph", *who, "osd", "stat").returncode, 0)
        denied = run("ceph", *who, "osd", "pool", "create", "nope", check=False)
        self.assertEqual(denied.returncode, 13, denied.stderr)
        self.assertIn("EACCES", denied.stderr)

    def test_no_monitor_rights_no_session(self):
        who = self.client("nobody")
        self.denied(self.rados(who, "--no-mon-config", "get", "o", "/dev/null"), 13)

    def test_a_wrong_key_and_an_unknown_name_are_refused(self):
        who = self.client("victim", "mon", "allow *", "osd", "allow *")
        wrong = base64.b64encode(struct.pack("<HIIH", 1, 0, 0, 16) + os.urandom(16)).decode()
        for name in ("victim", "stranger"):
            with open(who[3], "w") as file:
                file.write(f"[client.{name}]\n\tkey = {wrong}\n")
            client = ["-n", f"client.{name}", "-k", who[3], "--no-mon-config"]
            self.denied(self.rados(client, "get", "o", "/dev/null"), 13)

    def test_a_missing_keyring_is_refused(self):
        done = self.rados(["-n", "client.admin", "-k", f"{self.keyrings.name}/none"], "get", "o", "/dev/null")
        self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()
