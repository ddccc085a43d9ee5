"""Take back each fix, and see whether its test notices: `python -m tests.chaos.mutants [--only WORD …]`.

`mutants.toml` holds the mutants. Each is tried in a copy of the working tree: what it changes, and the tests that must
fail then. All their tests pass in the copy before anything is changed. Prints one JSON line for each mutant and exits
with 1 if a test fails without a change, or none fails with one. `tests/chaos/test_mutants.py` checks in the suite that
every mutant still applies.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
FILE = Path(__file__).with_suffix(".toml")
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", ".erl", ".*_cache", "__pycache__", "node_modules", "images")
SECONDS = 900  # for the tests of one mutant
SECONDS_OF_ALL = 7200  # for the tests of all mutants, without a change


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A text of a file that stands there once, and what the mutant has instead."""

    file: str
    old: str
    new: str

    def apply(self, root: Path) -> None:
        """Make the change in a copy.

        Raises:
            ValueError: the text does not stand there once.
        """
        path = root / self.file
        before = path.read_text(encoding="utf-8")
        if before.count(self.old) != 1:
            raise ValueError(f"{self.file} has this text {before.count(self.old)} times, not once:\n{self.old}")
        path.write_text(before.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mutant:
    """A fix taken back, and the tests of which at least one must fail."""

    name: str
    tests: tuple[str, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """How many tests passed and failed; `errors` are those that could not run."""

    passed: int = 0
    failed: int = 0
    errors: int = 0


def read_mutants(file: Path = FILE) -> list[Mutant]:
    """Return the mutants in the order of the file."""
    return [_read_mutant(entry) for entry in tomllib.loads(file.read_text(encoding="utf-8"))["mutant"]]


def _read_mutant(entry: dict[str, Any]) -> Mutant:
    return Mutant(
        name=entry["name"],
        tests=tuple(entry["tests"]),
        changes=tuple(Change(**change) for change in entry["change"]),
    )


@contextmanager
def changed(mutant: Mutant, root: Path) -> Iterator[None]:
    """Make the changes of a mutant in a copy, and take them back."""
    before = {change.file: (root / change.file).read_text(encoding="utf-8") for change in mutant.changes}
    try:
        for change in mutant.changes:
            change.apply(root)
        yield
    finally:
        for file, text in before.items():
            (root / file).write_text(text, encoding="utf-8")


def run_tests(tests: Collection[str], root: Path, *, processes: int = 0, seconds: float = SECONDS) -> Outcome:
    """Run tests in a copy, which has servers of its own, up to the first that fails."""
    with tempfile.TemporaryDirectory(prefix="erl-mutant-") as folder:
        report = Path(folder) / "report.xml"
        lanes = ["-m", ""]  # both
        options = [f"-n{processes}", "-q", "-x", *lanes, "-p", "no:cacheprovider", f"--junit-xml={report}"]
        try:
            subprocess.run(
                [sys.executable, "-m", "pytest", *options, *tests],
                cwd=root,
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr if processes else subprocess.DEVNULL,  # long work shows how far it is
                stderr=subprocess.DEVNULL,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Outcome(failed=1)
        if not report.exists():
            return Outcome(errors=1)
        suite = ElementTree.parse(report).getroot().find("testsuite")  # noqa: S314 - our own report
        assert suite is not None
        tried, failed, errors = (int(suite.get(name, 0)) for name in ("tests", "failures", "errors"))
        return Outcome(passed=tried - failed - errors - int(suite.get("skipped", 0)), failed=failed, errors=errors)


def try_mutant(mutant: Mutant, root: Path) -> dict[str, Any]:
    """Return whether the tests of a mutant fail with it."""
    started = time.monotonic()
    with changed(mutant, root):
        outcome = run_tests(mutant.tests, root)
    return {
        "mutant": mutant.name,
        "noticed": bool(outcome.failed),
        "tests": list(mutant.tests),
        "seconds": round(time.monotonic() - started),
    }


def try_mutants(mutants: list[Mutant], *, processes: int = 1) -> Iterator[dict[str, Any]]:
    """Try mutants in as many copies of the working tree; yield each result as it comes.

    Raises:
        RuntimeError: a test of a mutant fails before anything is changed.
    """
    with tempfile.TemporaryDirectory(prefix="erl-mutants-") as folder:
        roots = [Path(folder) / str(number) for number in range(processes)]
        copies: SimpleQueue[Path] = SimpleQueue()
        for root in roots:
            copies.put(shutil.copytree(ROOT, root, ignore=NOT_COPIED))
        tests = sorted({test for mutant in mutants for test in mutant.tests})
        sound = run_tests(tests, roots[0], processes=processes, seconds=SECONDS_OF_ALL)
        if sound.failed or sound.errors or not sound.passed:
            raise RuntimeError(f"Before anything is changed, of {len(tests)} tests {sound}.")

        def try_one(mutant: Mutant) -> dict[str, Any]:
            root = copies.get()
            try:
                return try_mutant(mutant, root)
            finally:
                copies.put(root)

        with ThreadPoolExecutor(max_workers=processes) as pool:
            yield from pool.map(try_one, mutants)


def main() -> int:
    mutants = read_mutants()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="NAME", help="Mutants whose name contains one of these words.")
    parser.add_argument("--processes", type=int, default=1, metavar="N", help="How many work beside each other.")
    parser.add_argument("--list", action="store_true", help="Only print the names.")
    options = parser.parse_args()
    chosen = [each for each in mutants if not options.only or any(word in each.name for word in options.only)]
    if options.list:
        print("\n".join(each.name for each in chosen))
        return 0
    missed = 0
    for result in try_mutants(chosen, processes=options.processes):
        print(json.dumps(result), flush=True)
        missed += not result["noticed"]
    print(json.dumps({"mutants": len(chosen), "not_noticed": missed}))
    return 1 if missed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
