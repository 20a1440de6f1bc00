"""Plants what tools/check_neutral must find, and what it must leave alone."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def check(files):
    """Exit code and lines of the check over a tree of {path: text}."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w") as f:
                f.write(text)
        got = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "check_neutral"), "--root", root],
                             capture_output=True, text=True)
    return got.returncode, got.stdout + got.stderr


class Vendors(unittest.TestCase):
    def refused(self, text, path="plimsoll/model/x.cpp"):
        code, out = check({path: text})
        self.assertEqual(code, 1, f"not found: {text!r}")
        self.assertIn(path + ":1:", out)

    def accepted(self, text, path="plimsoll/model/x.cpp"):
        code, out = check({path: text})
        self.assertEqual(code, 0, out)

    def test_vendor_words_in_names_and_literals(self):
        for text in ('torch::Device d("cuda:0");', "cudaMalloc(&p, n);", "at::kCUDA", "#include <nccl.h>",
                     "cublasLtMatmul(h);", "hipStreamCreate(&s);", "HIP_VISIBLE", "c10::xpu::XPUStream s;", "at::mps::x",
                     'if (name == "npu") {', "setNPUDevice(0)", "is_hpu_available", '"metal"', "metal::device",
                     "neuron_core", "rocm_version", "sycl::queue q;", "NPUGuard g;", "DeviceType::HPU", "useNCCL"):
            with self.subTest(text):
                self.refused(text)

    def test_comments_recipes_scripts_and_build_files_count(self):
        self.refused("// like cuda does\n")
        self.refused('device = "cuda"\n', "recipes/x.toml")
        self.refused("import torch; torch.cuda.synchronize()\n", "bench/x.py")
        self.refused("find_package(CUDAToolkit)\n", "CMakeLists.txt")

    def test_file_names_count(self):
        code, out = check({"plimsoll/device/cuda_stream.h": "#pragma once\n"})
        self.assertEqual(code, 1)
        self.assertIn("plimsoll/device/cuda_stream.h", out)

    def test_words_that_only_look_alike(self):
        for text in ("ship it, the chips and whips", "ascending order, descend", "barracuda", "maps and stamps",
                     "int amps = 3;", "a metal bar", "temps, mpsc", "input, output", "steps", "relationship",
                     "c10::DeviceType::PrivateUse1"):
            with self.subTest(text):
                self.accepted(text)

    def test_backends_and_the_allow_list(self):
        self.accepted("cudaMalloc(&p, n);", "backends/cuda/graph.cpp")
        allowed = {"docs/b.md": "runs on cuda\n", "tools/neutral_allow.txt": "docs/*.md | cuda | a table\n"}
        self.assertEqual(check(allowed)[0], 0)
        allowed["docs/b.md"] = "runs on xpu\n"
        self.assertEqual(check(allowed)[0], 1, "only the words of the line are allowed")

    def test_an_allow_line_without_a_reason_is_refused(self):
        code, out = check({"docs/b.md": "cuda\n", "tools/neutral_allow.txt": "docs/*.md | * |\n"})
        self.assertEqual(code, 1)
        self.assertIn("neutral_allow.txt:1", out)


class Copies(unittest.TestCase):
    REFUSED = ("a.copy_(b, true);", "a.copy_(b, /*non_blocking=*/true);", "a->copy_(f(b, c), true);",
               "a.copy_(b,\n        true);", "b = a.to(device, at::kFloat, true);", "b = a.to(at::kFloat, true);",
               "b = a.to(device, at::kFloat, /*non_blocking=*/true);", "a._copy_from(b, true);",
               "opts.non_blocking = 1;")
    ACCEPTED = ("a.copy_(b);", "a.copy_(b, false);", "a.copy_(f(b, true));", "b = a.to(at::kFloat, false, true);",
                "b = a.to(device);", "// a.copy_(b, true)", 'log("a.copy_(b, true)");', "set(true);",
                "x.to(f(true));")

    def test_planted_copies(self):
        for text in self.REFUSED:
            with self.subTest(text):
                code, out = check({"plimsoll/saved/x.cpp": text})
                self.assertEqual(code, 1)
                self.assertIn("plimsoll/saved/x.cpp:1", out)

    def test_blocking_copies_and_comments_pass(self):
        for text in self.ACCEPTED:
            with self.subTest(text):
                code, out = check({"plimsoll/saved/x.cpp": text})
                self.assertEqual(code, 0, out)

    def test_transfer_and_the_contract_may(self):
        for folder in ("transfer", "device/contract"):
            for text in self.REFUSED:
                self.assertEqual(check({f"plimsoll/{folder}/x.cpp": text})[0], 0)
        self.assertEqual(check({"plimsoll/device/x.cpp": self.REFUSED[0]})[0], 1)

    def test_python_counts(self):
        self.assertEqual(check({"python/x.py": "a.to(d, non_blocking=True)\n"})[0], 1)


class Repository(unittest.TestCase):
    def test_is_clean(self):
        got = subprocess.run([os.path.join(ROOT, "tools", "check_neutral")], capture_output=True, text=True)
        self.assertEqual(got.returncode, 0, got.stdout)


if __name__ == "__main__":
    unittest.main()
