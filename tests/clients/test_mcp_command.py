"""The command `erl mcp` as a process, driven by the official MCP client and by lines of JSON."""

import asyncio
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from erl_client import ERL, mcp
from erl_client.api import Destination
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from memory.index.heuristic_vectors import embed_heuristics
from memory.mcp.protocol import LEGACY_VERSIONS, MODERN_VERSION
from memory.projects.models import Project
from memory.runs.models import Trajectory
from tests.clients.broken_erl import SLOW_SECONDS, BrokenErl, garbage, server_error, slow
from tests.factories import make_heuristic
from tests.stack import free_port
from tests.waiting import wait_until

SOURCE = Path(__file__).resolve().parents[2] / "clients" / "python" / "src"
COMMAND = [sys.executable, "-c", "import sys; from erl_client.cli import main; sys.exit(main())", "mcp"]


def environment(**values: str) -> dict[str, str]:
    names = ("PATH", "HOME", "XDG_CONFIG_HOME", "ERL_URL", "ERL_API_KEY", "PYTHONPYCACHEPREFIX")
    return {name: os.environ[name] for name in names if name in os.environ} | {"PYTHONPATH": str(SOURCE)} | values


def pipe(*lines: str | bytes, arguments: tuple[str, ...] = (), **values: str) -> list[dict[str, Any]]:
    """Write lines to the command and return its answers, which must be all that it prints."""
    content = b"".join((line.encode() if isinstance(line, str) else line) + b"\n" for line in lines)
    done = subprocess.run(
        [*COMMAND, *arguments], input=content, capture_output=True, env=environment(**values), timeout=120
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def request(method: str, id: Any = 1, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params})


def drip(handler: Any) -> None:
    """Send a byte now and then, and never the end."""
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while not handler.owner.stopping.wait(0.1):
            handler.wfile.write(b" ")


@pytest.mark.usefixtures("erl")
@pytest.mark.parametrize(
    ("mode", "version"), [("auto", MODERN_VERSION), ("legacy", LEGACY_VERSIONS[0])], ids=["modern", "legacy"]
)
def test_official_client_works_through_the_command(project: Project, mode: str, version: str) -> None:
    async def work() -> None:
        server = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:], env=environment())
        async with Client(server, mode=mode, read_timeout_seconds=60) as client:
            assert client.protocol_version == version
            assert len((await client.list_tools()).tools) == 6
            run = await client.call_tool("record_run", {"task": "Übersetze “Größe” 🌍", "outcome": "success"})
            assert not run.is_error, run.content
            with pytest.raises(MCPError, match="no approved lessons for the task family 'größe'"):
                await client.read_resource("erl://lessons/größe")

    with ThreadPoolExecutor(max_workers=1) as thread:
        thread.submit(asyncio.run, work()).result()

    assert Trajectory.objects.get().task == "Übersetze “Größe” 🌍"


@pytest.mark.usefixtures("erl")
def test_lines_that_are_no_requests_are_answered_or_passed_over(transactional_db: None) -> None:
    answers = pipe(
        "not JSON",
        b"\xff\xfe",
        "[" * 100_000,
        "",
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        '{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [1]}}',
        '{"jsonrpc": "2.0", "id": 7, "result": {}}',
        "[1]",
        '{"jsonrpc": "2.0", "id": {"a": 1}, "method": "ping"}',
        request("no/such", id=2),
        request("ping", id="last"),
    )

    said = {json.dumps(answer["id"]): answer for answer in answers if answer["id"] is not None}
    nameless = sorted(answer["error"]["code"] for answer in answers if answer["id"] is None)
    assert nameless == [-32700, -32700, -32700, -32600, -32600]
    assert said['"last"']["result"] == {}
    assert said["2"]["error"]["code"] == -32601
    assert len(answers) == 7


def test_answers_with_an_error_while_erl_is_away() -> None:
    called, listed = sorted(
        pipe(
            request("tools/call", id=1, name="get_lessons", arguments={"task": "x"}),
            request("tools/list", id=2),
            ERL_URL="http://127.0.0.1:9",
            ERL_API_KEY="erl_live_x",
        ),
        key=lambda answer: answer["id"],
    )

    assert called["result"]["isError"] is True
    assert "cannot be reached" in called["result"]["content"][0]["text"]
    assert "cannot be reached" in listed["error"]["message"]


def test_client_that_starts_while_erl_is_away_is_told_when_it_comes_back(
    erl: ERL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp, "RETRY_SECONDS", 0.1)
    destination: Any = SimpleNamespace(url=f"http://127.0.0.1:{free_port()}", api_key=erl.destination.api_key)
    answers = io.BytesIO()

    def messages() -> Iterator[bytes]:
        yield request("initialize", id=1, protocolVersion="2025-06-18").encode()
        wait_until(lambda: b'"protocolVersion":"2025-06-18"' in answers.getvalue(), seconds=60)
        yield request("tools/list", id=2).encode()
        wait_until(lambda: b'"tools":[]' in answers.getvalue(), seconds=60)
        destination.url = erl.destination.url
        wait_until(lambda: b"notifications/tools/list_changed" in answers.getvalue(), seconds=60)
        yield request("tools/list", id=3).encode()

    mcp.serve(destination, messages(), answers)

    assert len(json.loads(answers.getvalue().splitlines()[-1])["result"]["tools"]) == 6


@pytest.mark.usefixtures("erl")
def test_server_of_a_family_gives_and_records_nothing_of_others(project: Project) -> None:
    lessons = [
        make_heuristic(
            project=project,
            status="approved",
            task_id=family,
            trigger="When prices are rounded",
            guideline=f"See {of}.",
        )
        for family, of in (("client-a/shop", "client A"), ("ana/shop", "Ana"))
    ]
    embed_heuristics([lesson.pk for lesson in lessons])
    arguments = {"task": "Round prices", "family": "client-a/shop"}
    calls = [
        request("tools/call", id=1, name="get_lessons", arguments=arguments),
        request("tools/call", id=2, name="record_run", arguments={"task": "Round prices"}),
        request("resources/read", id=3, uri="erl://lessons/client-a%2Fshop"),
        request("resources/read", id=4, uri="erl://lessons/ana%2Fshop"),
    ]

    given, _, refused, read = sorted(
        pipe(*calls, arguments=("--family", "ana/shop")), key=lambda answer: int(answer["id"])
    )

    text = given["result"]["content"][0]["text"]
    assert ("See Ana." in text, "See client A." in text) == (True, False)
    assert Trajectory.objects.get().task_id == "ana/shop"
    assert "only" in refused["error"]["message"]
    assert "See Ana." in json.dumps(read["result"])


@pytest.mark.parametrize("fault", [server_error, garbage])
def test_answer_that_is_not_erls_is_an_error(fault: Any) -> None:
    with BrokenErl(fault) as broken:
        (answer,) = pipe(request("tools/list"), ERL_URL=broken.url, ERL_API_KEY="erl_live_x")

    assert "but not as an MCP server" in answer["error"]["message"]


@pytest.mark.parametrize("fault", [slow, drip])
def test_slow_erl_is_an_error_in_time(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp, "BUDGET_SECONDS", 0.5)
    answers = io.BytesIO()

    with BrokenErl(fault) as broken:
        began = time.monotonic()
        mcp.serve(Destination(url=broken.url, api_key="erl_live_x"), [f"{request('ping')}".encode()], answers)

    assert time.monotonic() - began < SLOW_SECONDS
    assert "did not answer" in json.loads(answers.getvalue())["error"]["message"]


def test_cancelled_request_is_not_answered() -> None:
    answers = io.BytesIO()

    with BrokenErl(slow) as broken:

        def messages() -> Iterator[bytes]:
            yield request("tools/list", id="a").encode()
            cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a"}}
            yield json.dumps(cancelled).encode()
            yield request("tools/list", id="b").encode()
            broken.stopping.set()

        mcp.serve(Destination(url=broken.url, api_key="erl_live_x"), messages(), answers)

    assert [json.loads(line)["id"] for line in answers.getvalue().splitlines()] == ["b"]


def test_without_a_key_it_says_so() -> None:
    (answer,) = pipe(request("tools/list"), ERL_API_KEY="")

    assert "run `erl login`" in answer["error"]["message"]


@pytest.mark.usefixtures("transactional_db")
def test_refused_key_is_told_why(erl: ERL) -> None:
    (answer,) = pipe(request("initialize", protocolVersion="2025-06-18"), ERL_API_KEY="erl_live_x")

    assert "not an API key of this server" in answer["error"]["message"]
