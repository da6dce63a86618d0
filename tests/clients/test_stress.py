"""A few seconds of what `cargo xtask stress` does for minutes: random operations, broken connections, a model that knows.

The expectations hold on Ceph 16.2 as well.
"""
import random
import unittest

import stress_rados


class Answers(unittest.TestCase):
    """What the stress takes for the answer to a ring, told what own watch heard: (notify id, ring)."""

    def judge(self, *, heard, answers, cuts=True):
        rings = stress_rados.Rings(5, cuts)
        for notify_id, ring in heard:
            rings.hear(notify_id, b"5 rings %d" % ring)
        wrong = []
        for ring in answers:
            rings.begin()
            wrong.append(bool(rings.judge([b"5 rings %d" % ring] * 3)))
        return wrong

    def test_each_ring_has_its_own(self):
        self.assertEqual(self.judge(heard=[(1, 0), (2, 1)], answers=[0, 1], cuts=False), [False, False])

    def test_an_earlier_ring_that_was_executed_twice_may_answer_once_more(self):
        heard = [(1, 0), (2, 0), (3, 1), (4, 2)]
        self.assertEqual(self.judge(heard=heard, answers=[0, 0, 2]), [False, False, False])
        # The answer that came too late for one ring may be the next one's.
        self.assertEqual(self.judge(heard=heard, answers=[0, 0, 1]), [False, False, False])
        self.assertEqual(self.judge(heard=heard, answers=[0, 0, 0]), [False, False, True])

    def test_nothing_else_may(self):
        once = [(1, 0), (2, 1)]
        self.assertEqual(self.judge(heard=once, answers=[0, 0]), [False, True], "executed once")
        self.assertEqual(self.judge(heard=once + once, answers=[0, 0]), [False, True], "told again of one execution")
        self.assertEqual(self.judge(heard=[*once, (3, 0)], answers=[0, 0], cuts=False), [False, True], "nothing was cut")
        self.assertEqual(self.judge(heard=once, answers=[1]), [True], "a ring to come")
        self.assertEqual(self.judge(heard=[], answers=[0]), [True], "own watch heard nothing")

    def test_all_watchers_answer_the_same_ring(self):
        for answers in ([b"5 rings 0", b"4 rings 0"], [b"4 rings 0"], []):
            rings = stress_rados.Rings(5, True)
            rings.hear(1, rings.begin())
            self.assertTrue(rings.judge(answers))


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
