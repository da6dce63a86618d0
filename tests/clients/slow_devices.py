"""Loop devices that do no more than so much a second, on a disk that could do more: what is measured on them does not
depend on how fast that disk is just then.

Needs root, loop devices and the cgroup controller blkio (version 1).
"""
import os
from pathlib import Path

from harness import run

THROTTLES = Path("/sys/fs/cgroup/blkio")


def may_be_had():
    return os.geteuid() == 0 and (THROTTLES / "blkio.throttle.write_iops_device").exists()


class SlowDevices:
    """Loop devices with links to them, `disk.$id`, which can be slowed down. They go at the end (`undo`, an ExitStack)."""

    def __init__(self, scratch, undo, count, gib):
        self.undo, self.numbers = undo, []
        self.pattern = scratch / "disk.$id"
        for number in range(count):
            image = scratch / f"image.{number}"
            undo.callback(image.unlink, missing_ok=True)
            with open(image, "wb") as file:
                # Blocks that the file system has yet to find would be slower the first time.
                os.posix_fallocate(file.fileno(), 0, gib << 30)
            device = run("losetup", "--direct-io=on", "--find", "--show", image).stdout.strip()
            undo.callback(run, "losetup", "--detach", device)
            self.path(number).symlink_to(device)
            queue = Path("/sys/block", Path(device).name)
            # Ceph's costs of work go by that.
            (queue / "queue/rotational").write_text("0")
            self.numbers.append((queue / "dev").read_text().strip())

    def path(self, number):
        return Path(str(self.pattern).replace("$id", str(number)))

    def slow_down(self, mib_per_second, iops=None, read_iops=None):
        """To so many MiB a second, and requests, each way; reads to others where that is said."""
        for way, requests in (("read", read_iops or iops), ("write", iops)):
            for kind, most in {"bps": mib_per_second << 20, **({"iops": requests} if requests else {})}.items():
                throttle = THROTTLES / f"blkio.throttle.{way}_{kind}_device"
                for number in self.numbers:
                    self.undo.callback(throttle.write_text, f"{number} 0")
                    throttle.write_text(f"{number} {most}")
