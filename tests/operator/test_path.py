"""The product under a path of a host that has other sites, behind nginx and Caddy."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.db import connection
from erl_client import ERL
from playwright.sync_api import Page, expect

from memory.heuristics.models import Heuristic
from memory.projects.models import Project
from memory.runs.models import Trajectory
from runtime.models.runs import Run
from tests.clients.typescript import build_package, call
from tests.e2e.browser import open_browser
from tests.factories import bearer, make_api_key, make_heuristic, make_member, make_project
from tests.operator.proxies import PREFIX, caddy, nginx
from tests.programs import require_program
from tests.reflection.webhooks import TAKEN, make_hook, propose
from tests.runtime.running import make_agent, make_run
from tests.scripted_provider import ScriptedProvider
from tests.servers import HOME
from tests.stack import Stack, database_url
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.browser,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(600),
]
PERMISSIONS = ("review_heuristic", "view_heuristic", "view_review", "view_project")
PASSWORD = "correct horse battery"
RECORDS_A_RUN = """
import { ERL } from "./dist/node.js";

const erl = new ERL({ strict: true });
await erl.run("Cancel it", {}, async (run) => run.success());
await erl.flush();
"""


@pytest.fixture(scope="module")
def behind(broker: str, django_db_setup: None, django_db_blocker: Any) -> Iterator[Stack]:
    """Web server and worker that are told their path."""
    with django_db_blocker.unblock():
        connection.ensure_connection()
        url = database_url(connection.settings_dict | {"USER": "erl"})
    told = {"DATABASE_URL": url, "CELERY_BROKER_URL": settings.CELERY_BROKER_URL, "ERL_SECRET_KEY": settings.SECRET_KEY}
    stack = Stack(home=HOME, environment=told | {"ERL_PATH_PREFIX": f"{PREFIX}/", "ERL_HTTP_HOSTS": "127.0.0.1"})
    try:
        stack.start_web()
        yield stack
    finally:
        stack.kill_all()


@pytest.fixture(scope="module", params=[nginx, caddy])
def site(request: pytest.FixtureRequest, behind: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the product, as people and agents have it."""
    proxy: Callable[[int, Path], AbstractContextManager[str]] = request.param
    with proxy(behind.port, tmp_path_factory.mktemp("proxy")) as address:
        yield address


@pytest.fixture
def client(site: str, project: Project) -> Iterator[httpx.Client]:
    headers = bearer(make_api_key(project=project).token)
    with httpx.Client(base_url=f"{site}/api/v1/", headers=headers, trust_env=False, timeout=30) as client:
        yield client


def test_addresses_in_answers_lead_back_to_the_site(site: str, client: httpx.Client) -> None:
    recorded = client.post("trajectories", json={"task": "Cancel it", "outcome": "failure"})
    origin = site.removesuffix(PREFIX)

    location = recorded.headers["location"]
    assert location.startswith(f"{PREFIX}/api/v1/trajectories/")
    assert client.get(f"{origin}{location}").status_code == 200
    assert client.get(origin + client.get(f"{origin}{location}").json()["links"]["reflections"]).status_code == 200
    assert client.get("nothing").json()["instance"] == f"{PREFIX}/api/v1/nothing"
    schema = client.get(f"{site}/api/schema").json()
    assert client.get(f"{origin}{schema['servers'][0]['url']}/api/v1/trajectories").status_code == 200


def test_events_of_a_run_come_while_it_goes_on(client: httpx.Client, project: Project) -> None:
    run = make_run(make_agent(project=project))

    with client.stream("GET", f"runs/{run.pk}/events", headers={"accept-encoding": "gzip"}) as stream:
        lines = stream.iter_lines()
        first = next(line for line in lines if line.startswith("data:"))
        assert Run.objects.get(pk=run.pk).is_live

    assert "queued" in first or "Where is order 1?" in first


def test_tool_of_mcp_answers(site: str, client: httpx.Client) -> None:
    call = {"name": "get_lessons", "arguments": {"task": "Cancel it"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    # As a browser says it: a client of another site is refused
    headers = {"accept": "application/json, text/event-stream", "origin": site.removesuffix(PREFIX)}

    answer = client.post(f"{site}/mcp", json=message, headers=headers)

    assert "retrieval_id" in answer.text


def test_client_is_given_the_address_with_the_path(site: str, project: Project) -> None:
    with ERL(url=f"{site}/", api_key=make_api_key(project=project).token) as erl, erl.run("Cancel it") as run:
        run.success()
    assert erl.flush()

    assert Trajectory.objects.get(project=project).task == "Cancel it"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_package(tmp_path_factory.mktemp("typescript") / "client")


def test_client_in_typescript_is_given_the_address_with_the_path(
    package: Path, site: str, project: Project, tmp_path: Path
) -> None:
    (package / "records.mjs").write_text(RECORDS_A_RUN)
    told = {"ERL_URL": f"{site}/", "ERL_API_KEY": make_api_key(project=project).token, "ERL_SPOOL": str(tmp_path)}

    call("node", "records.mjs", cwd=package, env=os.environ | told)

    assert Trajectory.objects.get(project=project).task == "Cancel it"


@pytest.fixture
def page(site: str) -> Iterator[Page]:
    """A browser that has never been here; the test fails where a page reports an error."""
    complaints: list[str] = []
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with open_browser(require_program("chromium"), viewport={"width": 1280, "height": 900}) as context:
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        yield page
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
    assert complaints == []


def test_person_signs_in_and_decides_in_a_browser(page: Page, site: str, project: Project) -> None:
    heuristics = [make_heuristic(project=project, trigger=f"lesson {number}") for number in (1, 2)]
    make_member("ana", permissions=PERMISSIONS, password=PASSWORD)

    page.goto(f"{site}/")
    page.fill("[name=username]", "ana")
    page.fill("[name=password]", PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{site}/admin/")
    page.goto(f"{site}/admin/inbox/")
    expect(page.locator("body.has-keys")).to_have_count(1)
    page.keyboard.press("a")
    expect(page.locator("#item .lesson")).to_contain_text("lesson 1")

    wait_until(lambda: Heuristic.objects.filter(pk=heuristics[1].pk, status="approved").exists())
    assert page.url.startswith(f"{site}/admin/inbox/")
    assert {cookie["path"].partition("admin")[0] for cookie in page.context.cookies()} == {f"{PREFIX}/"}
    page.goto(f"{site}/api/docs")
    expect(page.locator(".opblock").first).to_be_visible(timeout=30_000)


def test_links_of_webhooks_lead_to_the_site(behind: Stack) -> None:
    behind.start_worker()
    with ScriptedProvider(otherwise=TAKEN) as receiver:
        hook = make_hook(receiver, project=make_project(), desk_url=f"https://erl.example.com{PREFIX}")
        proposed = propose(hook.project)
        wait_until(lambda: receiver.requests, seconds=60)

    assert f"https://erl.example.com{PREFIX}/admin/memory/heuristic/{proposed.pk}/" in str(hook.verified())


def test_probes_ask_the_server_itself(behind: Stack) -> None:
    paths = ("/health", "/ready", f"{PREFIX}/health")

    assert [httpx.get(behind.base_url + path, trust_env=False).status_code for path in paths] == [200, 200, 200]
