"""Back-offs as a stock client sees them: told to hold its operations while a group cannot serve, and to go on."""
import re
import tempfile
import time
import unittest
from pathlib import Path

import harness
from rados_pool import Pool, connect


class Backoff(Pool):
    """A pool that serves only with all of its three members."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, value in (("size", "3"), ("min_size", "3")):
            cls.mon("osd pool set", pool=cls.pool, var=name, val=value)

    def inactive(self, name):
        """Whether the object's group is known to be inactive."""
        placed = self.mon("osd map", pool=self.pool, object=name)["pgid"]
        dump = self.mon("pg dump", dumpcontents=["pgs_brief"])
        states = {pg["pgid"]: pg["state"] for pg in dump["pg_stats"]}
        return "active" not in states[placed].split("+") and "peered" in states[placed]

    def test_operations_are_held_and_go_on(self):
        with tempfile.TemporaryDirectory(prefix="loligo-test-") as parent:
            log = Path(parent) / "client.log"
            client = connect(debug_objecter="20/20", log_file=str(log), log_to_stderr="false")
            io = client.open_ioctx(self.pool)
            io.write_full("held", b"before")
            members = self.mon("osd map", pool=self.pool, object="held")
            other = next(osd for osd in members["acting"] if osd != members["acting_primary"])
            self.mon("osd set", key="noup")
            try:
                self.mon("osd down", ids=[str(other)])
                harness.wait_for(lambda: self.inactive("held"), "the group does not serve")
                writes = [io.aio_write_full("held", b"after") for _ in range(3)]
                told = r"handle_osd_backoff osd_backoff\(\S+ block id (\d+)"
                harness.wait_for(lambda: re.search(told, log.read_text()), "the client is told to hold")
                time.sleep(0.5)
                self.assertFalse(any(write.is_complete() for write in writes))
            finally:
                self.mon("osd unset", key="noup")
            for write in writes:
                harness.wait_for(write.is_complete, "it goes on", seconds=60)
                self.assertEqual(write.get_return_value(), 0)
            self.assertEqual(io.read("held"), b"after")
            io.close()
            client.shutdown()
            text = log.read_text()
        blocked = set(re.findall(told, text))
        released = set(re.findall(r"handle_osd_backoff osd_backoff\(\S+ unblock id (\d+)", text))
        self.assertTrue(blocked & released, (blocked, released))


del Pool

if __name__ == "__main__":
    unittest.main()
