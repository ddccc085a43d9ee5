"""Runs inside runs: the caller is recorded first, and is their parent."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from erl_client import ERL, AsyncERL

from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.clients.conftest import run_apart
from tests.factories import make_api_key, make_project


def parents() -> dict[str, str | None]:
    return {run.task: run.parent.task if run.parent else None for run in Trajectory.objects.select_related("parent")}


def test_run_in_the_block_of_another_is_its_child(erl: ERL) -> None:
    with erl.run("outer"), erl.run("inner"), erl.run("innermost"):
        pass

    assert erl.flush(30)
    assert parents() == {"outer": None, "inner": "outer", "innermost": "inner"}


def test_run_is_independent_if_it_is_told_so(erl: ERL) -> None:
    with erl.run("outer"), erl.run("inner", parent_id=None):
        pass

    assert erl.flush(30)
    assert parents() == {"outer": None, "inner": None}


def test_run_in_another_thread_can_name_its_caller(erl: ERL) -> None:
    def work(caller: str) -> None:
        with erl.run("inner", parent_id=caller):
            pass

    with erl.run("outer") as run, ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(work, run.external_id).result()

    assert erl.flush(30)
    assert parents() == {"outer": None, "inner": "outer"}


def test_run_that_outlives_its_caller_is_recorded(erl: ERL) -> None:
    with erl.run("outer"):
        inner = erl.begin("inner")
    erl.end(inner)

    assert erl.flush(30)
    assert parents() == {"outer": None, "inner": "outer"}


def test_inner_run_is_recorded_although_its_caller_raised(erl: ERL) -> None:
    try:
        with erl.run("outer"):
            with erl.run("inner"):
                pass
            raise LookupError
    except LookupError:
        pass

    assert erl.flush(30)
    assert parents() == {"outer": None, "inner": "outer"}


def test_run_for_another_project_has_no_parent_there(erl: ERL) -> None:
    other = make_api_key(project=make_project(reflect_on_record=False)).token
    with ERL(api_key=other) as elsewhere:
        with erl.run("outer"), elsewhere.run("inner"):
            pass
        assert elsewhere.flush(30)

    assert erl.flush(30)
    assert parents() == {"outer": None, "inner": None}


def test_tasks_of_one_run_are_its_children(erl: ERL, project: Project) -> None:
    async def work() -> None:
        async with AsyncERL() as client:

            async def inner(number: int) -> None:
                async with client.run(f"inner {number}"):
                    await asyncio.sleep(0)

            async with client.run("outer"):
                await asyncio.gather(inner(1), inner(2))
            assert await client.flush(30)

    run_apart(work())

    assert parents() == {"outer": None, "inner 1": "outer", "inner 2": "outer"}


def test_run_that_was_never_ended_is_recorded_when_the_client_closes(erl: ERL) -> None:
    erl.begin("forgotten")
    erl.close()

    assert Trajectory.objects.get().outcome == "unknown"
