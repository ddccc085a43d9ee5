"""The official MCP client against /mcp over real HTTP, in both eras of the protocol."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from memory.effects.models import HeuristicFeedback
from memory.heuristics.models import Heuristic
from memory.index.heuristic_vectors import embed_heuristics
from memory.mcp.protocol import LEGACY_VERSIONS, MODERN_VERSION
from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.factories import bearer, make_api_key, make_heuristic, make_project

TASK = "Cancel reservation EHGLP3."
ALL_TOOLS = ["get_lessons", "record_run", "report_outcome", "propose_lesson", "rate_lesson", "search_runs"]
T = TypeVar("T")

pytestmark = pytest.mark.django_db(transaction=True)
each_era = pytest.mark.parametrize(
    ("mode", "version"), [("auto", MODERN_VERSION), ("legacy", LEGACY_VERSIONS[0])], ids=["modern", "legacy"]
)


@pytest.fixture
def project(transactional_db: None) -> Project:
    return make_project(reflect_on_record=False)


@pytest.fixture
def lesson(project: Project) -> Heuristic:
    lesson = make_heuristic(
        project=project,
        status="approved",
        task_id="airline",
        trigger="When asked to cancel a reservation",
        guideline="Read the fare class first.",
    )
    embed_heuristics([lesson.pk])
    return lesson


def talk(server: Any, token: str, mode: str, say: Callable[[Client], Awaitable[T]]) -> T:
    """Connect the official client to the server, let it talk, and return what came of it."""

    async def connect() -> T:
        async with httpx2.AsyncClient(headers=bearer(token), timeout=60) as http:
            transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
            async with Client(transport, mode=mode) as client:
                return await say(client)

    with ThreadPoolExecutor(max_workers=1) as thread:  # a test of the browser may have left a loop in this one
        return thread.submit(asyncio.run, connect()).result()


@each_era
def test_agent_goes_through_its_day(live_server, project, lesson, mode, version):
    """Lessons, the run, its outcome, a rating, a proposal, a look back: with results that the client accepts."""

    async def work(client: Client) -> list[Any]:
        assert client.protocol_version == version
        assert client.server_info is not None
        assert client.server_info.name == "erl"
        assert "get_lessons" in (client.instructions or "")
        listed = [tool.name for tool in (await client.list_tools()).tools]
        given = await client.call_tool("get_lessons", {"task": TASK, "task_id": "airline"})
        retrieval_id = given.structured_content["retrieval_id"]
        steps = [{"action": "cancel", "observation": "refused", "error": "policy"}]
        run = await client.call_tool(
            "record_run", {"task": TASK, "task_id": "airline", "steps": steps, "retrieval_id": retrieval_id}
        )
        run_id = run.structured_content["trajectory_id"]
        ended = await client.call_tool("report_outcome", {"trajectory_id": run_id, "outcome": "failure"})
        rated = await client.call_tool(
            "rate_lesson",
            {
                "lesson_id": given.structured_content["lessons"][0]["lesson_id"],
                "verdict": "contradicted",
                "trajectory_id": run_id,
            },
        )
        proposed = await client.call_tool(
            "propose_lesson", {"trigger": "A refund is asked for", "guideline": "Look up the fare class."}
        )
        found = await client.call_tool("search_runs", {"task_id": "airline", "limit": 5})
        templates = await client.list_resource_templates()
        resources = await client.list_resources()
        read = await client.read_resource("erl://lessons/airline")
        assert listed == ALL_TOOLS
        assert [one.uri_template for one in templates.resource_templates] == ["erl://lessons/{family}"]
        assert [str(one.uri) for one in resources.resources] == ["erl://lessons/airline"]
        return [given, run, ended, rated, proposed, found, read]

    given, run, ended, rated, proposed, found, read = talk(live_server, make_api_key(project=project).token, mode, work)

    assert not any(one.is_error for one in (given, run, ended, rated, proposed, found))
    assert "Read the fare class first." in given.content[0].text
    assert given.structured_content["lessons"][0]["lesson_id"] == str(lesson.pk)
    stored = Trajectory.objects.get()
    assert (stored.outcome, str(stored.retrieval_id)) == ("failure", given.structured_content["retrieval_id"])
    assert HeuristicFeedback.objects.get(trajectory=stored, heuristic=lesson).verdict == "contradicted"
    assert Heuristic.objects.get(pk=proposed.structured_content["lesson_id"]).status == "proposed"
    assert found.structured_content["runs"][0]["trajectory_id"] == str(stored.pk)
    assert read.contents[0].text.startswith("<lessons>")


@each_era
def test_refused_key_is_told_why(live_server, transactional_db, mode, version):
    async def connect(client: Client) -> None:
        raise AssertionError("A key that is refused cannot connect.")

    refused = pytest.RaisesExc(MCPError, match="This is not an API key of this server")
    with pytest.RaisesGroup(refused, flatten_subgroups=True):
        talk(live_server, "erl_live_nonsense", mode, connect)
