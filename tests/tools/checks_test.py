#!/usr/bin/env python3
"""The checks of tools/check_*.py, each tried on small trees with one planted fault.

A check that never fails proves nothing, so every rule has a tree that breaks it and the test asserts
file, line and reason. Forbidden words are put together here, or this file would be the violation.
"""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"
HEADER = "#pragma once\n"


class CheckTest(unittest.TestCase):
    def run_check(self, check: str, files: dict[str, str], *options: str):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            command = [sys.executable, "-B", TOOLS / f"{check}.py", *options, folder]
            return subprocess.run(command, capture_output=True, text=True, check=False)

    def assert_clean(self, check: str, files: dict[str, str]):
        result = self.run_check(check, files)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("no violation", result.stdout)

    def assert_finds(self, check: str, files: dict[str, str], *expected: str):
        result = self.run_check(check, files)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertEqual(result.stdout.splitlines(), list(expected), result.stderr)


class Layers(CheckTest):
    def one_include(self, file: str, included: str, bracket: str = '""') -> dict[str, str]:
        line = f"#include {bracket[0]}{included}{bracket[1]}\n"
        return {included: HEADER, file: "// head\n" + line}

    def test_downward_includes_pass(self):
        for file, included in [
            ("tools/main.cc", "runtime/session.h"),
            ("tools/cmd_model.cc", "models/lenet.h"),
            ("runtime/session.cc", "graph/graph.h"),
            ("passes/plan.cc", "ops/core/op.h"),
            ("ops/registry.cc", "ops/conv/conv.h"),
            ("ops/conv/conv_cpu.cc", "ops/conv/conv.h"),
            ("ops/conv/conv.cc", "ops/core/op.h"),
            ("models/lenet.cc", "graph/builder.h"),
            ("tests/ops/conv_test.cc", "runtime/session.h"),
        ]:
            with self.subTest(file=file, included=included):
                self.assert_clean("check_layers", self.one_include(file, included))

    def test_library_headers_pass(self):
        self.assert_clean("check_layers", {"graph/a.cc": "#include <onnx/onnx_pb.h>\n#include <map>\n"})

    def test_upward_include_fails(self):
        for file, included in [
            ("graph/a.cc", "ops/core/op.h"),
            ("ops/core/op.cc", "passes/plan.h"),
            ("passes/plan.cc", "runtime/session.h"),
            ("runtime/session.cc", "tools/cli.h"),
            ("runtime/session.cc", "models/lenet.h"),
            ("models/lenet.cc", "ops/core/op.h"),
            ("tools/main.cc", "tests/support/golden.h"),
        ]:
            with self.subTest(file=file, included=included):
                a, b = file.split("/")[0], included.split("/")[0]
                reason = f"{file}:2: {a}/ must not include {b}/ ({included})"
                self.assert_finds("check_layers", self.one_include(file, included), reason)

    def test_room_includes_another_room_fails(self):
        for room, included in [
            ("conv", "ops/pool/pool.h"),
            ("core", "ops/conv/conv.h"),
        ]:
            with self.subTest(room=room, included=included):
                file = f"ops/{room}/a.cc"
                reason = f"{file}:2: ops/{room}/ may include ops/core/ and graph/, not {included}"
                self.assert_finds("check_layers", self.one_include(file, included), reason)

    def test_include_relative_to_the_file_fails(self):
        files = {"graph/b.h": HEADER, "graph/a.cc": '#include "b.h"\n'}
        self.assert_finds("check_layers", files, 'graph/a.cc:1: "b.h" is not a path from the root')

    def test_own_header_in_angle_brackets_fails(self):
        self.assert_finds(
            "check_layers",
            self.one_include("graph/a.cc", "ops/core/op.h", "<>"),
            "graph/a.cc:2: <ops/core/op.h> is our own header: write it in quotes",
        )


class Size(CheckTest):
    def test_700_lines_pass(self):
        self.assert_clean("check_size", {"graph/a.cc": "\n" * 700, "docs/long.md": "\n" * 900})

    def test_701_lines_fail(self):
        for name in ["graph/a.h", "graph/a.cc", "ops/a.cu", "tools/a.py", "tools/a.sh"]:
            with self.subTest(name=name):
                result = self.run_check("check_size", {name: "\n" * 701})
                self.assertEqual(result.returncode, 1)
                self.assertIn(f"{name}:701: 701 lines, the cap is 700", result.stdout)

    def test_report_has_the_numbers(self):
        files = {
            "graph/a.h": '#include "ops/b.h"\n' + "\n" * 9,
            "ops/b.h": '#include "graph/a.h"\n' + "\n" * 19,
            "ops/c.cc": "#pragma once\n#if X\n#elif Y\n#else\n#endif\n" + "\n" * 65,
        }
        report = self.run_check("check_size", files, "--report").stdout
        self.assertIn("files             3, 100 lines", report)
        self.assertIn("median            20 lines", report)
        self.assertIn("95th percentile   70 lines", report)
        self.assertIn("maximum           70 lines (ops/c.cc)", report)
        self.assertIn("#if per 1,000     20.00 (2 in 100)", report)
        self.assertIn("two-way includes  1: graph <-> ops", report)

    def test_report_counts_a_room_with_its_tests(self):
        files = {
            "ops/conv/conv.cc": "\n" * 30,
            "ops/conv/conv_cpu.cc": "\n" * 10,
            "ops/conv_transpose/conv_transpose.cc": "\n" * 20,
            "ops/core/op.h": "\n" * 90,
            "tests/ops/conv_test.cc": "\n" * 5,
            "tests/ops/conv_small_test.cc": "\n" * 4,
            "tests/ops/conv_transpose_test.cc": "\n" * 3,
            "tests/ops/core/op_test.cc": "\n" * 90,
        }
        report = self.run_check("check_size", files, "--report").stdout
        self.assertIn("rooms             2; a median one 3 files, 30 lines, 6 of tests", report)
        self.assertRegex(report, "(?m)^  conv +4 files +40 lines +9 of tests$")
        self.assertRegex(report, "(?m)^  conv_transpose +2 files +20 lines +3 of tests$")
        self.assertNotRegex(report, "(?m)^  core ")


class Text(CheckTest):
    def test_relative_paths_and_words_pass(self):
        text = "framework/work ./work ~/home ${X}/root a/root /workspace /homes https://example.org/\n"
        self.assert_clean("check_text", {"docs/a.md": text})

    def test_machine_path_fails(self):
        for path in ["/" + "work", "/" + "root", "/home/" + "ann"]:
            with self.subTest(path=path):
                reason = f"docs/a.md:2: path of one machine: {path}"
                self.assert_finds("check_text", {"docs/a.md": f"\nsee {path}/x\n"}, reason)

    def test_registry_host_fails(self):
        for host in ["py" + "pi.org", "files.python" + "hosted.org", "registry.np" + "mjs.org"]:
            with self.subTest(host=host):
                reason = f".ci/run:1: host of a package registry: {host}"
                self.assert_finds("check_text", {".ci/run": f"pip -i https://{host}/simple\n"}, reason)

    def test_what_walks_a_plan_knows_no_gradients(self):
        for file in ["runtime/devices/cpu_executor.cc", "runtime/devices/executor.h", "runtime/trainer.cc"]:
            with self.subTest(file=file):
                reason = f"{file}:2: 'Bucket' is the graph's matter"
                self.assert_finds("check_text", {file: "// head\nint firstBucket;\n"}, reason)
        self.assert_clean("check_text", {"runtime/session.h": "the gradient\n", "runtime/devices/arena.h": "bucket\n"})

    def test_binary_file_is_left_alone(self):
        self.assert_clean("check_text", {"tests/a.bin": "\0 /" + "root/x\n"})


class Readmes(CheckTest):
    GOOD = (
        "# graph/\nWhat      The graph, see `graph/a.h`.\nFlow      in: bytes   out: Graph\n"
        "May use   nothing. Must not use: `ops/`.\nRead      1 a.h  2 support/{b,c}.h\n"
        "Add one   NAME.h/.cc and `tests/graph/NAME_test.cc`, then build/release/x\n"
    )
    TREE = {"graph/a.h": "", "graph/support/b.h": "", "graph/support/c.h": "", "ops/d.h": ""}

    def test_good_readme_passes(self):
        self.assert_clean("check_readmes", self.TREE | {"graph/README.md": self.GOOD})

    def test_path_in_backticks_that_does_not_exist_fails(self):
        readme = self.GOOD.replace("`graph/a.h`", "`graph/gone.h`")
        reason = "graph/README.md:2: graph/gone.h does not exist"
        self.assert_finds("check_readmes", self.TREE | {"graph/README.md": readme}, reason)

    def test_path_after_read_that_does_not_exist_fails(self):
        readme = self.GOOD.replace("{b,c}.h", "{b,e}.h")
        reason = "graph/README.md:5: support/{b,e}.h does not exist"
        self.assert_finds("check_readmes", self.TREE | {"graph/README.md": readme}, reason)

    def test_missing_heading_fails(self):
        readme = self.GOOD.replace("Flow  ", "Stream")
        reason = "graph/README.md:1: needs the headings What, Flow, May use, Read, Add one"
        result = self.run_check("check_readmes", self.TREE | {"graph/README.md": readme})
        self.assertEqual(result.returncode, 1)
        self.assertIn(reason, result.stdout)

    def test_root_readme_needs_no_headings_but_true_paths(self):
        self.assert_clean("check_readmes", {"README.md": "# Sardonyx\nSee `docs/`.\n", "docs/a.md": ""})
        reason = "README.md:2: docs/a.md does not exist"
        self.assert_finds("check_readmes", {"README.md": "# Sardonyx\nSee `docs/a.md`.\n"}, reason)

    def test_limit_that_the_page_does_not_quote_fails(self):
        files = {"tests/known_limits.txt": "# head\nX-01  why\n", "docs/limits.md": "X-02  why\n"}
        reason = "tests/known_limits.txt:2: docs/limits.md does not quote: X-01  why"
        self.assert_finds("check_readmes", files, reason)
        self.assert_clean("check_readmes", files | {"docs/limits.md": "X-01  why\n"})


if __name__ == "__main__":
    unittest.main()
