"""What programs in C and C++ do with librados: the cases of c/, compiled here, each a test by its name.

The expectations hold on Ceph 16.2 as well.
"""
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness import run
from rados_pool import Pool

HERE = Path(__file__).resolve().parent / "c"
SOURCES = sorted([*HERE.glob("*.c"), *HERE.glob("*.cc")])
NAMES = [name for source in SOURCES for name in re.findall(r"^CASE\((\w+)\)", source.read_text(), re.M)]
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


def build(directory):
    """The program of all cases, compiled into the directory unless it is there already."""
    program = Path(directory) / "librados_cases"
    if not program.exists():
        objects = []
        for source in SOURCES:
            compiler = ["cc", "-std=gnu11"] if source.suffix == ".c" else ["c++", "-std=gnu++17"]
            objects.append(Path(directory) / f"{source.stem}.o")
            run(*compiler, *WARNINGS, "-c", "-o", objects[-1], source)
        run("c++", "-o", program, *objects, "-lrados", "-pthread")
    return program


class CApi(Pool):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.snap_pool = cls.pool + "-snaps"
        cls.cluster.create_pool(cls.snap_pool)
        with tempfile.TemporaryDirectory(prefix="loligo-test-") as own:
            # A run over several clusters compiles once.
            program = build(os.environ.get("TEST_BUILD_DIR", own))
            with open(Path(own) / "said", "w+") as said:
                # A case that hangs or crashes fails by itself; those before it have been told.
                command = [program, cls.pool, cls.snap_pool]
                try:
                    end = f"the program ended with {subprocess.run(command, stdout=said, stderr=said, timeout=60).returncode}"
                except subprocess.TimeoutExpired:
                    end = "it, or one before it, hangs"
                said.seek(0)
                told = said.read()
        cls.verdicts = dict.fromkeys(NAMES, f"no verdict: {end}; it last said: {told[-200:]}")
        for verdict, name, why in re.findall(r"^(ok|FAILED) (\w+)(?:: (.*))?$", told, re.M):
            cls.verdicts[name] = why if verdict == "FAILED" else None

    @classmethod
    def tearDownClass(cls):
        cls.cluster.delete_pool(cls.snap_pool)
        super().tearDownClass()


def of_case(name):
    def test(self):
        if self.verdicts[name]:
            self.fail(self.verdicts[name])
    return test


for name in NAMES:
    setattr(CApi, f"test_{name}", of_case(name))

del Pool

if __name__ == "__main__":
    unittest.main()
