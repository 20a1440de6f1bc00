"""Signals: the first ends a run in order, a second at once; what follows has equal bits."""
import json
import os
import resource
import shlex
import signal
import subprocess
import time
import unittest

import tiny
from tiny import TIMEOUT, TinyCase, loss_compare, run, start

STEPS = 120


SAID_AT_ONCE = "interrupted: this step is finished and what is due is saved; again stops at once"


class Interrupt(TinyCase):
    def wait_for(self, process, condition):
        """Until the condition holds; the process must not end before."""
        end = time.monotonic() + TIMEOUT
        while not condition():
            if process.poll() is not None:
                out, err = process.communicate()
                self.fail(f"ended too early: {process.returncode}\n{out[-800:]}\n{err[-800:]}")
            self.assertLess(time.monotonic(), end)
            time.sleep(0.001)

    def logged(self, name):
        try:
            with open(self.path(f"{name}/metrics.jsonl"), "rb") as f:
                return f.read().count(b"\n")
        except FileNotFoundError:
            return 0

    def start(self, name, *sets):
        process = start(*self.arguments(name, [f"train.steps={STEPS}", *sets]), cwd=self.folder)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def interrupt(self, process, name, which=signal.SIGINT, after=3):
        self.wait_for(process, lambda: self.logged(name) >= after)
        process.send_signal(which)
        out, err = process.communicate(timeout=TIMEOUT)
        return out, err

    def test_saves_says_how_to_go_on_and_goes_on_with_equal_bits(self):
        self.train("whole", f"train.steps={STEPS}", "train.tokens_per_step=128")
        for which in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=which.name):
                # The recipe's name alone would not do: most of this run was said by --set. And the folder
                # needs quotes.
                name = f"it's {which.name}"
                process = self.start(name, "train.tokens_per_step=128")
                out, err = self.interrupt(process, name)
                self.assertEqual(process.returncode, 130, out + err)
                self.assertEqual(err.strip(), SAID_AT_ONCE)
                step = self.logged(name)
                self.assertLess(step, STEPS)
                self.assertEqual(os.listdir(self.path(f"{name}/checkpoints")), [f"step-{step}"])
                last = out.strip().splitlines()[-1]
                self.assertIn(f"interrupted after step {step}", last)
                words = shlex.split(last.split(" with: ", 1)[1])
                self.assertEqual(words[0], "plimsoll")
                got = run(*words[1:], cwd=self.folder)
                self.assertEqual(got.returncode, 0, got.stderr)
                self.assertEqual(loss_compare(self.path("whole"), self.path(name)),
                                 (0, f"loss_compare: equal over {STEPS} steps\n"))
                for group in ("model", "optimizer"):
                    file = f"checkpoints/step-{STEPS}/{group}.safetensors"
                    self.assertEqual(tiny.tensors(self.path(f"whole/{file}")),
                                     tiny.tensors(self.path(f"{name}/{file}")))

    def test_without_saving_it_says_so(self):
        process = self.start("run", "checkpoint.last=false")
        out, err = self.interrupt(process, "run")
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("nothing is saved", out.strip().splitlines()[-1])
        self.assertFalse(os.path.exists(self.path("run/checkpoints")) and os.listdir(self.path("run/checkpoints")))

    def test_without_saving_an_earlier_checkpoint_is_named(self):
        process = self.start("run", "checkpoint.last=false", "checkpoint.interval=2")
        out, _ = self.interrupt(process, "run", after=5)
        self.assertEqual(process.returncode, 130)
        step = self.logged("run")
        earlier = f" after step {step - 1}" if step % 2 else ""
        self.assertIn(f"interrupted after step {step}; continue{earlier} with:", out)

    def test_a_second_one_stops_at_once(self):
        # Steps of seconds: the second signal arrives inside the one that the first let finish.
        sets = ["train.tokens_per_batch=32768", "train.tokens_per_step=1048576", "checkpoint.interval=1000"]
        process = self.start("run", *sets)
        self.wait_for(process, lambda: os.path.exists(self.path("run/metrics.jsonl")))
        # Both are sent before the first step ends; the first must have been taken before the second is sent.
        self.wait_for(process, lambda: self.handles(process, signal.SIGINT))
        process.send_signal(signal.SIGINT)
        self.wait_for(process, lambda: not self.pending(process, signal.SIGINT))
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT)
        self.assertLess(time.monotonic() - began, 1)
        self.assertEqual(process.returncode, 130)
        self.assertIn("interrupted twice", err)
        self.assertEqual(self.logged("run"), 0)
        self.assertFalse(os.path.exists(self.path("run/checkpoints/step-1")), out)

    def masks(self, process, *names):
        with open(f"/proc/{process.pid}/status", encoding="ascii") as f:
            rows = dict(line.split(":\t", 1) for line in f if ":\t" in line)
        value = 0
        for name in names:
            value |= int(rows[name], 16)
        return value

    def pending(self, process, which):
        return self.masks(process, "SigPnd", "ShdPnd") >> (which - 1) & 1

    def handles(self, process, which):
        return self.masks(process, "SigCgt") >> (which - 1) & 1

    def test_a_reader_that_leaves_does_not_end_the_run(self):
        process = self.start("run")
        self.wait_for(process, lambda: self.logged("run") >= 1)
        process.stdout.close()
        self.assertEqual(process.wait(timeout=TIMEOUT), 0)
        self.assertEqual(tiny.steps_logged(self.path("run")), list(range(1, STEPS + 1)))


class Reproducible(TinyCase):
    def test_deterministic_runs_have_equal_bits_and_seeds_matter(self):
        sets = ["train.deterministic=false", "device.threads=2", "train.tokens_per_batch=512", "train.precision=bf16",
                "data.validation_fraction=0.2"]
        for name, more in (("a", []), ("b", []), ("seed", ["run.seed=43"])):
            self.train(name, *sets, *more, options=["--deterministic"])
        self.assertEqual(loss_compare(self.path("a"), self.path("b")), (0, "loss_compare: equal over 6 steps\n"))
        for group in ("model", "optimizer"):
            file = f"checkpoints/step-6/{group}.safetensors"
            self.assertEqual(tiny.tensors(self.path(f"a/{file}")), tiny.tensors(self.path(f"b/{file}")))
        code, text = loss_compare(self.path("a"), self.path("seed"))
        self.assertEqual(code, 1)
        self.assertIn("step 1: loss", text)

    def test_the_loss_goes_down(self):
        got = self.train("run", "train.steps=150", "train.tokens_per_batch=256", "data.validation_fraction=0.2",
                         "train.sample_tokens=10", "train.sample_prompt=ba")
        with open(self.path("run/metrics.jsonl"), encoding="utf-8") as f:
            losses = [json.loads(line)["loss"] for line in f]
        self.assertLess(losses[-1], losses[0] - 1.5)
        line = next(row for row in got.stdout.splitlines() if row.startswith("validation loss"))
        loss = float(line.split()[2])
        entropy = float(line.split("corpus is ")[1].split(",")[0])
        self.assertLess(loss, entropy)
        self.assertIn("sample:\nba", got.stdout)


class Failures(TinyCase):
    """Saves that fail, in the whole program."""

    def with_small_files(self, *arguments):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))

        return subprocess.run([tiny.BINARY, *arguments], cwd=self.folder, capture_output=True, text=True,
                              env=tiny.environment(), timeout=TIMEOUT, preexec_fn=limit)

    def test_disk_full_stops_and_the_last_checkpoint_stays(self):
        self.train("run", "train.stop_after=3")
        sets = ["checkpoint.interval=1"]
        got = self.with_small_files(*self.arguments("run", sets, ["--resume", "auto"]))
        self.assert_one_error(got, 1, "step-4", "File too large")
        self.assertEqual(os.listdir(self.path("run/checkpoints")), ["step-3"])
        self.train("run", options=["--resume", "auto"])
        self.train("whole")
        self.assertEqual(loss_compare(self.path("run"), self.path("whole"))[0], 0)

    def test_disk_full_goes_on_where_asked_to(self):
        got = self.with_small_files(*self.arguments("run", ["checkpoint.interval=3", "checkpoint.on_error=continue"]))
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(got.stdout.count("checkpoint not saved"), 2, got.stdout)
        self.assertEqual(tiny.steps_logged(self.path("run")), list(range(1, 7)))
        self.assertEqual(os.listdir(self.path("run/checkpoints")), [])

    def test_something_in_the_way_of_the_checkpoints(self):
        os.makedirs(self.path("run"))
        self.write("run/checkpoints", "")
        got = run(*self.arguments("run", [], ["--resume", "auto"]), cwd=self.folder)
        self.assert_one_error(got, 1, "checkpoints")

    def test_run_folder_that_cannot_be_made(self):
        self.write("file", "")
        got = run(*self.arguments("file/run"), cwd=self.folder)
        self.assertIn(got.returncode, (1, 2))
        self.assert_one_error(got, got.returncode, "file/run")


if __name__ == "__main__":
    unittest.main()
