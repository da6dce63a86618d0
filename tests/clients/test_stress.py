"""A few seconds of what `cargo xtask stress` does for minutes: random operations, broken connections, a model that knows.

The expectations hold on Ceph 16.2 as well.
"""
import random
import unittest

import stress_rados


class Stress(unittest.TestCase):
    def run_for(self, **how):
        seed = random.SystemRandom().randrange(1 << 32)
        said, wrong = stress_rados.stress(seed=seed, clients=3, seconds=4, **how)
        if wrong:
            self.fail(f"seed {seed}: {wrong}")
        self.assertRegex(said, r"^[1-9]\d* operations")

    def test_with_connections_that_last(self):
        self.run_for(cut_every=0)

    def test_with_connections_that_break(self):
        self.run_for(cut_every=300)


if __name__ == "__main__":
    unittest.main()
