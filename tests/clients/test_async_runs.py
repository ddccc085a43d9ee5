"""The client of an agent that uses asyncio, against the real server and with the real async SDKs."""

import asyncio
import time
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from erl_client import AsyncERL, current_run

from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.clients.broken_erl import BrokenErl, slow
from tests.clients.conftest import run_apart
from tests.factories import make_api_key
from tests.scripted_answers import answer
from tests.scripted_provider import ScriptedProvider

pytestmark = pytest.mark.nightly


def recorded() -> dict[str, Trajectory]:
    return {run.task: run for run in Trajectory.objects.all()}


def said(run: Trajectory) -> list[str]:
    return [step["action"]["arguments"]["content"] for step in run.steps if step["action"]]


def test_concurrent_runs_capture_their_own_calls(project: Project, live_server: Any) -> None:
    async def agents(token: str, provider: ScriptedProvider) -> None:
        async with (
            AsyncERL(live_server.url, token) as erl,
            openai.AsyncOpenAI(base_url=provider.openai_url, api_key="k") as one,
            anthropic.AsyncAnthropic(base_url=provider.anthropic_url, api_key="k") as other,
        ):
            erl.wrap(one)
            erl.wrap(other)

            async def ask_openai() -> None:
                async with erl.run("one") as run:
                    await one.chat.completions.create(model="m", messages=[{"role": "user", "content": "one"}])
                    run.success()

            @erl.learns()
            async def ask_anthropic(task: str) -> None:
                await other.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": task}])
                await other.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "again"}])

            await asyncio.gather(ask_openai(), ask_anthropic("other"))
            assert await erl.flush()

    with ScriptedProvider(otherwise=answer("Done.")) as provider:
        run_apart(agents(make_api_key(project=project).token, provider))

    runs = recorded()
    assert (said(runs["one"]), runs["one"].outcome) == (["Done."], "success")
    assert said(runs["other"]) == ["Done.", "Done."]


def test_slow_erl_does_not_hold_up_other_tasks(tmp_path: Path) -> None:
    async def agent(url: str) -> tuple[float, int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.05)

        ticking = asyncio.create_task(tick())
        erl = AsyncERL(url, "erl_live_x", spool=tmp_path, budget_seconds=0.5)
        began = time.monotonic()
        async with erl.run("one") as run:
            run.success()
        seconds = time.monotonic() - began
        ticking.cancel()
        await erl.close()
        return seconds, ticks

    with BrokenErl(slow) as broken:
        seconds, ticks = run_apart(agent(broken.url))

    assert seconds < 2.0
    assert ticks >= 3
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_cancelled_run_has_no_known_outcome(project: Project, live_server: Any) -> None:
    async def agent(token: str) -> None:
        async with AsyncERL(live_server.url, token) as erl:

            async def work() -> None:
                async with erl.run("one"):
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            while not task.done():
                await asyncio.sleep(1)
                task.cancel()
            assert await erl.flush()

    run_apart(agent(make_api_key(project=project).token))

    assert recorded()["one"].outcome == "unknown"
    assert current_run() is None
