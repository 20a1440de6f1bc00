"""What the command line says to wrong input: one clear error, the right exit code, nothing lost."""
import json
import os
import re
import shutil
import unittest

import tiny
from tiny import VOCAB, TinyCase, run


class Usage(TinyCase):
    def test_help_shows_examples(self):
        for command in (["train"], ["generate"], ["inspect"], ["doctor"], ["tokenizer", "train"],
                        ["tokenizer", "encode"], ["keys"], []):
            with self.subTest(command=command):
                got = run(*command, "--help")
                self.assertEqual(got.returncode, 0)
                self.assertIn("Example", got.stdout)
                self.assertIn("plimsoll " + " ".join(command[:1]), got.stdout)
                self.assertEqual(got.stderr, "")

    def test_version(self):
        got = run("--version")
        self.assertEqual(got.returncode, 0)
        self.assertRegex(got.stdout, r"^plimsoll \d+\.\d+")

    def test_wrong_command_lines(self):
        for arguments, part in ((["train", self.recipe, "--frobnicate"], "--frobnicate"),
                                (["train"], "recipe"),
                                (["teach"], 'unknown command "teach"'),
                                (["trian"], "did you mean `plimsoll train`?"),
                                (["tokenizer", "encoed"], "did you mean `plimsoll tokenizer encode`?"),
                                (["tokenizer", "frob"], "train, encode"),
                                ([], "subcommand"),
                                (["generate", "x", "--max-tokens", "-1"], "max-tokens"),
                                (["generate", "x", "--max-tokens", "many"], "max-tokens"),
                                (["generate", "x", "--step", "-1"], "step"),
                                (["generate", "x", "--step", "99999999999999999999"], "99999999999999999999"),
                                (["generate", "x", "--seed", "-1"], "seed"),
                                (["generate", "x", "--seed", "18446744073709551616"], "seed"),
                                (["generate", "x", "--seed", "010"], "010"),
                                (["generate", "x", "--top-k", "9223372036854775808"], "top-k"),
                                (["generate", "x", "--top-p", "0"], "top-p"),
                                (["generate", "x", "--temperature", "nan"], "temperature"),
                                (["train", self.recipe, "--resume", "soon"], "soon"),
                                (["train", self.recipe, "--resume", "5"], "--resume")):
            with self.subTest(arguments=arguments):
                self.assert_one_error(run(*arguments, cwd=self.folder), 2, part)
                self.assertEqual(os.listdir(self.folder), [])

    def test_help_names_every_command(self):
        got = run("--help").stdout
        for name in ("train", "generate", "inspect", "doctor", "tokenizer", "keys"):
            self.assertRegex(got, rf"(?m)^  {name} ")

    def test_a_text_with_a_dash(self):
        tokenizer = f"{self.shared}/tokenizer"
        self.assert_one_error(run("tokenizer", "encode", tokenizer, "-x"), 2, "text is required", hint="`--`")
        got = run("tokenizer", "encode", tokenizer, "--", "-x")
        self.assertEqual([line.split("\t")[1] for line in got.stdout.splitlines()], ["-", "x"], got.stderr)

    def test_recipe_that_is_not_there(self):
        self.assert_one_error(run("train", "nowhere.toml"), 2, "nowhere.toml")

    def test_recipe_that_is_no_toml(self):
        path = self.write("broken.toml", "[model]\nlayers = \n")
        self.assert_one_error(run("train", path), 2, "broken.toml:2")

    def test_unknown_key_names_the_nearest_and_the_line(self):
        with open(self.recipe, encoding="utf-8") as f:
            text = f.read().replace("max_context", "max_contxt")
        path = self.write("typo.toml", text)
        line = next(i for i, row in enumerate(text.splitlines(), 1) if "max_contxt" in row)
        self.assert_one_error(run("train", path), 2, f"typo.toml:{line}", "max_contxt", "max_context")

    def test_all_problems_at_once(self):
        got = self.train("run", "train.stepz=3", "optim.lr=nan", "model.kv_heads=3", code=2)
        for part in ("train.stepz", "optim.lr = nan", "kv_heads = 3"):
            self.assertIn(part, got.stderr)
        self.assertFalse(os.path.exists(self.path("run")))

    def test_failure_without_a_backtrace_unless_asked(self):
        got = run("--debug", "train", "nowhere.toml")
        self.assertNotIn(got.returncode, (0, 2))  # ends with all it carries


class BadInput(TinyCase):
    """Training that must not start, and must not leave a run folder."""

    def refused(self, sets, code, *parts, hint=None, options=()):
        got = run(*self.arguments("run", sets, options), cwd=self.folder)
        self.assert_one_error(got, code, *parts, hint=hint)
        self.assertFalse(os.path.exists(self.path("run")))

    def test_missing_data_file(self):
        self.refused(['data.files=["missing.jsonl"]'], 2, "data.files", "missing.jsonl", "No such file")
        self.refused(['data.files=["missing*.txt"]'], 2, "data.files", "missing*.txt")

    def test_empty_data_file(self):
        for name in ("empty.jsonl", "empty.txt"):
            self.write(name, "")
            self.refused([f'data.files=["{name}"]'], 1, name, "empty")

    def test_file_without_documents(self):
        self.write("blank.jsonl", "\n\n")
        self.refused(['data.files=["blank.jsonl"]'], 1, "blank.jsonl")

    def test_line_that_is_not_json(self):
        good = json.dumps({"text": "bado kemi lusa"})
        self.write("a.jsonl", f"{good}\n{good}\n{{\"text\": 3\n{good}\n")
        self.refused(['data.files=["a.jsonl"]'], 1, "a.jsonl:3", "not JSON", hint="data.on_bad_line")

    def test_bad_lines_are_skipped_and_counted(self):
        good = json.dumps({"text": "bado kemi lusa nori tepu mika dola"})
        self.write("a.jsonl", f"{good}\nno\n{good}\n[1]\n{good}\n{{\"text\": 3}}\n" + f"{good}\n" * 20)
        got = self.train("run", 'data.files=["a.jsonl"]', "data.on_bad_line=skip", "train.steps=1")
        self.assertIn("3 bad lines skipped", got.stdout)

    def test_document_without_the_text_field(self):
        self.write("a.jsonl", '{"text": "bado"}\n{"body": "kemi"}\n')
        self.refused(['data.files=["a.jsonl"]'], 1, "a.jsonl:2", '"text"', '"body"')
        self.refused(['data.files=["a.jsonl"]', "data.text_field=body"], 1, "a.jsonl:1", '"body"')

    def test_bytes_that_are_no_utf8(self):
        self.write("a.txt", b"bado\xffkemi")
        self.refused(['data.files=["a.txt"]'], 1, "a.txt", "UTF-8", hint='data.invalid_utf8 = "replace"')

    def test_cut_gzip(self):
        import gzip
        self.write("a.jsonl.gz", gzip.compress(b'{"text": "bado kemi"}\n' * 500)[:-9])
        self.refused(['data.files=["a.jsonl.gz"]'], 1, "a.jsonl.gz")

    def test_tokenizer_larger_than_the_model(self):
        self.refused(["model.vocab=300"], 2, VOCAB - 1, "300", "model.vocab", hint="model.vocab")

    def test_tokenizer_that_is_not_one(self):
        got = run(*self.arguments("run", ["data.tokenizer=nowhere"]), cwd=self.folder)
        self.assertIn(got.returncode, (1, 2))
        self.assert_one_error(got, got.returncode, "nowhere")
        self.write("tokenizer.json", '{"model": {"type": "Unigram"}}')
        got = run(*self.arguments("run", [f"data.tokenizer={self.path('tokenizer.json')}"]), cwd=self.folder)
        self.assertIn(got.returncode, (1, 2))
        self.assert_one_error(got, got.returncode, "tokenizer.json")

    def test_heads_not_divisible(self):
        self.refused(["model.kv_heads=3"], 2, "heads = 4", "kv_heads = 3")

    def test_sequence_longer_than_the_rope_limit(self):
        self.refused(["model.rope_limit=16"], 2, "train.max_context = 32", "16", hint="max_context")

    def test_learning_rate_that_is_no_number(self):
        self.refused(["optim.lr=nan"], 2, "optim.lr = nan")
        self.refused(["optim.lr=inf"], 2, "optim.lr = inf")

    def test_zero_steps(self):
        self.refused(["train.steps=0"], 2, "train.steps = 0", "at least 1")

    def test_unknown_device_lists_the_known_ones(self):
        self.refused([], 2, '"frob"', "known", "cpu", hint="device.plugins", options=["--device", "frob"])

    def test_missing_plugin(self):
        got = run(*self.arguments("run", ['device.plugins=["nowhere.so"]']), cwd=self.folder)
        self.assertIn(got.returncode, (1, 2))
        self.assert_one_error(got, got.returncode, "nowhere.so")

    def test_optimizer_group_without_a_member(self):
        with open(self.recipe, encoding="utf-8") as f:
            path = self.write("groups.toml", f.read() + '[[optim.groups]]\npattern = "bais$"\nlr = 1e-3\n')
        got = run("train", path, "--set", f"run.dir={self.path('run')}")
        self.assert_one_error(got, 2, "bais$")
        self.assertFalse(os.path.exists(self.path("run")))

    def test_more_than_the_memory_limit(self):
        got = run(*self.arguments("run", ['memory.host_limit="20 KiB"']), cwd=self.folder)
        self.assert_one_error(got, 1, hint="smaller")

    def test_step_that_is_not_finite(self):
        got = run(*self.arguments("run", ["optim.lr=1e30", "optim.schedule.warmup_steps=0"]), cwd=self.folder)
        self.assert_one_error(got, 1, "step ", "not finite", "skipped", hint="optim.lr")


class OtherRuns(TinyCase):
    """Folders that hold a run already, and checkpoints that do not fit."""

    def setUp(self):
        super().setUp()
        self.train("run", "checkpoint.interval=2", "checkpoint.keep=0")
        self.before = self.state()

    def state(self):
        out = {}
        for at, _, files in os.walk(self.path("run")):
            for name in files:
                with open(os.path.join(at, name), "rb") as f:
                    out[os.path.relpath(os.path.join(at, name), self.path("run"))] = f.read()
        return out

    def refused(self, sets, options, code, *parts, hint=None):
        got = run(*self.arguments("run", sets, options), cwd=self.folder)
        self.assert_one_error(got, code, *parts, hint=hint)
        self.assertEqual(self.state(), self.before)  # nothing lost

    def test_folder_of_another_run(self):
        self.refused([], [], 2, self.path("run"), "already holds a run", hint="--resume auto")

    def test_step_without_a_checkpoint(self):
        self.refused([], ["--resume", "5"], 2, "step 5", hint="2, 4, 6")

    def test_checkpoint_of_another_model(self):
        self.refused(["model.ffn=64", "optim.lr=1e-3"], ["--resume", "auto"], 2, "layers.0.feed_forward.w13.weight",
                     "[128, 32]", "[96, 32]", "model.ffn: 48 in the checkpoint, 64 now", "optim.lr: 0.01 in")

    def test_changed_keys(self):
        got = run(*self.arguments("run", ["optim.lr=1e-3", "run.seed=5", "train.steps=9"], ["--resume", "auto"]),
                  cwd=self.folder)
        self.assertEqual(got.returncode, 2)
        self.assertIn("optim.lr: 0.01 in the checkpoint, 0.001 now", got.stderr)
        self.assertIn("run.seed: 42 in the checkpoint, 5 now", got.stderr)
        self.assertNotIn("train.steps:", got.stderr)
        self.assertEqual(self.state(), self.before)

    def test_more_steps_may_be_asked_for(self):
        got = self.train("run", "train.steps=8", "checkpoint.interval=2", options=["--resume", "auto"])
        self.assertIn("continued after step 6", got.stdout)
        self.assertEqual(tiny.steps_logged(self.path("run")), list(range(1, 9)))

    def test_the_folders_own_recipe_has_the_presets_numbers_and_continues(self):
        with open(self.path("run/config.toml"), encoding="utf-8") as f:
            text = f.read()
        model = text[text.index("[model]"):text.index("[data]")]
        self.assertNotIn("is not set", model)
        self.assertIn("rope_theta = 500000.0", model)
        # The checkpoint was written under the recipe, which leaves them to the preset, and back again.
        for recipe, steps in ((self.path("run/config.toml"), 8), (self.recipe, 10)):
            got = run("train", recipe, "--set", f"run.dir={self.path('run')}", "--set", f"train.steps={steps}",
                      "--resume", "auto", cwd=self.folder)
            self.assertEqual(got.returncode, 0, got.stderr)
            self.assertIn(f"continued after step {steps - 2}", got.stdout)
        got = run(*self.arguments("run", ["model.rope_theta=1e4"], ["--resume", "auto"]), cwd=self.folder)
        self.assertEqual(got.returncode, 2, got.stderr)
        self.assertIn("model.rope_theta: 500000.0 in the checkpoint, 10000.0 now", got.stderr)

    def test_damaged_checkpoint_is_passed_over_by_auto_and_named_by_number(self):
        model = self.path("run/checkpoints/step-6/model.safetensors")
        whole = tiny.tensors(model)
        os.truncate(model, os.path.getsize(model) - 1)
        self.before = self.state()
        self.refused([], ["--resume", "6"], 2, "step-6/model.safetensors", hint="2, 4")
        got = self.train("run", "checkpoint.interval=2", "checkpoint.keep=0", options=["--resume", "auto"])
        self.assertIn("step 6 is passed over: ", got.stdout)
        self.assertIn("continued after step 4", got.stdout)
        self.assertEqual(tiny.tensors(model), whole)

    def test_damage_of_the_only_checkpoint_is_no_reason_to_start_over(self):
        for step in (2, 4):
            shutil.rmtree(self.path(f"run/checkpoints/step-{step}"))
        os.truncate(self.path("run/checkpoints/step-6/state.json"), 100)
        self.before = self.state()
        self.refused([], ["--resume", "auto"], 1, "step-6/state.json", "not valid JSON", hint="start anew")

    def test_generate_says_which_checkpoint_it_passes_over(self):
        model = self.path("run/checkpoints/step-6/model.safetensors")
        os.truncate(model, os.path.getsize(model) - 1)
        got = run("generate", self.path("run"), "--prompt", "ba", "--max-tokens", 3)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertTrue(got.stderr.startswith("note: ") and "step-6" in got.stderr, got.stderr)
        self.assertEqual(got.stdout, run("generate", self.path("run"), "--prompt", "ba", "--max-tokens", 3,
                                         "--step", 4).stdout)

    def test_flipped_bits_are_found_when_loading(self):
        model = self.path("run/checkpoints/step-6/model.safetensors")
        with open(model, "r+b") as f:
            f.seek(-3, os.SEEK_END)
            byte = f.read(1)[0]
            f.seek(-3, os.SEEK_END)
            f.write(bytes([byte ^ 4]))
        self.before = self.state()
        self.refused([], ["--resume", "auto"], 1, "model.safetensors")
        got = run("generate", self.path("run"), "--prompt", "ba")
        self.assert_one_error(got, 1, "model.safetensors")


class Generate(TinyCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        got = run("train", cls.recipe, "--set", f"run.dir={cls.shared}/run")
        if got.returncode != 0:
            raise RuntimeError(got.stderr)
        cls.run_folder = f"{cls.shared}/run"

    def generate(self, *options):
        got = run("generate", self.run_folder, *options)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(got.stderr, "")
        return got.stdout

    def test_continues_the_prompt_and_seeds_decide(self):
        one = self.generate("--prompt", "ba", "--max-tokens", 20)
        self.assertTrue(one.startswith("ba"))
        self.assertEqual(one, self.generate("--prompt", "ba", "--max-tokens", 20))
        self.assertNotEqual(one, self.generate("--prompt", "ba", "--max-tokens", 20, "--seed", 7))
        greedy = self.generate("--prompt", "ba", "--max-tokens", 20, "--temperature", 0)
        self.assertEqual(greedy, self.generate("--prompt", "ba", "--max-tokens", 20, "--top-k", 1, "--seed", 9))

    def test_a_recipe_edited_to_another_model_of_the_same_shapes(self):
        shutil.copytree(self.run_folder, self.path("run"))
        with open(self.path("run/config.toml"), encoding="utf-8") as f:
            text = f.read()
        edited = re.sub(r"(?m)^heads = 4$", "heads = 8", text)
        edited = re.sub(r"(?m)^kv_heads = 2$", "kv_heads = 4", edited)
        edited = re.sub(r"(?m)^head_dim = 8$", "head_dim = 4", edited)
        self.assertNotEqual(edited, text)
        self.write("run/config.toml", edited)
        self.assert_one_error(run("generate", self.path("run"), "--prompt", "ba"), 2, "config.toml",
                              "model.heads: 4 in the checkpoint, 8 now", hint="restore")

    def test_nothing_to_do(self):
        self.assertEqual(self.generate("--prompt", "ba", "--max-tokens", 0), "ba\n")

    def test_the_context_bounds_it(self):
        got = run("generate", self.run_folder, "--prompt", "ba", "--max-tokens", 2**63 - 1)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertRegex(got.stderr, r"\Anote: ended after \d+ tokens: the context of 32 positions is full "
                                     r"\(train\.max_context of the run\)\n\Z")

    def test_a_checkpoint_stands_for_its_run_and_step(self):
        whole = self.generate("--prompt", "ba", "--max-tokens", 9)
        for path in ("checkpoints/step-6", "checkpoints/step-6/"):
            got = run("generate", f"{self.run_folder}/{path}", "--prompt", "ba", "--max-tokens", 9)
            self.assertEqual((got.returncode, got.stdout), (0, whole), got.stderr)
        got = run("generate", "step-6", "--prompt", "ba", "--max-tokens", 9, cwd=f"{self.run_folder}/checkpoints")
        self.assertEqual(got.stdout, whole)
        self.assert_one_error(run("generate", f"{self.run_folder}/checkpoints/step-6", "--step", 3), 2, "step 6", "3")
        self.assert_one_error(run("generate", f"{self.run_folder}/checkpoints/step-5"), 2, "step 5", hint="6")

    def test_prompt_from_the_standard_input(self):
        whole = self.generate("--prompt", "ba ke", "--max-tokens", 9)
        for text in ("ba ke", "ba ke\n"):
            got = run("generate", self.run_folder, "--prompt", "-", "--max-tokens", 9, text=text)
            self.assertEqual((got.returncode, got.stdout), (0, whole), got.stderr)

    def test_threads(self):
        self.generate("--prompt", "ba", "--max-tokens", 3, "--threads", 2)
        self.assert_one_error(run("generate", self.run_folder, "--threads", 0), 2, "threads")

    def test_prompt_longer_than_the_context(self):
        got = run("generate", self.run_folder, "--prompt", "bado " * 60)
        self.assert_one_error(got, 2, "tokens", "positions for 32", "train.max_context",
                              hint="shorten")
        self.assertEqual(got.stdout, "")

    def test_step_that_is_not_there(self):
        self.assert_one_error(run("generate", self.run_folder, "--step", 5), 2, "step 5", hint="6")

    def test_folder_that_is_no_run(self):
        self.assert_one_error(run("generate", self.folder), 2, "holds no run")
        self.assert_one_error(run("generate", self.path("nowhere")), 2, "nowhere")

    def test_run_without_a_checkpoint(self):
        self.train("young", "checkpoint.last=false", "train.steps=1")
        self.assert_one_error(run("generate", self.path("young")), 2, "no complete checkpoint")


if __name__ == "__main__":
    unittest.main()
