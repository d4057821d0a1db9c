# SPDX-License-Identifier: GPL-2.0
"""Run the tests of the lab, lab/tests/, by pytest; the last line is 'N passed, N failed'.

Words are a filter, as of pytest -k: 'python3 -B lab/test_tooling.py guests or rooms'. --junit
writes what happened as XML.
"""

import argparse
import importlib.util
import os
import sys
from pathlib import Path

DEBIAN = "/usr/bin/python3"  # has pytest, which 'lab setup' installs


class Counter:
    """Counts, for pytest, what passed and failed; a test that cannot begin has failed."""

    def __init__(self) -> None:
        self.passed = self.failed = 0

    def pytest_runtest_logreport(self, report):
        """A stage of a test has ended."""
        self.passed += report.when == "call" and report.passed
        self.failed += report.failed

    def pytest_collectreport(self, report):
        """A file was read."""
        self.failed += report.failed


def main() -> None:
    """Run them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("filter", nargs="*", help="which (all)")
    parser.add_argument("--junit", metavar="FILE")
    args = parser.parse_args()
    if not importlib.util.find_spec("pytest"):
        if sys.executable == DEBIAN:
            sys.exit("error: there is no pytest; run 'python3 -B lab setup packages'")
        os.execv(DEBIAN, [DEBIAN, "-B", *sys.argv])
    import pytest

    count = Counter()
    words = ["-p", "no:cacheprovider", "-q", "--durations=3", Path(__file__).parent / "tests"]
    if args.filter:
        words += ["-k", " ".join(args.filter)]
    if args.junit:
        words.append(f"--junitxml={args.junit}")
    status = pytest.main(list(map(str, words)), plugins=[count])
    failed = count.failed or int(status != 0)
    print(f"{count.passed} passed, {failed} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
