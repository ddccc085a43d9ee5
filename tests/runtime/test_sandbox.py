"""A tool runs where it reaches nothing but its host functions, and can stop at one and go on later."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.sandbox import (
    HostCall,
    HostError,
    SandboxAnswer,
    SandboxError,
    SandboxLimits,
    SandboxStatus,
    Suspend,
    run_tool,
)
from runtime.sandbox.workers import get_pool
from tests.runtime.calling import FROZEN_AT, make_call
from tests.runtime.cpython import RUNTIMES, needs_sandlock

ADD = """
def tool(order_id: str, extra: int = 1) -> int:
    order = get_order(order_id, fields=["total"])
    print("total", order["total"])
    return pay(order["total"] + extra)
"""


BOTH = pytest.mark.parametrize("runtime", RUNTIMES)


def get_order(order_id: str, *, fields: list[str]) -> dict[str, Any]:
    return {"id": order_id, fields[0]: 150}


def wait(*args: Any, **kwargs: Any) -> None:
    raise Suspend


def never(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("the host was asked again")


@BOTH
def test_tool_calls_its_host_functions_and_returns(runtime: str) -> None:
    outcome = run_tool(
        make_call(ADD, runtime=runtime, order_id="A1"), {"get_order": get_order, "pay": lambda total: {"paid": total}}
    )

    assert (outcome.status, outcome.value, outcome.output) == (SandboxStatus.RETURNED, {"paid": 151}, "total 150\n")
    assert [(answer.call.name, answer.value) for answer in outcome.journal] == [
        ("get_order", {"id": "A1", "total": 150}),
        ("pay", {"paid": 151}),
    ]


@BOTH
def test_name_that_is_no_host_function_is_unknown(runtime: str) -> None:
    outcome = run_tool(make_call("def tool():\n    return delete_all(1)", runtime=runtime), {"get_order": get_order})

    assert outcome.fault is not None
    assert (outcome.status, outcome.fault.kind, outcome.fault.line) == (SandboxStatus.RAISED, "NameError", 2)


@BOTH
def test_tool_catches_the_error_of_a_host_function(runtime: str) -> None:
    def refuse() -> None:
        raise HostError("the shop is closed")

    source = "def tool():\n    try:\n        pay()\n    except RuntimeError as error:\n        return str(error)"
    assert run_tool(make_call(source, runtime=runtime), {"pay": refuse}).value == "the shop is closed"


@BOTH
def test_other_error_of_the_host_ends_the_call(runtime: str) -> None:
    def lose_the_database() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        run_tool(
            make_call("def tool():\n    try:\n        pay()\n    except Exception:\n        pass", runtime=runtime),
            {"pay": lose_the_database},
        )


@BOTH
def test_stopped_tool_comes_to_the_same_place_with_the_journal_and_asks_the_host_nothing(runtime: str) -> None:
    call = make_call(ADD, runtime=runtime, order_id="A1")
    waiting = run_tool(call, {"get_order": get_order, "pay": wait})
    assert (waiting.status, waiting.pending) == (SandboxStatus.SUSPENDED, HostCall(name="pay", args=[151]))
    answers = [*waiting.journal, SandboxAnswer(call=HostCall(name="pay", args=[151]), value="paid")]

    assert run_tool(call, {"get_order": never, "pay": never}, journal=answers).value == "paid"


@BOTH
def test_replay_that_differs_is_refused(runtime: str) -> None:
    answers = [
        SandboxAnswer(call=HostCall(name="get_order", args=["B2"], kwargs={"fields": ["total"]}), value={"total": 1})
    ]

    with pytest.raises(SandboxError, match="cannot be replayed"):
        run_tool(make_call(ADD, runtime=runtime, order_id="A1"), {"get_order": never, "pay": never}, journal=answers)


@BOTH
def test_clock_stands_still_and_random_numbers_follow_from_the_seed(runtime: str) -> None:
    source = """
    import random, datetime, time
    def tool():
        time.sleep(100)
        return [datetime.datetime.now().isoformat(), time.time(), random.random(), random.Random().random()]
    """
    call = make_call(source, runtime=runtime)
    first, second = run_tool(call, {}), run_tool(call, {})

    assert first.value == second.value
    assert first.value[:2] == [FROZEN_AT.replace(tzinfo=None).isoformat(), FROZEN_AT.timestamp()]


@BOTH
def test_tool_that_asks_too_often_is_refused(runtime: str) -> None:
    source = "def tool():\n    for i in range(9):\n        get_order(i)"
    call = make_call(source, limits=SandboxLimits(host_calls=3), runtime=runtime)
    outcome = run_tool(call, {"get_order": lambda i: i})

    assert len(outcome.journal) == 4
    assert "more than 3 calls" in str(outcome.fault)


@BOTH
def test_output_is_cut_at_its_limit(runtime: str) -> None:
    source = "def tool():\n    for i in range(99):\n        print('x' * 99)"
    call = make_call(source, limits=SandboxLimits(output_chars=1000), runtime=runtime)
    outcome = run_tool(call, {})

    assert (outcome.status, len(outcome.output), outcome.output_is_cut) == (SandboxStatus.RETURNED, 1000, True)


@needs_sandlock
def test_hash_and_random_bytes_of_cpython_follow_from_the_seed() -> None:
    call = make_call("import os\ndef tool():\n    return [hash('a'), os.urandom(4).hex()]", runtime="python")

    assert run_tool(call, {}).value == run_tool(call, {}).value != run_tool(replace(call, seed="other"), {}).value


@needs_sandlock
def test_tool_in_cpython_has_the_standard_library_and_no_packages() -> None:
    source = "import csv, sqlite3, statistics\ndef tool():\n    import django"
    outcome = run_tool(make_call(source, runtime="python"), {})

    assert str(outcome.fault) == "ModuleNotFoundError: No module named 'django' (line 3)"


@needs_sandlock
@pytest.mark.parametrize(
    "line", ['{"call": [], "args": [], "kwargs": {}}', '{"call": "os", "args": [], "kwargs": {}}', "[]"]
)
def test_forged_line_ends_the_call(line: str) -> None:
    source = f"""
    import os
    def tool():
        for each in range(3, 9):
            try:
                os.write(each, {line.encode()!r} + bytes([10]))
            except OSError:
                pass
        input()
    """
    outcome = run_tool(make_call(source, runtime="python"), {})

    assert outcome.status in (SandboxStatus.STOPPED, SandboxStatus.RAISED)


def test_tool_of_the_runtime_python_is_refused_without_sandlock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sandlock", None)  # as where it is not installed

    with pytest.raises(SandboxError, match="need sandlock: run uv sync --group sandlock"):
        run_tool(make_call("def tool(): return 1", runtime="python"), {})


@pytest.mark.parametrize("returned", ["x", "get_order(x)"])
def test_value_that_is_huge_written_out_is_refused(returned: str) -> None:
    """Shared lists: 10^12 numbers in a few kilobytes."""
    grow = f"def tool():\n    x = [1] * 1000\n    for i in range(3):\n        x = [x] * 1000\n    return {returned}"
    outcome = run_tool(make_call(grow), {"get_order": never})

    assert "larger than 50,000 characters" in str(outcome.fault)


FORK = """
import os, sys
from django.conf import settings
settings.configure(SECRET_KEY="x" * 50, SECRET_KEY_FALLBACKS=[])
from runtime.sandbox import SandboxError, run_tool
from tests.runtime.calling import make_call
call = make_call("def tool(): return 1")
assert run_tool(call, {}).value == 1
child = os.fork()
if child == 0:
    try:
        run_tool(call, {})
    except SandboxError:
        sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), run_tool(call, {}).value)
"""


def test_forked_process_neither_uses_nor_ends_the_workers_of_its_parent() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, check=True, timeout=60)

    assert done.stdout.split() == [b"7", b"1"]


def test_worker_has_no_environment() -> None:
    with get_pool().checkout() as session:
        session.feed_run("1")
        environment = Path(f"/proc/{session.worker_pid}/environ").read_bytes()
    names = {entry.partition(b"=")[0] for entry in environment.split(b"\0")}
    assert not names & set(map(os.fsencode, os.environ))
