"""Break things and count: `python -m tests.chaos.run --profile quick|full|soak --seed N [--only F1] [--history DIR]`.

Prints one JSON line for each fault with what its test counted, and one with what the run came to; pytest's own words go
to standard error. Exits 1 where a fault test failed, took longer than its limit, or did not run to its end.

PostgreSQL waits for the disk in all of them. They run in a few processes beside each other (`--processes`), with the
mixed load (F24) and the full disk (F9) beside all, each on a copy of a database that is made once. Except in the quick
profile, those whose figures are times come first and have the machine to themselves.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.chaos.faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
PROCESSES = {"quick": 2, "full": 3, "soak": 3}  # much of the larger profiles is waiting
PREPARING_SECONDS = 60  # the tables, and the servers of each process
PHASES = ("setup", "call", "teardown")
# Of a name that several tests of a fault report, the sum is given, but of these the largest or all of them.
LARGEST = ("_ms", "_seconds", "_p50", "_p99", "slowest", "each", "clients")
Result = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Run:
    """What was asked for."""

    profile: str
    seed: int
    history: str
    ends_at: float  # on the monotonic clock
    processes: int = 2  # beside each other
    prepared: str = ""  # data folder that each process starts from a copy of

    @property
    def is_quick(self) -> bool:
        return self.profile == "quick"

    def seconds_left(self, seconds: float) -> float:
        """Return so many seconds, or what is left of the run."""
        return max(1.0, min(seconds, self.ends_at - time.monotonic()))

    def limit(self, fault: Fault) -> int:
        return fault.quick_seconds if self.is_quick else fault.soak_seconds

    def weight(self, fault: Fault) -> int:
        if self.profile == "soak" and fault.soak_weight:
            return fault.soak_weight
        return fault.quick_weight if self.is_quick else fault.full_weight

    def tests(self, fault: Fault) -> tuple[str, ...]:
        return (self.is_quick and fault.quick_tests) or fault.tests

    def command(self, fault: Fault) -> tuple[str, ...]:
        if self.profile == "soak" and fault.soak_command:
            return fault.soak_command
        return fault.quick_command if self.is_quick else fault.full_command

    def environment(self, *, lines: Path, cases: Path) -> dict[str, str]:
        given = dict(os.environ)
        if given.pop("PYTHONDONTWRITEBYTECODE", "") and self.prepared:  # hundreds of processes would compile everything
            given["PYTHONPYCACHEPREFIX"] = str(Path(self.prepared).parent / "bytecode")
        return given | {
            "CHAOS_PROFILE": self.profile,
            "CHAOS_SEED": str(self.seed),
            "CHAOS_REPORT": str(lines),
            "CHAOS_CASES": str(cases),
            "CHAOS_HISTORY": self.history,
            "CHAOS_DURABLE": "1",
            "CHAOS_PREPARED": self.prepared,
        }


@dataclass(frozen=True, kw_only=True)
class Case:
    """One test that ran."""

    path: str
    name: str
    seconds: float
    passed: bool

    def belongs_to(self, test: str) -> bool:
        path, _, name = test.partition("::")
        return self.path == path and name in ("", self.name)


@dataclass(frozen=True, kw_only=True)
class Share:
    """Tests of a fault that one process runs: all of them, or one where they may run beside each other."""

    fault: Fault
    tests: tuple[str, ...]
    seconds: int  # they may take
    weight: float  # by which they are dealt out


def run_faults(faults: list[Fault], run: Run) -> list[Result]:
    """Run all of them in their order of precedence; return what each came to, in the order they were given."""
    by_tests, by_command = [each for each in faults if each.tests], [each for each in faults if not each.tests]
    cases: list[Case] = []
    reported: list[Result] = []
    shares = [share for fault in by_tests for share in _divide(fault, run)]
    if not run.is_quick:
        _run_tests([each for each in shares if each.fault.alone], run, cases, reported)
        shares = [each for each in shares if not each.fault.alone]
    with ThreadPoolExecutor(max_workers=run.processes + len(by_command)) as pool:
        commands = [pool.submit(_run_command, each, run) for each in by_command]
        dealt = _share_out(shares, lanes=run.processes)
        tests = [pool.submit(_run_tests, lane, run, cases, reported) for lane in dealt]
        for each in tests:
            each.result()
        results = [each.result() for each in commands]
    results += [_summarise(fault, run.tests(fault), cases, reported) for fault in by_tests]
    order = [each.name for each in faults]
    return sorted(results, key=lambda result: order.index(result["fault"]))


def estimate_seconds(faults: list[Fault], run: Run) -> float:
    """Return how long a profile takes by the seconds that its faults are said to take."""
    shares = [share for fault in faults if fault.tests for share in _divide(fault, run)]
    first = [] if run.is_quick else [share for share in shares if share.fault.alone]
    dealt = _share_out([share for share in shares if share not in first], lanes=run.processes)
    commands = [run.weight(fault) for fault in faults if not fault.tests]
    beside = max([*commands, *(sum(share.weight for share in lane) for lane in dealt)])
    return PREPARING_SECONDS + sum(share.weight for share in first) + beside


@contextmanager
def prepared_database() -> Iterator[str]:
    """Make the tables once; yield the data folder that each process starts from a copy of."""
    with tempfile.TemporaryDirectory(prefix="erl-chaos-") as folder:
        data = str(Path(folder) / "data")
        program = [sys.executable, "-m", "tests.chaos.prepared", data]
        subprocess.run(program, cwd=ROOT, stdout=sys.stderr, check=True)
        yield data


def _divide(fault: Fault, run: Run) -> list[Share]:
    tests, seconds = run.tests(fault), run.limit(fault)
    parts = [(test,) for test in tests] if fault.apart else [tests]
    weight = run.weight(fault) / len(parts)
    return [Share(fault=fault, tests=part, seconds=seconds, weight=weight) for part in parts]


def _share_out(shares: list[Share], *, lanes: int) -> list[list[Share]]:
    """Give each share, the longest first, to the process that has the least to do."""
    dealt: list[list[Share]] = [[] for _ in range(lanes)]
    for share in sorted(shares, key=lambda share: share.weight, reverse=True):
        min(dealt, key=lambda lane: sum(each.weight for each in lane)).append(share)
    return dealt


def _run_tests(shares: list[Share], run: Run, cases: list[Case], reported: list[Result]) -> None:
    """Run all of them in one process, on servers that start once; add what ran and what it reported."""
    if not shares:
        return
    with tempfile.TemporaryDirectory(prefix="erl-chaos-") as folder:
        lines, ended = Path(folder) / "report.jsonl", Path(folder) / "cases.jsonl"
        plugins = ["-p", "tests.chaos.watch", "-p", "no:cacheprovider", "-p", "no:randomly", "--reuse-db"]
        longest = max(share.seconds for share in shares)
        tests = dict.fromkeys(test for share in shares for test in share.tests)
        try:
            subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-n0", "-m", "", *plugins, f"--timeout={longest}", *tests],
                cwd=ROOT,
                env=run.environment(lines=lines, cases=ended),
                stdout=sys.stderr,
                timeout=run.seconds_left(sum(share.seconds for share in shares)),
                check=False,
            )
        except subprocess.TimeoutExpired:
            names = ", ".join(share.fault.name for share in shares)
            print(f"{names} took longer than they may and were stopped.", file=sys.stderr)
        reported += _read_lines(lines)
        cases += _read_cases(ended)


def _run_command(fault: Fault, run: Run) -> Result:
    """Run a fault that no test can cause; its last line is its report."""
    module, *arguments = run.command(fault)
    started = time.monotonic()
    try:
        ended = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env=run.environment(lines=Path(os.devnull), cases=Path(os.devnull)),
            stdout=subprocess.PIPE,
            stderr=sys.stderr,
            text=True,
            timeout=run.seconds_left(run.limit(fault)),
            check=False,
        )
        said, passed = ended.stdout.strip().splitlines(), ended.returncode == 0
    except subprocess.TimeoutExpired:
        said, passed = [], False
    report: Result = json.loads(said[-1]) if said and said[-1].startswith("{") else {}
    seconds = round(time.monotonic() - started, 1)
    return {"fault": fault.name, "what": fault.what, "passed": passed and bool(report), "seconds": seconds} | report


def _read_lines(path: Path) -> list[Result]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _read_cases(path: Path) -> list[Case]:
    """Read what the plugin wrote: each test with its seconds and whether all its phases passed."""
    phases: dict[str, list[Result]] = {}
    for line in _read_lines(path):
        phases.setdefault(line["test"], []).append(line)
    return [
        Case(
            path=test.partition("::")[0],
            name=test.partition("::")[2].partition("[")[0],
            seconds=sum(phase["seconds"] for phase in found),
            passed=len(found) == len(PHASES) and all(phase["passed"] for phase in found),
        )
        for test, found in phases.items()
    ]


def _summarise(fault: Fault, tests: Iterable[str], cases: list[Case], reported: list[Result]) -> Result:
    """Return what a fault came to. Where one of its tests did not run to an end, it did not pass."""
    mine = [case for case in cases if any(case.belongs_to(test) for test in tests)]
    unseen = [test for test in tests if not any(case.belongs_to(test) for case in mine)]
    result = {
        "fault": fault.name,
        "what": fault.what,
        "passed": not unseen and all(case.passed for case in mine),
        "tests": len(mine),
        "failed_tests": [case.name for case in mine if not case.passed] + unseen,
        "seconds": round(sum(case.seconds for case in mine), 1),
    }
    return result | merge(each for each in reported if each["fault"] == fault.name)


def merge(reports: Iterable[Result]) -> Result:
    """Return what the tests of a fault counted, together."""
    merged: Result = {}
    for report in reports:
        for name, value in report.items():
            if name in ("fault", "profile", "seed"):
                continue
            known = merged.get(name)
            if name == "work":
                merged[name] = [*(known or []), value]
            elif isinstance(known, int | float) and isinstance(value, int | float):
                merged[name] = max(known, value) if name.endswith(LARGEST) else known + value
            else:
                merged[name] = value
    return merged


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--profile", choices=list(PROCESSES), default="quick")
    parser.add_argument("--estimate", action="store_true", help="Only say how long it takes, by earlier times.")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--processes", type=int, metavar="N", help="How many work beside each other.")
    parser.add_argument("--only", nargs="+", choices=[fault.name for fault in FAULTS])
    parser.add_argument(
        "--at-most", type=float, default=86_400, metavar="SECONDS", help="Stop then, and say what was seen."
    )
    parser.add_argument("--history", default="", help="Folder for what was attempted and acknowledged.")
    options = parser.parse_args()
    if options.history:
        Path(options.history).mkdir(parents=True, exist_ok=True)
    chosen = [fault for fault in FAULTS if not options.only or fault.name in options.only]
    if options.estimate:
        run = Run(profile=options.profile, seed=0, history="", ends_at=0, processes=PROCESSES[options.profile])
        print(json.dumps({"profile": options.profile, "estimated_minutes": round(estimate_seconds(chosen, run) / 60)}))
        return 0
    started = time.monotonic()
    history = str(Path(options.history).resolve()) if options.history else ""
    ends_at = started + options.at_most
    with prepared_database() as data:
        run = Run(
            profile=options.profile,
            seed=options.seed,
            history=history,
            ends_at=ends_at,
            processes=options.processes or PROCESSES[options.profile],
            prepared=data,
        )
        results = run_faults(chosen, run)
    for result in results:
        print(json.dumps(result))
    failed = [result["fault"] for result in results if not result["passed"]]
    print(
        json.dumps(
            {
                "profile": options.profile,
                "seed": options.seed,
                "faults": len(results),
                "failed": failed,
                "seconds": round(time.monotonic() - started),
                "cpus": os.cpu_count(),
                "load": [round(each, 1) for each in os.getloadavg()],
                "python": platform.python_version(),
            }
        )
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
