"""A pool for block images, python3-rbd and the `rbd` tool on it: what the tests of images share.

Each class of tests has a pool of its own, that goes with all its images when the class is done; within it a test names
its images so that no other test meets them.
"""
import contextlib
import json
import tempfile
from pathlib import Path

import rbd

import harness
from rados_pool import Pool, connect

KIB, MIB = 1 << 10, 1 << 20
SIZE = 16 * MIB


class Images(Pool):
    """Images of 16 MiB with objects of 4 MiB, unless a test says otherwise."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rbd = rbd.RBD()
        cls.rbd.pool_init(cls.io, True)

    def create(self, name, size=SIZE, **options):
        self.rbd.create(self.io, name, size, old_format=False, **options)
        return name

    def image(self, name, io=None, **options):
        return rbd.Image(io or self.io, name, **options)

    def spec(self, name):
        """The image as the `rbd` tool wants it named."""
        return f"{self.pool}/{name}"

    def tool(self, *args, **options):
        """What `rbd` prints; it must succeed."""
        return self.run_tool(*args, **options).stdout

    def run_tool(self, *args, **options):
        return harness.run("rbd", *args, **options)

    def tool_json(self, *args, **options):
        return json.loads(self.tool(*args, "--format", "json", **options))

    def refused(self, code, *args, **options):
        """`rbd` ends with this errno; what it says about it."""
        done = self.run_tool(*args, check=False, **options)
        self.assertEqual(done.returncode, code, f"rbd {' '.join(map(str, args))}: {done.stdout}\n{done.stderr}")
        return done.stderr

    @contextlib.contextmanager
    def another_client(self, namespaces=(), **options):
        """A context of another client, in the same pool; and one for each of these namespaces."""
        other = connect(**options)
        try:
            with contextlib.ExitStack() as contexts:
                ios = [contexts.enter_context(other.open_ioctx(self.pool)) for _ in ("", *namespaces)]
                for io, namespace in zip(ios[1:], namespaces):
                    io.set_namespace(namespace)
                yield ios if namespaces else ios[0]
        finally:
            other.shutdown()

    def read(self, name, offset, length, snapshot=None):
        with self.image(name, read_only=True, snapshot=snapshot) as image:
            return image.read(offset, length)

    def write(self, name, *pieces):
        """Writes (offset, data) pairs."""
        with self.image(name) as image:
            for offset, data in pieces:
                image.write(data, offset)

    @staticmethod
    @contextlib.contextmanager
    def files():
        """A directory for the length of a test."""
        with tempfile.TemporaryDirectory(prefix="loligo-test-images-") as directory:
            yield Path(directory)


def extents(image, *, since=None, whole=False, parent=True, size=SIZE):
    """The differences since a snapshot, or since the beginning, as a list of (offset, length, exists)."""
    found = []
    image.diff_iterate(0, size, since, lambda *extent: found.append(extent), parent, whole)
    return [(offset, length, bool(exists)) for offset, length, exists in found]
