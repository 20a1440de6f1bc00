"""A run that is killed again and again, at random moments and inside saves, ends with the same bits."""
import os
import random
import signal
import time
import unittest

import tiny
from tiny import TIMEOUT, TinyCase, loss_compare, start

SEED = 20
STEPS = 400  # so many that no machine gets through them between two kills
KILLS = 24
IN_SAVE = 10  # kills that are aimed into a save; at least 8 must be found to have hit one
SETS = [f"train.steps={STEPS}", "train.tokens_per_step=128", "data.packing=first_fit", "checkpoint.interval=1",
        "checkpoint.keep=2"]


class Killed(TinyCase):
    def checkpoints(self):
        try:
            return os.listdir(self.path("run/checkpoints"))
        except FileNotFoundError:
            return []

    def unfinished(self):
        return [name for name in self.checkpoints() if ".tmp-" in name]

    def newest(self):
        steps = [int(name[5:]) for name in self.checkpoints() if ".tmp-" not in name]
        return max(steps, default=0)

    def last_logged(self):
        try:
            with open(self.path("run/metrics.jsonl"), "rb") as f:
                lines = f.read().split(b"\n")[:-1]
            return int(lines[-1].split(b'"step":', 1)[1].split(b",")[0]) if lines else 0
        except (FileNotFoundError, ValueError, IndexError):
            return 0

    def wait_for(self, process, condition):
        """False when the process ended first."""
        end = time.monotonic() + TIMEOUT
        while not condition():
            if process.poll() is not None:
                return False
            self.assertLess(time.monotonic(), end)
        return True

    def attempt(self, draw, kind):
        """Starts or resumes, kills at a moment of this kind; (was killed, was inside a save)."""
        before = self.newest()
        process = start(*self.arguments("run", SETS, ["--resume", "auto"]), cwd=self.folder)
        try:
            if kind == "start":  # before or around the first step
                time.sleep(draw.uniform(0.05, 0.4))
            elif kind == "step":
                steps = before + draw.randint(1, 3)
                self.wait_for(process, lambda: self.last_logged() >= steps)
                time.sleep(draw.uniform(0, 0.01))
            else:
                # A save of this process, not what the killed one left: that is cleaned up first.
                mine = f".tmp-{process.pid}"
                steps = before + draw.randint(1, 2)
                self.wait_for(process, lambda: any(
                    name.endswith(mine) and int(name[5:].split(".")[0]) >= steps for name in self.checkpoints()))
                time.sleep(draw.uniform(0, 0.002))
        finally:
            process.send_signal(signal.SIGKILL)
            out, err = process.communicate(timeout=TIMEOUT)
        if process.returncode != -signal.SIGKILL:
            self.assertEqual(process.returncode, 0, out[-800:] + err[-800:])
            return False, False
        self.assertEqual(err, "")
        # What was complete before is still there, or a newer one is.
        self.assertGreaterEqual(self.newest(), before)
        return True, any(name.endswith(f".tmp-{process.pid}") for name in self.unfinished())

    def test_killed_at_random_moments_it_ends_with_equal_bits(self):
        self.train("whole", *SETS)
        draw = random.Random(SEED)
        kinds = ["save"] * IN_SAVE + ["step"] * 8 + ["start"] * (KILLS - IN_SAVE - 8)
        draw.shuffle(kinds)
        kills = inside = 0
        for kind in kinds:
            killed, in_save = self.attempt(draw, kind)
            kills += killed
            inside += in_save
        for _ in range(2 * KILLS):  # a save may have ended before the signal came
            if inside >= 8 or self.newest() >= STEPS:
                break
            killed, in_save = self.attempt(draw, "save")
            kills += killed
            inside += in_save
        print(f"{kills} kills, {inside} inside a save, at step {self.newest()} of {STEPS}", flush=True)
        self.assertGreaterEqual(kills, 20)
        self.assertGreaterEqual(inside, 8)
        self.assertLess(self.newest(), STEPS)

        self.train("run", *SETS, options=["--resume", "auto"])
        self.assertEqual(self.unfinished(), [])
        self.assertEqual(loss_compare(self.path("whole"), self.path("run")),
                         (0, f"loss_compare: equal over {STEPS} steps\n"))
        self.assertEqual(tiny.steps_logged(self.path("run")), list(range(1, STEPS + 1)))
        for step in (STEPS - 1, STEPS):
            for group in ("model", "optimizer"):
                file = f"checkpoints/step-{step}/{group}.safetensors"
                self.assertEqual(tiny.tensors(self.path(f"whole/{file}")), tiny.tensors(self.path(f"run/{file}")))


if __name__ == "__main__":
    unittest.main()
