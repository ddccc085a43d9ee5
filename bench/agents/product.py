"""ERL as a client of its HTTP API sees it: agents, tools, runs; and the processes that a benchmark starts."""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from django.conf import settings
from django.db import connection
from django.test import Client

from bench.agents.loopback import Loopback
from erl_site.embedded import postgres, roles, valkey
from memory.projects.api_keys import create_api_key
from memory.projects.models import ApiKey, Project
from runtime.loop.execution import run_agent
from tests.stack import Stack, database_url

Scope = ApiKey.Scope
SCOPES = [Scope.AGENTS, Scope.RUN, Scope.APPROVE, Scope.REVIEW]
SECONDS = 300.0


class Way(Protocol):
    """How a request reaches ERL, and how its runs go on."""

    def send(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> tuple[int, Any]: ...

    def go_on(self) -> None:
        """Called while a run is waited for."""


class OverHttp:
    """By HTTP to a web process; a worker goes on with the runs."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url

    def send(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._base_url}/api/v1{path}", data, dict(headers), method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(errors="replace")

    def go_on(self) -> None: ...


class InProcess:
    """In this process: Django's client, and the loop called where a run is waited for."""

    def send(self, method: str, path: str, body: Any, headers: Mapping[str, str]) -> tuple[int, Any]:
        data = "" if body is None else json.dumps(body)
        # Waiting in the request would block the only thread, which has to go on with the run.
        sent = {name: value for name, value in headers.items() if name != "Prefer"}
        answer = Client().generic(method, f"/api/v1{path}", data, content_type="application/json", headers=sent)
        return answer.status_code, answer.json()

    def go_on(self) -> None:
        run_agent(owner="bench")


@dataclass(frozen=True, kw_only=True, slots=True)
class Product:
    """One project of ERL, used through the API with one key."""

    way: Way
    key: str

    @classmethod
    def make(cls, way: Way, name: str) -> "Product":
        project = Project.objects.create(slug=name, name=name)
        return cls(way=way, key=create_api_key(project, client="bench", scopes=SCOPES).token)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the answer; one without success ends the benchmark."""
        status, answer = self.way.send(
            method,
            path,
            body,
            {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **headers},
        )
        if not 200 <= status < 300:
            raise SystemExit(f"{method} {path} answered {status}: {str(answer)[:1000]}")
        return answer

    def store_tool(self, definition: Mapping[str, Any]) -> None:
        """Store a tool and put it in force."""
        stored = self.ask("POST", "/tools", definition)
        self.ask("POST", f"/tools/{stored['id']}/approve", {"sha256": stored["latest"]["sha256"]})

    def say(self, agent: str, text: str, *, conversation: str | None = None) -> dict[str, Any]:
        """Tell an agent something; return the run once it ended or waits for a person."""
        body = {"input": text} | ({"conversation": conversation} if conversation else {})
        return self.wait(self.ask("POST", f"/agents/{agent}/runs", body, Prefer="wait=25"))

    def wait(self, run: dict[str, Any]) -> dict[str, Any]:
        ends_at = time.monotonic() + SECONDS
        while run["status"] in ("queued", "running"):
            if time.monotonic() > ends_at:
                raise SystemExit(f"Run {run['id']} is {run['status']} after {SECONDS:g} s.")
            self.way.go_on()
            run = self.ask("GET", f"/runs/{run['id']}")
            time.sleep(0.0 if isinstance(self.way, InProcess) else 0.02)
        return run

    def list_all(self, path: str) -> list[dict[str, Any]]:
        """Return everything that a list has."""
        rows: list[dict[str, Any]] = []
        while True:
            page = self.ask("GET", f"{path}?limit=100&offset={len(rows)}")
            rows += page["results"]
            if not page["results"] or len(rows) >= page["pagination"]["total"]:
                return rows


def http_tool(name: str, url: str, *, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definition of a tool that posts its arguments. Nothing is promised of it: it is `unsafe`."""
    request = {"method": "POST", "url": url, "max_bytes": 1_000_000, "seconds": 30}
    return {
        "name": name,
        "description": description,
        "parameters": dict(parameters),
        "runtime": "http",
        "kind": "unsafe",
        "request": request,
    }


def product_environment(loopback: Loopback) -> dict[str, str]:
    """Return the settings under which ERL asks the loopback server for everything."""
    return {
        "ERL_LLM_PROVIDER": "openai-compatible",
        "ERL_LLM_BASE_URL": f"{loopback.url}/v1",
        "ERL_LLM_MODEL": "bench",
        "ERL_HTTP_HOSTS": "127.0.0.1",
        "ERL_REFLECTOR": "rules",
    }


@contextmanager
def started(loopback: Loopback, *, worker: bool = True) -> Iterator[Stack]:
    """Start the web server and, unless the benchmark does it later, a worker on the benchmark's database."""
    from tests.servers import HOME

    postgres.ensure(HOME / "postgres")
    broker = valkey.ensure(HOME / "valkey", durable=False)
    with connection.cursor() as cursor:
        cursor.execute("SELECT memory_grant_application(%s)", [roles.APPLICATION])
    stack = Stack(
        home=HOME,
        environment={
            "DATABASE_URL": database_url(connection.settings_dict | {"USER": roles.APPLICATION}),
            "CELERY_BROKER_URL": broker or settings.CELERY_BROKER_URL,
            **product_environment(loopback),
        },
    )
    try:
        stack.start_web()
        if worker:
            stack.start_worker()
        yield stack
    finally:
        stack.kill_all()
        valkey.discard(HOME / "valkey")


def describe_load() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def tell(rows: Sequence[str]) -> None:
    for row in rows:
        print(row, flush=True)
