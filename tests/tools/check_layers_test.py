"""Plants what tools/check_layers must find."""
import os
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def check(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w") as f:
                f.write(text)
        got = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "check_layers"), "--root", root],
                             capture_output=True, text=True)
    return got.returncode, got.stdout + got.stderr


class Layers(unittest.TestCase):
    def refused(self, files, words):
        code, out = check(files)
        self.assertEqual(code, 1, out)
        self.assertIn(words, out)

    def accepted(self, files):
        code, out = check(files)
        self.assertEqual(code, 0, out)

    def test_upwards_is_refused_and_downwards_passes(self):
        self.refused({"plimsoll/data/x.cpp": '#include "plimsoll/model/m.h"\n'}, "plimsoll/data/x.cpp:1")
        self.accepted({"plimsoll/model/x.cpp": '#include "plimsoll/data/m.h"\n#include "plimsoll/model/m.h"\n'})

    def test_the_library_does_not_know_what_is_built_on_it(self):
        self.refused({"plimsoll/rl/x.cpp": '#include "cli/main.h"\n'}, "built on it")
        self.refused({"sim/backend/x.cpp": '#include "plimsoll/device/choose.h"\n'}, "sim/ uses")

    def test_a_folder_outside_the_house(self):
        self.refused({"plimsoll/utils/x.cpp": "\n"}, "plimsoll/utils")

    def test_torch_in_torch_free_folders(self):
        for folder in ("base", "costmodel", "config", "report", "text", "data"):
            for header in ("torch/library.h", "ATen/core/Tensor.h", "c10/core/Device.h"):
                self.refused({f"plimsoll/{folder}/x.cpp": f"#include <{header}>\n"}, "is torch-free")

    def test_torch_through_a_header_of_ours(self):
        self.refused({"plimsoll/checkpoint/safetensors_read.cpp": '#include "plimsoll/tensor/dtype.h"\n',
                      "plimsoll/tensor/dtype.h": "#pragma once\n#include <c10/core/ScalarType.h>\n"},
                     "plimsoll/tensor/dtype.h -> c10/core/ScalarType.h")

    def test_what_cmake_builds_without_torch(self):
        cmake = "plimsoll_folder(checkpoint_format\n  SOURCES rows.cpp)\nplimsoll_folder(c TORCH SOURCES t.cpp)\n"
        torch = "#pragma once\n#include <c10/core/Device.h>\n"
        self.refused({"plimsoll/checkpoint/CMakeLists.txt": cmake, "plimsoll/checkpoint/rows.h": torch}, "rows.h: is")
        self.accepted({"plimsoll/checkpoint/CMakeLists.txt": cmake, "plimsoll/checkpoint/t.h": torch})

    def test_files_that_say_so(self):
        text = "#pragma once\n// torch-free: read by the planner\n#include <ATen/core/Tensor.h>\n"
        self.refused({"plimsoll/ops/shape.h": text}, "is torch-free")

    def test_whole_torch(self):
        self.refused({"plimsoll/ops/x.h": "#pragma once\n#include <ATen/ATen.h>\n"}, "includes ATen/ATen.h")
        self.refused({"plimsoll/ops/x.cpp": "#include <torch/torch.h>\n"}, "includes torch/torch.h")
        self.accepted({"plimsoll/ops/x.cpp": "// #include <torch/torch.h>\n#include <ATen/core/Tensor.h>\n"})

    def test_pragma_once(self):
        self.refused({"plimsoll/ops/x.h": "int x();\n"}, "#pragma once")

    def test_the_repository_is_clean(self):
        got = subprocess.run([os.path.join(ROOT, "tools", "check_layers")], capture_output=True, text=True)
        self.assertEqual(got.returncode, 0, got.stdout)


if __name__ == "__main__":
    unittest.main()
