# SPDX-License-Identifier: Apache-2.0
"""Runs rdma-core's test suite and writes a line per test: its name, and ok, FAIL, ERROR
or the cause for which it was skipped. verbs_suite.py FOLDER RESULTS DEVICE [MODULE..]"""
import os
import sys
import unittest

folder, results, device, *modules = sys.argv[1:]
sys.argv = ["run_tests.py", "--dev", device]
sys.path[:0] = [folder, os.path.join(folder, "tests")]

import tests  # noqa: E402  (the suite's own package)
from args_parser import parser  # noqa: E402


class Lines(unittest.TextTestResult):
    lines = []

    def line(self, test, what):
        self.lines.append(f"{test.id()} {what}")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.line(test, "ok")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line(test, "skipped: " + reason.strip().replace("\n", " "))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.line(test, "FAIL")

    def addError(self, test, err):
        super().addError(test, err)
        self.line(test, "ERROR")


parser.parse_args()
loader = unittest.defaultTestLoader
suite = loader.loadTestsFromNames(modules) if modules else loader.loadTestsFromModule(tests)
outcome = unittest.TextTestRunner(verbosity=2, resultclass=Lines).run(suite)
with open(results, "w") as out:
    out.write("\n".join(sorted(Lines.lines)) + "\n")
sys.exit(not outcome.wasSuccessful())
