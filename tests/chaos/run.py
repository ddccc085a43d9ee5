"""Break things and count: `python -m tests.chaos.run --profile quick|full --seed N [--only F1 F16] [--history DIR]`.

Prints one JSON line for each fault with what its test counted, and one with what the run came to; pytest's own words go
to standard error. Exits 1 where a fault test failed, took longer than its limit, or did not run to its end.
"""

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault, the tests that cause it and the seconds they may take in each profile."""

    name: str
    what: str
    tests: tuple[str, ...]
    quick_seconds: int = 180
    full_seconds: int = 900


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


FAULTS = (
    Fault(
        name="F1", what="web workers killed in the middle of a POST", tests=("tests/chaos/test_idempotency_kills.py",)
    ),
    Fault(name="F2", what="a crash at every SQL statement", tests=("tests/chaos/test_idempotency_statements.py",)),
    Fault(name="F3", what="identical requests at once", tests=("tests/chaos/test_idempotency_races.py",)),
    Fault(name="F4", what="answers lost after the commit", tests=("tests/chaos/test_lost_answers.py",)),
    Fault(
        name="F5",
        what="workers and their children killed",
        tests=("tests/chaos/test_worker_kills.py::test_killed_workers_lose_and_repeat_nothing",),
    ),
    Fault(
        name="F6",
        what="workers frozen past their lease",
        tests=("tests/chaos/test_worker_kills.py::test_worker_that_hung_past_its_lease_is_fenced",),
    ),
    Fault(
        name="F7",
        what="the broker stopped, frozen, flushed",
        tests=("tests/chaos/test_broker_loss.py",),
        quick_seconds=300,
    ),
    Fault(
        name="F8",
        what="PostgreSQL restarted, its clients ended and killed, frozen, without a connection left",
        tests=("tests/chaos/test_database_faults.py::test_acknowledged_rows_outlive_what_happens_to_the_database",),
        quick_seconds=300,
        full_seconds=1800,
    ),
    Fault(
        name="F11",
        what="a reflection that kills its worker",
        tests=(
            (
                "tests/chaos/test_worker_kills.py"
                "::test_reflection_that_kills_its_worker_is_dead_after_five_claims_and_others_finish"
            ),
        ),
    ),
    Fault(
        name="F12",
        what="web servers and workers replaced under load",
        tests=("tests/chaos/test_rolling_restarts.py",),
        quick_seconds=300,
    ),
    Fault(name="F14", what="fuzzed requests", tests=("tests/security/test_fuzz.py",), full_seconds=3600),
    Fault(
        name="F15",
        what="every operation with foreign keys and ids",
        tests=("tests/api/test_tenancy.py",),
        quick_seconds=300,
    ),
    Fault(name="F16", what="poisoned runs", tests=("tests/security/test_poisoning.py",), full_seconds=1800),
    Fault(name="F17", what="the kill switch under load", tests=("tests/chaos/test_quarantine_under_load.py",)),
    Fault(
        name="F18",
        what="planted secrets",
        tests=("tests/memory/test_redaction.py", "tests/memory/test_redaction_storage.py"),
    ),
    Fault(
        name="F19",
        what="addresses that must not be reached",
        tests=(
            "tests/reflection/providers/test_closed_addresses.py",
            "tests/reflection/providers/test_opened_addresses.py",
            "tests/reflection/providers/test_tls.py",
        ),
    ),
    Fault(
        name="F21",
        what="erased canaries, restored backups",
        tests=("tests/security/test_erasure.py", "tests/security/test_backup_drill.py"),
    ),
    Fault(name="F23", what="any order of steps", tests=("tests/security/test_state_machine.py",), full_seconds=3600),
    Fault(
        name="F25",
        what="broken variants that must be noticed",
        tests=(
            "tests/chaos/test_history.py",
            "tests/chaos/test_idempotency_kills.py::test_check_notices_duplicates_of_a_key_recorded_in_a_second_transaction",
            "tests/chaos/test_idempotency_races.py::test_check_notices_a_key_recorded_in_a_second_transaction",
            "tests/chaos/test_idempotency_statements.py::test_check_notices_a_key_recorded_in_a_second_transaction",
            "tests/reflection/test_services_claims.py::test_the_same_worker_would_write_twice_without_the_fence",
            "tests/memory/test_redaction_storage.py::test_a_secret_that_was_stored_would_be_found",
            "tests/security/test_invariants.py::test_rule_notices_what_breaks_it",
            "tests/security/test_audit.py::test_tampering_with_the_triggers_off_is_found",
            "tests/security/test_backup_drill.py::test_copy_that_differs_is_found",
            "tests/security/test_servable_role.py::test_statement_without_a_filter_finds_nothing_unapproved",
            "tests/security/test_servable_role.py::test_search_that_reads_a_table_is_refused_as_the_role",
            "tests/security/test_negative_controls.py",
            (
                "tests/chaos/test_database_faults.py"
                "::test_check_notices_rows_of_a_database_that_does_not_wait_for_the_disk"
            ),
        ),
        quick_seconds=300,
    ),
)


def run_faults(faults: list[Fault], *, profile: str, seed: int, history: str) -> list[dict[str, Any]]:
    """Run the tests of all of them in one process, on servers that start once; return what each came to."""
    limits = {fault.name: fault.full_seconds if profile == "full" else fault.quick_seconds for fault in faults}
    with tempfile.TemporaryDirectory(prefix="erl-chaos-") as folder:
        lines, junit = Path(folder) / "report.jsonl", Path(folder) / "junit.xml"
        environment = os.environ | {
            "CHAOS_PROFILE": profile,
            "CHAOS_SEED": str(seed),
            "CHAOS_REPORT": str(lines),
            "CHAOS_HISTORY": history,
        }
        command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "-p", "no:randomly"]
        tests = dict.fromkeys(test for fault in faults for test in fault.tests)
        limit = sum(limits.values())
        try:
            subprocess.run(
                [*command, f"--timeout={max(limits.values())}", f"--junitxml={junit}", *tests],
                cwd=ROOT,
                env=environment,
                stdout=sys.stderr,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            print(f"The faults took longer than {limit} seconds together and were stopped.", file=sys.stderr)
        reported = [json.loads(line) for line in lines.read_text().splitlines()] if lines.exists() else []
        cases = _read_cases(junit) if junit.exists() else []
    return [_summarise(fault, cases, reported) for fault in faults]


def _read_cases(junit: Path) -> list[Case]:
    """Read pytest's own report: each test with its seconds and whether it passed."""
    tree = ElementTree.parse(junit)  # noqa: S314 - we wrote it
    return [
        Case(
            path=case.get("classname", "").replace(".", "/") + ".py",
            name=case.get("name", "").partition("[")[0],
            seconds=float(case.get("time", 0)),
            passed=case.find("failure") is None and case.find("error") is None,
        )
        for case in tree.iter("testcase")
    ]


def _summarise(fault: Fault, cases: list[Case], reported: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what a fault came to. Where none of its tests ran to an end, it did not pass."""
    mine = [case for case in cases if any(case.belongs_to(test) for test in fault.tests)]
    result = {
        "fault": fault.name,
        "what": fault.what,
        "passed": bool(mine) and all(case.passed for case in mine),
        "tests": len(mine),
        "failed_tests": [case.name for case in mine if not case.passed],
        "seconds": round(sum(case.seconds for case in mine), 1),
    }
    for each in reported:
        if each["fault"] == fault.name:
            result |= {name: value for name, value in each.items() if name not in ("fault", "profile", "seed")}
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--profile", choices=["quick", "full"], default="quick")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    parser.add_argument("--only", nargs="+", choices=[fault.name for fault in FAULTS])
    parser.add_argument("--history", default="", help="Folder for what was attempted and acknowledged.")
    options = parser.parse_args()
    if options.history:
        Path(options.history).mkdir(parents=True, exist_ok=True)
    chosen = [fault for fault in FAULTS if not options.only or fault.name in options.only]
    results = run_faults(chosen, profile=options.profile, seed=options.seed, history=options.history)
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
                "seconds": round(sum(result["seconds"] for result in results)),
                "cpus": os.cpu_count(),
                "load": [round(each, 1) for each in os.getloadavg()],
                "python": platform.python_version(),
            }
        )
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
