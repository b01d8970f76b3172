# SPDX-License-Identifier: Apache-2.0
"""The sum at the end of `make test` must not hide a failure."""
import os
import re
import subprocess
import sys
import unittest

import trees

suites = trees.load("test_suites")
Count = suites.Count

PASSING = "import unittest\nclass A(unittest.TestCase):\n    def test_a(self):\n        pass\n"


class Reading(unittest.TestCase):
    def test_doctest(self):
        text = "[doctest] test cases:  12 |  11 passed | 1 failed | 3 skipped\n[doctest] assertions: 5 | 5 passed | 0 failed |\n"
        self.assertEqual(suites.read_doctest(text), Count(11, 1, 0))

    def test_doctest_cases_that_could_not_run(self):
        text = "SKIPPED: no fentry here\n[doctest] test cases: 2 | 2 passed | 0 failed | 0 skipped\n"
        self.assertEqual(suites.read_doctest(text), Count(1, 0, 1))

    def test_no_summary(self):
        self.assertIsNone(suites.read_doctest("Segmentation fault"))
        self.assertIsNone(suites.read_unittest("Traceback"))

    def test_summary(self):
        self.assertEqual(suites.read_summary("1 passed, 0 failed, 0 skipped\nmore\n4 passed, 1 failed, 0 skipped\n"), Count(4, 1, 0))
        self.assertIsNone(suites.read_summary("  FUZZ  elf\n"))

    def test_a_crash_counts(self):
        self.assertEqual(suites.judge(None, -11, False), Count(failed=1))
        self.assertEqual(suites.judge(None, 0, False), Count(failed=1))

    def test_an_exit_code_after_a_good_summary_counts(self):
        self.assertEqual(suites.judge(Count(5), 1, False), Count(5, 1))
        self.assertEqual(suites.judge(Count(5), 0, True), Count(5, 1))
        self.assertEqual(suites.judge(Count(5, 2), 1, False), Count(5, 2))
        self.assertEqual(suites.judge(Count(5), 0, False), Count(5))


class RunningUnittest(trees.TreeCase):
    def count(self, body):
        self.plant({"test_x.py": body})
        done = subprocess.run([sys.executable, "-m", "unittest", "discover", "--verbose"], cwd=self.root, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
        return suites.judge(suites.read_unittest(done.stdout.decode()), done.returncode, False)

    def test_passing(self):
        self.assertEqual(self.count(PASSING), Count(1))

    def test_all_outcomes(self):
        self.assertEqual(self.count(PASSING + "    def test_b(self):\n        self.fail()\n"
                                    "    def test_c(self):\n        raise OSError\n"
                                    "    def test_d(self):\n        self.skipTest('x')\n"
                                    "    @unittest.expectedFailure\n    def test_e(self):\n        self.fail()\n"
                                    "    @unittest.expectedFailure\n    def test_f(self):\n        pass\n"), Count(2, 3, 1))

    def test_a_file_that_does_not_import(self):
        self.assertEqual(self.count("import nothing_of_that_name\n"), Count(failed=1))

    def test_sub_tests_that_fail(self):
        body = PASSING + "    def test_b(self):\n        for i in range(5):\n            with self.subTest(i=i):\n                self.fail()\n"
        self.assertEqual(self.count(body).failed, 5)

    def test_a_process_that_dies(self):
        self.assertEqual(self.count(PASSING + "    def test_b(self):\n        import os\n        os._exit(0)\n"), Count(failed=1))


class RunningPrograms(unittest.TestCase):
    def test_output_and_exit_code(self):
        code, output, timed_out = suites.run(["sh", "-c", "echo out; echo err >&2; exit 3"], dict(os.environ), 20)
        self.assertEqual((code, sorted(output.split()), timed_out), (3, ["err", "out"], False))

    def test_a_hang_is_ended_with_its_children(self):
        code, output, timed_out = suites.run(["sh", "-c", "echo begun; sleep 60 & wait"], dict(os.environ), 1)
        self.assertEqual((code, output, timed_out), (-9, "begun\n", True))

    def test_an_unknown_suite_is_an_error(self):
        done = subprocess.run([sys.executable, trees.SCRIPTS / "test_suites.py", "nonsense"], stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"no suite nonsense", done.stderr)

    def test_the_last_line(self):
        self.assertTrue(re.fullmatch(r"\d+ passed, \d+ failed, \d+ skipped", str(Count(1, 2, 3))))

    def test_make_variables_come_through_but_not_the_job_server(self):
        os.environ["MAKEFLAGS"] = "w -j2 --jobserver-auth=3,4 -- V=1 WERROR=1"
        self.addCleanup(os.environ.pop, "MAKEFLAGS")
        self.assertEqual(suites.environment("b")["MAKEFLAGS"].split(), ["--", "V=1", "WERROR=1"])


if __name__ == "__main__":
    unittest.main()
