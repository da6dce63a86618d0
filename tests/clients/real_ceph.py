"""A real Ceph cluster on given devices: Debian's packages, loopback, one monitor, one manager, BlueStore. It is there to
be measured beside Loligo, and keeps the same contract: DIR has ceph.conf, run/*.pid and log/.
"""
import os
import signal
import uuid
from pathlib import Path

from harness import free_port, has_ended, run, wait_for

PACKAGES = "ceph-mon ceph-mgr ceph-osd ceph-common"


def is_installed():
    return all(Path("/usr/bin", program).exists() for program in PACKAGES.split()[:3])


def configuration(home, options):
    lines = {
        "fsid": uuid.uuid4(), "mon_host": f"[v2:127.0.0.1:{free_port()}/0]", "public_addr": "127.0.0.1",
        "keyring": home / "ceph.client.admin.keyring", "ms_bind_ipv6": "false", "osd_crush_chooseleaf_type": 0,
        "run_dir": home / "run", "pid_file": home / "run/$name.pid", "log_file": home / "log/$name.log",
        "admin_socket": home / "run/$name.asok", "mon_data": home / "mon", "mgr_data": home / "mgr",
        "osd_data": home / "osd.$id", "mon_allow_pool_delete": "true", "mon_data_avail_warn": 1,
        "osd_memory_target": 1 << 30, "mgr_disabled_modules": "dashboard restful prometheus",
        "auth_allow_insecure_global_id_reclaim": "false", **options,
    }
    return "[global]\n" + "".join(f"{key} = {value}\n" for key, value in lines.items())


class RealCeph:
    def __init__(self, directory):
        self.dir = Path(directory)
        self.conf = self.dir / "ceph.conf"

    def up(self, osds, options):
        for name in ("run", "log", "mon", "mgr"):
            (self.dir / name).mkdir(parents=True)
        self.conf.write_text(configuration(self.dir, options))
        self._make_keys(osds)
        keyring, monmap = self.dir / "ceph.client.admin.keyring", self.dir / "monmap"
        settings = dict(line.split(" = ", 1) for line in self.conf.read_text().splitlines()[1:])
        address = settings["mon_host"].partition("/")[0] + "]"
        self._run("monmaptool", "--create", "--fsid", settings["fsid"], "--addv", "a", address, monmap)
        self._run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", keyring)
        self._run("ceph-mon", "-i", "a", "--keyring", keyring)
        self._run("ceph-mgr", "-i", "x")
        for osd in range(osds):
            store = uuid.uuid4()
            (self.dir / f"osd.{osd}").mkdir()
            self._run("ceph", "osd", "new", store, osd)
            self._run("ceph-osd", "-i", osd, "--mkfs", "--osd-uuid", store)
            self._run("ceph-osd", "-i", osd)
        wait_for(lambda: f"{osds} up" in self._run("ceph", "osd", "stat").stdout, "all OSDs are up", 120, 0.5)

    def down(self):
        for file in (self.dir / "run").glob("*.pid"):
            pid = int(file.read_text())
            if not has_ended(pid):
                os.kill(pid, signal.SIGTERM)
                try:
                    wait_for(lambda: has_ended(pid), f"{file.stem} is gone", 20)
                except AssertionError:
                    os.kill(pid, signal.SIGKILL)
                    wait_for(lambda: has_ended(pid), f"{file.stem} is gone", 20)

    def _make_keys(self, osds):
        """Daemons share one file of keys, in a directory that goes at the end."""
        keyring = self.dir / "ceph.client.admin.keyring"
        everything = ("--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *")
        of_kind = {"mgr": "allow profile mgr", "osd": "allow profile osd"}
        self._run("ceph-authtool", "--create-keyring", keyring, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        self._run("ceph-authtool", keyring, "--gen-key", "-n", "client.admin", *everything)
        for name in ["mgr.x", *(f"osd.{osd}" for osd in range(osds))]:
            caps = ("--cap", "mon", of_kind[name[:3]], *everything[3:])
            self._run("ceph-authtool", keyring, "--gen-key", "-n", name, *caps)

    def _run(self, *command):
        return run(*command, conf=self.conf)
