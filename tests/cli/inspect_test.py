"""`plimsoll inspect`: what is whole is said to be, what is damaged is named, with exit code 1."""
import json
import os
import shutil
import unittest

from tiny import TinyCase, run


class Inspect(TinyCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        sets = (f"run.dir={cls.shared}/run", "checkpoint.interval=3", "metrics.tensorboard=true",
                "data.validation_fraction=0.1")
        got = run("train", cls.recipe, *(word for item in sets for word in ("--set", item)))
        if got.returncode != 0:
            raise RuntimeError(got.stderr)

    def setUp(self):
        super().setUp()
        shutil.copytree(f"{self.shared}/run", self.path("run"))
        self.root = self.path("run/checkpoints")
        self.step = os.path.join(self.root, "step-6")
        self.model = os.path.join(self.step, "model.safetensors")
        self.optimizer = os.path.join(self.step, "optimizer.safetensors")

    def whole(self, path, *parts):
        got = run("inspect", path)
        self.assertEqual(got.returncode, 0, got.stdout + got.stderr)
        self.assertEqual(got.stderr, "")
        self.assertTrue(got.stdout.rstrip().endswith("whole: yes"), got.stdout)
        for part in parts:
            self.assertIn(part, got.stdout)

    def damaged(self, path, *parts):
        """Exit code 1 and the reason, on stdout as part of the description or on stderr as an error."""
        got = run("inspect", path)
        text = got.stdout + got.stderr
        self.assertEqual(got.returncode, 1, text)
        self.assertNotIn("whole: yes", text)
        self.assertTrue("whole: no, " in got.stdout or got.stderr.startswith("error: "), text)
        for part in parts:
            self.assertIn(str(part), text)

    def cut(self, path, size):
        os.truncate(path, size if size >= 0 else os.path.getsize(path) + size)

    def test_whole_things(self):
        self.whole(self.path("run"), "step-3", "step-6")
        self.whole(self.root, "step-3", "step-6")
        self.whole(self.step, "checkpoint of step 6", "model.safetensors", "tok_embeddings.weight F32 [320, 32]")
        self.whole(self.model, "safetensors file", "layers.1.ffn_norm.weight F32 [32]")
        self.whole(self.path("run/tokenizer.json"), "320 ids", "eos: 2")
        self.whole(f"{self.shared}/tokenizer", "320 ids")
        self.whole(f"{self.shared}/corpus.jsonl", "a jsonl file", "documents: 60")
        tokens = [name for name in os.listdir(f"{self.shared}/cache") if name.endswith(".tokens")]
        self.whole(f"{self.shared}/cache/{tokens[0]}", "documents: 60", "vocabulary: 320")

    def logged(self, name):
        with open(self.path(f"run/{name}"), encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def events(self):
        return next(name for name in os.listdir(self.path("run")) if name.startswith("events.out"))

    def test_a_run_folder_tells_what_the_run_is_and_how_far_it_came(self):
        step, validation = self.logged("metrics.jsonl")[-1], self.logged("validation.jsonl")[-1]
        self.whole(self.path("run"), "run folder", "llama3 debugmodel, 36,000 parameters", "layers 2", "vocab 320",
                   f"data: {self.shared}/corpus.jsonl", "held out: 0.1 of", f"a copy of {self.shared}/tokenizer",
                   "step: 6 of 6", f"tokens seen: {step['tokens_seen']}", f"train loss: {step['loss']:.5f} at step 6",
                   f"validation loss: {validation['loss']:.5f} at step 6", "step-3: whole", "step-6: whole")

    def test_a_run_that_has_no_checkpoint_yet(self):
        shutil.rmtree(self.root)
        os.remove(self.path("run/validation.jsonl"))
        self.write("run/metrics.jsonl", "")
        self.whole(self.path("run"), "step: 0 of 6", "checkpoints: none")

    def test_checkpoints_set_aside_are_named(self):
        os.rename(self.step, os.path.join(self.root, "abandoned-step-6"))
        self.whole(self.path("run"), "step-3: whole", "abandoned-step-6: set aside")

    def test_a_run_with_a_damaged_file(self):
        for name in ("config.toml", "tokenizer.json", "metrics.jsonl", "validation.jsonl", self.events()):
            with self.subTest(name=name):
                path = self.path(f"run/{name}")
                with open(path, "rb") as f:
                    kept = f.read()
                # Without its end a recipe may still be one.
                self.write(f"run/{name}", kept + b"x = [" if name == "config.toml" else kept[:-3])
                self.damaged(self.path("run"), name)
                self.damaged(path, name)
                self.write(f"run/{name}", kept)
        self.whole(self.path("run"))
        os.remove(self.path("run/config.toml"))
        self.damaged(self.path("run"), "config.toml")

    def test_a_checkpoint_shows_the_values_of_its_state(self):
        with open(os.path.join(self.step, "state.json"), encoding="utf-8") as f:
            data = json.load(f)["state"]["data"]
        parts = ["tokens_seen: 384", "seed 42", f"epoch {data['epoch']}", f"index {data['index']}", "config: a text of"]
        self.whole(self.step, *parts)
        self.whole(os.path.join(self.step, "state.json"), "of step 6", "model.safetensors", *parts)
        self.whole(os.path.join(self.step, "DONE"), "complete")
        self.write(os.path.join(self.step, "DONE"), "x")
        self.damaged(os.path.join(self.step, "DONE"))

    def test_files_of_a_run(self):
        self.whole(self.path("run/metrics.jsonl"), "records: 6", "steps: 1 to 6", "last loss: ")
        self.whole(self.path("run/validation.jsonl"), "records: 1")
        self.whole(self.path(f"run/{self.events()}"), "TensorBoard events", "events: 8")
        self.whole(self.path("run/config.toml"), "a recipe", "36,000 parameters")
        self.whole(self.path("run/tokenizer_config.json"), "a JSON file")
        with open(self.path("run/metrics.jsonl"), "r+b") as f:
            f.write(b"#")
        self.damaged(self.path("run/metrics.jsonl"), "metrics.jsonl:1")

    def test_one_file_of_a_checkpoint_with_a_flipped_bit(self):
        self.whole(self.model, "checksums: those of state.json")
        with open(self.model, "r+b") as f:
            f.seek(-100, os.SEEK_END)
            byte = f.read(1)[0]
            f.seek(-100, os.SEEK_END)
            f.write(bytes([byte ^ 1]))
        self.damaged(self.model, "model.safetensors", "is damaged")
        self.whole(self.optimizer)
        self.write("alone.safetensors", open(self.model, "rb").read())
        self.whole(self.path("alone.safetensors"), "checksums: none")

    def test_files_cut_by_a_byte_or_in_half(self):
        for path in (self.model, self.optimizer):
            whole = os.path.getsize(path)
            for size in (whole - 1, whole // 2, 100, 7, 0):
                with self.subTest(file=os.path.basename(path), size=size):
                    with open(path, "rb") as f:
                        kept = f.read()
                    name = os.path.basename(path)
                    try:
                        os.truncate(path, size)
                        self.damaged(self.step, name, f"expected {whole} bytes, found {size}")
                        self.damaged(path, name)
                        self.damaged(self.root, "step-6", name)
                    finally:
                        with open(path, "wb") as f:
                            f.write(kept)
        self.whole(self.step)

    def test_longer_than_it_should_be(self):
        with open(self.model, "ab") as f:
            f.write(b"x")
        self.damaged(self.model, "model.safetensors")
        self.damaged(self.step, "model.safetensors")

    def test_dropped_files(self):
        for name in ("DONE", "state.json", "model.safetensors", "optimizer.safetensors"):
            with self.subTest(name=name):
                os.rename(os.path.join(self.step, name), self.path("kept"))
                self.damaged(self.step, name)
                self.damaged(self.path("run"), "step-6", name)
                os.rename(self.path("kept"), os.path.join(self.step, name))
        self.whole(self.step)

    def test_swapped_files(self):
        os.rename(self.model, self.path("kept"))
        os.rename(self.optimizer, self.model)
        os.rename(self.path("kept"), self.optimizer)
        self.damaged(self.step, "model.safetensors")

    def test_files_swapped_between_checkpoints(self):
        # Same names, shapes and sizes: only the checksums know.
        other = os.path.join(self.root, "step-3", "model.safetensors")
        self.assertEqual(os.path.getsize(other), os.path.getsize(self.model))
        os.rename(self.model, self.path("kept"))
        os.rename(other, self.model)
        os.rename(self.path("kept"), other)
        self.damaged(self.step, "model.safetensors")
        self.damaged(self.root, "step-3", "step-6")

    def test_one_flipped_bit(self):
        with open(self.optimizer, "r+b") as f:
            f.seek(-100, os.SEEK_END)
            byte = f.read(1)[0]
            f.seek(-100, os.SEEK_END)
            f.write(bytes([byte ^ 1]))
        self.damaged(self.step, "optimizer.safetensors")

    def test_state_that_is_not_json(self):
        self.cut(os.path.join(self.step, "state.json"), -2)
        self.damaged(self.step, "state.json")

    def test_headers_that_lie(self):
        with open(self.model, "rb") as f:
            data = f.read()
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + size])
        header["norm.weight"]["shape"] = [33]
        text = json.dumps(header).encode()
        path = self.write("lie.safetensors", len(text).to_bytes(8, "little") + text + data[8 + size:])
        self.damaged(path, "norm.weight")
        self.damaged(self.write("huge.safetensors", (2**63).to_bytes(8, "little") + b"{}"), "huge.safetensors")

    def test_an_unfinished_save_is_no_damage(self):
        os.makedirs(os.path.join(self.root, "step-9.tmp-1"))
        self.whole(self.root)

    def test_tokenizers(self):
        path = self.path("run/tokenizer.json")
        for size in (-2, os.path.getsize(path) // 2, 0):  # its last byte is a line break
            self.cut(path, size)
            self.damaged(path, "tokenizer.json")
            shutil.copy(f"{self.shared}/tokenizer/tokenizer.json", path)
        with open(path, encoding="utf-8") as f:
            tokenizer = json.load(f)
        tokenizer["model"]["merges"][0] = ["no", "such"]
        self.write("run/tokenizer.json", json.dumps(tokenizer))
        self.damaged(path, "tokenizer.json")

    def test_data_files(self):
        self.damaged(self.write("a.jsonl", '{"text": "a"}\n{"text": \n'), "a.jsonl:2")
        self.damaged(self.write("empty.txt", ""), "empty.txt")
        self.damaged(self.write("a.txt", b"ab\xff"), "a.txt")
        name = next(n for n in os.listdir(f"{self.shared}/cache") if n.endswith(".tokens"))
        copy = self.path(name)
        for size in (-1, 100, 0):
            shutil.copy(f"{self.shared}/cache/{name}", copy)
            self.cut(copy, size)
            self.damaged(copy, name)

    def test_bad_lines_are_counted_and_the_first_ones_named(self):
        good = '{"text": "bado"}\n'
        path = self.write("a.jsonl", good + "no\n" + good + '{"body": 1}\n' + "[1]\n" * 7)
        self.damaged(path, "documents: 2", "bad lines: 9", "a.jsonl:2: not JSON", "a.jsonl:8", "no, 9 bad lines")
        got = run("inspect", path)
        self.assertNotIn("a.jsonl:11", got.stdout)
        self.assertNotIn("data.on_bad_line", got.stdout + got.stderr)
        self.damaged(self.write("b.jsonl", "no\n"), "documents: 0", "b.jsonl:1", "no, 1 bad line")
        self.damaged(self.write("b.txt", b"bado\nke\xffmi\nlusa\n"), "lines with text: 2", "b.txt:2", "UTF-8")

    def test_records_without_a_text(self):
        path = self.write("a.jsonl", '{"step": 1, "loss": 2}\n{"step": 2, "note": "x"}\n')
        self.whole(path, "JSONL records without a text", "records: 2", 'members: "step", "loss", "note"')
        self.damaged(self.write("b.jsonl", '{"step": 1}\n{"st'), "records: 1", "b.jsonl:2")
        self.whole(self.write("c.json", '{\n "a": [1,\n 2]}\n'), "a JSON file")
        self.damaged(self.write("d.json", '{\n "a": [1,\n 2}\n'), "d.json:1")

    def test_nothing_of_ours(self):
        os.makedirs(self.path("plain"))
        self.damaged(self.path("plain"), "plain")
        got = run("inspect", self.path("nowhere"))
        self.assert_one_error(got, 2, "nowhere", "no such file")


if __name__ == "__main__":
    unittest.main()
