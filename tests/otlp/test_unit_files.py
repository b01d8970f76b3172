# SPDX-License-Identifier: Apache-2.0
"""The rules over every file that the unit tests wrote. SPANFOLD_KEEP_FILES names the folder where they left them."""

import os
import pathlib
import unittest

from otlp import check


class UnitFiles(unittest.TestCase):
    def test_files_keep_the_rules(self):
        folder = pathlib.Path(os.environ.get("SPANFOLD_KEEP_FILES", "/nonexistent"))
        files = sorted(folder.glob("*")) if folder.is_dir() else []
        if not files:
            self.skipTest("the unit tests left no files: run them first (make test SUITES=\"unit otlp\")")
        self.assertGreater(len(files), 10)
        for path in files:
            with self.subTest(path.name):
                self.assertEqual(check.validate(path), [])
