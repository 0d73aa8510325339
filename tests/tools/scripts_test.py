#!/usr/bin/env python3
"""The shell scripts of tools/, run in a copy of their folder with stand-ins for the programs they call.

A stand-in notes its arguments and answers as the test says, so nothing is installed or built here.
What the scripts do on a real bare machine is tried by hand (CONTRIBUTING.md).
"""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CTEST_OK = 'echo "100% tests passed, 0 tests failed out of 7"; echo "Total Test time (real) = 1 sec"'
CTEST_BAD = 'echo "71% tests passed, 2 tests failed out of 7"; exit 8'


class ScriptTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        shutil.copytree(ROOT / "tools", self.root / "tools", ignore=shutil.ignore_patterns("*.cc"))
        self.bin = self.root / "bin"
        self.bin.mkdir()
        self.calls_file = self.root / "calls"
        self.stand_in("dpkg-query", 'printf "installed "')
        self.stand_in("id", "echo 0")

    def stand_in(self, program: str, body: str):
        path = self.bin / program
        path.write_text(f'#!/bin/bash\necho "{program} $*" >> "{self.calls_file}"\n{body}\n')
        path.chmod(0o755)

    def run_script(self, script: str, *arguments: str, path: str | None = None, **environment: str):
        path = path or f"{self.bin}:{os.environ['PATH']}"
        return subprocess.run(
            ["/bin/bash", self.root / "tools" / script, *arguments],
            cwd="/",
            env={"PATH": path, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def calls(self, program: str) -> list[str]:
        lines = self.calls_file.read_text().splitlines() if self.calls_file.exists() else []
        return [line for line in lines if line.startswith(program + " ")]


class InstallPackages(ScriptTest):
    def missing(self, *packages: str):
        self.stand_in("apt-get", "exit 0")
        cases = "".join(f"{package}) exit 1 ;;" for package in packages)
        self.stand_in("dpkg-query", f'case "${{@: -1}}" in {cases} esac\nprintf "installed "')

    def test_nothing_missing_calls_no_apt_get(self):
        self.missing()
        result = self.run_script("install_packages.sh")
        self.assertEqual((result.returncode, result.stdout, self.calls("apt-get")), (0, "", []))

    def test_only_the_missing_ones_are_installed_without_recommends(self):
        self.missing("cmake", "libfmt-dev")
        result = self.run_script("install_packages.sh")
        self.assertEqual(result.returncode, 0, result.stderr)
        update, install = self.calls("apt-get")
        self.assertIn(" update", update)
        self.assertRegex(install, r" install .*--no-install-recommends cmake libfmt-dev$")

    def test_removed_package_with_files_left_counts_as_missing(self):
        self.stand_in("dpkg-query", 'printf "config-files "')
        result = self.run_script("install_packages.sh", "--list")
        self.assertIn("dataset-fashion-mnist\n", result.stdout)

    def test_user_without_sudo_is_told_what_to_ask_for(self):
        self.missing("cmake")
        self.stand_in("id", "echo 1000")
        for program in ["dirname", "sed", "env"]:
            (self.bin / program).symlink_to(shutil.which(program))
        result = self.run_script("install_packages.sh", path=str(self.bin))
        self.assertEqual(result.returncode, 1)
        self.assertIn("neither root nor sudo", result.stderr)
        self.assertIn("apt-get install --no-install-recommends cmake", result.stderr)

    def test_user_with_sudo_installs_through_it(self):
        self.missing("cmake")
        self.stand_in("id", "echo 1000")
        self.stand_in("sudo", 'exec "$@"')
        result = self.run_script("install_packages.sh")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(self.calls("sudo")), 2)

    def test_failing_apt_get_fails_with_the_names(self):
        self.missing("cmake")
        self.stand_in("apt-get", "exit 100")
        result = self.run_script("install_packages.sh")
        self.assertEqual(result.returncode, 1)
        self.assertIn("apt-get could not install: cmake", result.stderr)

    def test_each_package_of_the_list_is_a_single_word_with_a_reason(self):
        lines = (ROOT / "tools/packages.txt").read_text().splitlines()
        for line in [line for line in lines if line and not line.startswith("#")]:
            self.assertRegex(line, r"^[a-z0-9+.-]+ +# \S")


class TestSh(ScriptTest):
    def setUp(self):
        super().setUp()
        (self.root / "tools/fuzz.sh").write_text("#!/bin/bash\n")

    def run_test_sh(self, *arguments: str, ctest: str = CTEST_OK, **environment: str):
        self.stand_in("cmake", '[ "$1" != --preset ] || mkdir -p "build/$2"')
        self.stand_in("ctest", ctest)
        return self.run_script("test.sh", *arguments, **environment)

    def last_line(self, result) -> str:
        return result.stdout.splitlines()[-1]

    def test_all_pass_ends_with_the_closing_line_of_ctest(self):
        result = self.run_test_sh()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.last_line(result), "100% tests passed, 0 tests failed out of 7")
        for stage in ["release", "asan", "tsan", "fuzz"]:
            self.assertRegex(result.stdout, rf"\n{stage} +\d+ s  passed ")

    def test_failed_sanitizer_stage_fails_and_its_line_is_the_last(self):
        ctest = f'case $PWD in */asan) {CTEST_BAD} ;; *) {CTEST_OK} ;; esac'
        result = self.run_test_sh(ctest=ctest)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(self.last_line(result), "71% tests passed, 2 tests failed out of 7")
        self.assertEqual(len(self.calls("ctest")), 3, "a failed stage must not stop the next one")

    def test_failed_build_fails_though_no_test_ran(self):
        self.stand_in("ctest", CTEST_OK)
        self.stand_in("cmake", '[ "$1" != --build ] || exit 1; mkdir -p "build/$2"')
        result = self.run_script("test.sh", "--release-only")
        self.assertEqual((result.returncode, self.calls("ctest")), (1, []))
        self.assertIn("the stage release ended before ctest could sum up", self.last_line(result))

    def test_finding_of_the_fuzzer_fails_and_is_named_last(self):
        (self.root / "tools/fuzz.sh").write_text("#!/bin/bash\nexit 1\n")
        result = self.run_test_sh()
        self.assertEqual(result.returncode, 1)
        self.assertEqual(self.last_line(result), "test.sh: the stage fuzz FAILED (see above)")
        self.assertRegex(result.stdout, r"\ntsan +\d+ s  passed ")

    def test_fuzzing_alone_gives_each_target_20_seconds(self):
        (self.root / "tools/fuzz.sh").write_text('#!/bin/bash\necho "fuzz.sh $*"\n')
        result = self.run_test_sh("--fuzz")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("\nfuzz.sh all 20\n", result.stdout)
        self.assertEqual(self.last_line(result), "test.sh: the stage fuzz found nothing")

    def test_stale_closing_line_of_an_earlier_run_is_not_shown(self):
        self.run_test_sh("--release-only")
        result = self.run_test_sh("--release-only", ctest="exit 1")
        self.assertEqual(result.returncode, 1)
        self.assertNotIn("100%", result.stdout)

    def test_stage_over_its_budget_is_stopped_and_fails(self):
        result = self.run_test_sh("--asan", ctest="sleep 30", SARDONYX_TEST_BUDGET="1")
        self.assertEqual(result.returncode, 1)
        self.assertIn("FAILED: its tests took more than 1 s", result.stdout)

    def test_options_choose_the_stages(self):
        for option, preset in [("--release-only", "release"), ("--asan", "asan"), ("--tsan", "tsan")]:
            with self.subTest(option=option):
                self.calls_file.unlink(missing_ok=True)
                self.run_test_sh(option)
                configured = [call for call in self.calls("cmake") if "--preset" in call]
                self.assertEqual(configured, [f"cmake --preset {preset}"])

    def test_thread_stage_takes_runtime_and_passes_only(self):
        self.run_test_sh("--tsan")
        self.assertIn("--target runtime_tests passes_tests", self.calls("cmake")[1])
        self.assertIn("--label-regex ^(runtime|passes)$", self.calls("ctest")[0])

    def test_unknown_option_is_refused_with_the_usage(self):
        result = self.run_test_sh("--fast")
        self.assertEqual(result.returncode, 2)
        self.assertIn("Usage: tools/test.sh", result.stderr)


class FuzzSh(ScriptTest):
    """A stand-in for the program that fuzzes; its answers are those of libFuzzer."""

    QUIET = 'echo "#9 DONE cov: 12 ft: 34 corp: 5/6b"; echo "stat::number_of_executed_units: 9"'

    def run_fuzz_sh(self, *arguments: str, fuzzer: str = QUIET):
        self.stand_in("cmake", "mkdir -p build/asan/tests")
        self.stand_in("fuzz_targets", fuzzer)
        program = self.root / "build/asan/tests/fuzz_targets"
        program.parent.mkdir(parents=True)
        program.symlink_to(self.bin / "fuzz_targets")
        (self.root / "tests/fuzz").mkdir(parents=True)
        shutil.copy(ROOT / "tests/fuzz/target.cc", self.root / "tests/fuzz")
        return self.run_script("fuzz.sh", *arguments)

    def test_every_target_runs_under_the_limits_and_has_its_line(self):
        result = self.run_fuzz_sh("all", "3")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        calls = self.calls("fuzz_targets")
        targets = sorted(line.split()[0] for line in result.stdout.splitlines())
        self.assertEqual(sorted(call.split()[1] for call in calls), [f"--target={name}" for name in targets])
        self.assertTrue({"import", "model", "train", "text", "npz", "manifest"} < set(targets))
        for call in calls:
            self.assertIn("-rss_limit_mb=1024 -malloc_limit_mb=512 -timeout=10 -max_total_time=3", call)
        self.assertRegex(result.stdout, r"(?m)^npz +9 runs  cov: 12 ft: 34 +nothing$")

    def test_finding_fails_and_is_told(self):
        result = self.run_fuzz_sh("npz", "3", fuzzer='echo "SUMMARY: AddressSanitizer: overflow"; exit 77')
        self.assertEqual(result.returncode, 1)
        self.assertIn("FOUND: SUMMARY: AddressSanitizer: overflow, see build/fuzz/logs/npz.log", result.stdout)

    def test_unknown_target_is_refused_with_the_known_ones(self):
        result = self.run_fuzz_sh("zip")
        self.assertEqual(result.returncode, 2)
        self.assertRegex(result.stderr, "there is no target zip; there are: import model train ")


class Quickstart(ScriptTest):
    TRAIN = """
case $1 in
  model) echo onnx > "$4" ;;
  train) echo '{"epoch":1,"test_accuracy":0.87}' > build/quickstart/train.jsonl ;;
  eval) echo "test accuracy 0.87" ;;
esac"""

    def setUp(self):
        super().setUp()
        self.stand_in("cmake", "mkdir -p build/release/tools")
        binary = self.root / "build/release/tools"
        binary.mkdir(parents=True)
        self.stand_in("sardonyx", self.TRAIN)
        (binary / "sardonyx").symlink_to(self.bin / "sardonyx")

    def test_trains_evaluates_and_names_the_results(self):
        result = self.run_script("quickstart.sh", "--epochs", "2")
        self.assertEqual(result.returncode, 0, result.stderr)
        model, train, evaluate = self.calls("sardonyx")
        self.assertEqual(model, "sardonyx model lenet -o build/quickstart/lenet.onnx --init kaiming")
        self.assertIn("--data fashion-mnist --epochs 2 --batch 256 --lr 0.2 --save ", train)
        self.assertIn("eval build/quickstart/trained.onnx --data fashion-mnist", evaluate)
        self.assertIn("test accuracy   0.87\n", result.stdout)
        self.assertIn("learning curve  build/quickstart/curve.svg\n", result.stdout)

    def test_build_only_stops_before_training(self):
        result = self.run_script("quickstart.sh", "--build-only")
        self.assertEqual((result.returncode, self.calls("sardonyx")), (0, []))

    def test_failing_training_fails(self):
        self.stand_in("sardonyx", "[ $1 != train ]")
        self.assertNotEqual(self.run_script("quickstart.sh").returncode, 0)

    def test_bad_epochs_are_refused(self):
        for value in [[], ["0"], ["five"]]:
            result = self.run_script("quickstart.sh", "--epochs", *value)
            self.assertEqual(result.returncode, 2)
            self.assertIn("--epochs needs a whole number above 0", result.stderr)


if __name__ == "__main__":
    unittest.main()
