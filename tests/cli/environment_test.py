"""What the program makes of its surroundings: closed or full outputs, limits, its launcher, its folder."""
import contextlib
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import unittest

import tiny
from tiny import BINARY, TinyCase, environment, run, start


def shell(command, **options):
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=tiny.TIMEOUT,
                          env=environment() | options.pop("env", {}), **options)


class Outputs(TinyCase):
    def test_errors_keep_their_code_where_nobody_listens(self):
        for command, code in (("inspect /nonexistent", 2), ("train nowhere.toml", 2), ("frobnicate", 2)):
            for closed in ("2>&-", "2>/dev/full"):
                with self.subTest(command=command, closed=closed):
                    self.assertEqual(shell(f"'{BINARY}' {command} {closed}").returncode, code)

    def test_output_that_cannot_be_written_is_a_failure(self):
        for command in ("keys", f"tokenizer encode '{self.shared}/tokenizer' bado"):
            with self.subTest(command=command):
                got = shell(f"'{BINARY}' {command} >/dev/full")
                self.assert_one_error(got, 1, "cannot write the output", "No space left")

    def test_a_run_goes_on_without_a_reader(self):
        got = shell(f"'{BINARY}' train '{self.recipe}' --set run.dir='{self.path('run')}' | true")
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(tiny.steps_logged(self.path("run")), [1, 2, 3, 4, 5, 6])


class Limits(TinyCase):
    def test_a_file_that_may_not_grow_is_an_error(self):
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20480, 20480))
        got = run(*self.arguments("run"), cwd=self.folder, preexec_fn=small_files)
        self.assert_one_error(got, 1, "File too large")

    def test_threads_beyond_reason(self):
        for threads in (0, 1025, 2147483648, 4294967297):
            with self.subTest(threads=threads):
                got = run(*self.arguments("run", [f"device.threads={threads}"]), cwd=self.folder)
                self.assert_one_error(got, 2, f"device.threads = {threads}")

    def test_a_model_larger_than_the_machine(self):
        for sets in (["model.layers=65536", "model.dim=8192"], ["model.vocab=200000000", "model.dim=4096"]):
            with self.subTest(sets=sets):
                got = run(*self.arguments("run", sets), cwd=self.folder)
                self.assert_one_error(got, 1, "does not fit", "moments")
                self.assertFalse(os.path.exists(self.path("run")))

    def test_numbers_beyond_reason_name_their_key(self):
        for key, value in (("model.layers", 2147483648), ("model.dim", 2**63 - 1), ("model.ffn", 2**63 - 1),
                           ("model.rope_theta", 0), ("optim.lr", "1e308"), ("optim.eps", "1e-300"),
                           ("train.tokens_per_batch", 2**31), ("run.name", "a/b")):
            with self.subTest(key=key):
                self.assert_one_error(run(*self.arguments("run", [f"{key}={value}"]), cwd=self.folder), 2, key)


class Folder(TinyCase):
    def test_less_text_than_one_step(self):
        got = run(*self.arguments("run", ["data.repeat=false", "train.tokens_per_batch=65536"]), cwd=self.folder)
        self.assert_one_error(got, 1, "the data ended before the first step", "65,536", hint="tokens_per_batch")

    def test_auto_with_nothing_to_resume_says_so(self):
        got = self.train("new", options=["--resume", "auto"])
        self.assertIn(f"nothing to resume in {self.path('new')}: a new run starts\n", got.stdout)

    def test_a_done_run_says_so(self):
        self.train("run")
        got = self.train("run", options=["--resume", "auto"])
        self.assertIn("step 6 of 6 is done, nothing is left to train; to go on raise train.steps\n", got.stdout)

    def test_the_runs_own_recipe_goes_on_after_a_move_and_from_anywhere(self):
        self.train("run", "train.stop_after=4")
        os.rename(self.path("run"), self.path("moved"))
        os.mkdir(self.path("elsewhere"))
        got = run("train", "../moved/config.toml", "--resume", "auto", "--set", "train.stop_after=6",
                  cwd=self.path("elsewhere"))
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertIn("continued after step 4", got.stdout)
        self.assertEqual(tiny.steps_logged(self.path("moved")), [1, 2, 3, 4, 5, 6])
        self.assertEqual(os.listdir(self.path("elsewhere")), [])

    def test_a_folder_removed_while_training_is_told(self):
        process = start(*self.arguments("run", ["train.steps=100000", "checkpoint.interval=0"]), cwd=self.folder)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if line.startswith("step:"):
                break
        shutil.rmtree(self.path("run"))
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        self.assertEqual(process.wait(tiny.TIMEOUT), 1)
        self.assertIn("was removed while the run trained", process.stderr.read())

    def test_two_do_not_train_in_one(self):
        process = start(*self.arguments("run", ["train.steps=100000"]), cwd=self.folder)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if line.startswith("step:"):
                break
        got = run(*self.arguments("run", (), ["--resume", "auto"]), cwd=self.folder)
        self.assert_one_error(got, 1, self.path("run"), "another process trains there", hint="run.dir")


class Launcher(unittest.TestCase):
    """`plimsoll` sets what runtimes read before main() and becomes libexec/plimsoll."""

    @staticmethod
    @contextlib.contextmanager
    def alone():
        """A folder with the launcher and an empty libexec/."""
        with tempfile.TemporaryDirectory(prefix="plimsoll-cli-") as folder:
            os.mkdir(os.path.join(folder, "libexec"))
            shutil.copy(BINARY, os.path.join(folder, "plimsoll"))
            yield folder

    def seen(self, **variables):
        script = "import os; print(os.environ.get('GOMP_SPINCOUNT'), os.environ.get('GLIBC_TUNABLES'))"
        with self.alone() as folder:
            program = os.path.join(folder, "libexec", "plimsoll")
            with open(program, "w", encoding="utf-8") as f:
                f.write(f"#!/usr/bin/env python3\n{script}\n")
            os.chmod(program, 0o755)
            env = {k: v for k, v in environment().items() if k not in ("GOMP_SPINCOUNT", "GLIBC_TUNABLES")}
            return subprocess.run([os.path.join(folder, "plimsoll")], capture_output=True, text=True,
                                  env=env | variables, check=True).stdout.split()

    def test_sets_what_nobody_has_set(self):
        self.assertEqual(self.seen(), ["10000", "glibc.malloc.hugetlb=1"])
        self.assertEqual(self.seen(GOMP_SPINCOUNT="7", GLIBC_TUNABLES="glibc.malloc.hugetlb=2"),
                         ["7", "glibc.malloc.hugetlb=2"])
        self.assertEqual(self.seen(OMP_WAIT_POLICY="active", GLIBC_TUNABLES="glibc.malloc.check=0"),
                         ["None", "glibc.malloc.check=0:glibc.malloc.hugetlb=1"])

    def test_a_missing_program_is_named(self):
        with self.alone() as folder:
            got = subprocess.run([os.path.join(folder, "plimsoll")], capture_output=True, text=True)
            self.assertEqual(got.returncode, 1)
            self.assertIn(f"cannot start {os.path.realpath(folder)}/libexec/plimsoll: No such file", got.stderr)


if __name__ == "__main__":
    unittest.main()
