"""Logs are JSON lines with one request id from the request to the last retry, and no content of runs."""

import io
import json
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import structlog
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.test import Client
from rest_framework.test import APIClient

from erl_site.monitoring.logs import MAX_CHARACTERS
from reflection.llm.base import ProviderError
from reflection.reflectors.models import Reflection
from reflection.reflectors.reflections import run_reflection
from tests.factories import STEPS, bearer, make_api_key, make_trajectory
from tests.reflection.scripted import ScriptedModel, ScriptedReflector, fail_with, make_lesson, propose
from tests.stack import Stack

pytestmark = pytest.mark.nightly

log = structlog.get_logger("tests.logging")

SECRET = "ghp_" + "a1B2c3D4e5" * 3 + "F6g7H8"
WORDS = "the quick brown reservation jumps over the lazy fare class"
RUN = {"task": f"Cancel it: {WORDS}", "outcome": "failure", "steps": STEPS, "summary": WORDS}


def parse(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def json_lines(output: str) -> list[dict[str, Any]]:
    """Return the events in the output of a process, without its banner."""
    return [json.loads(line) for line in output.splitlines() if line.startswith('{"')]


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    """What the configured handler writes, formatted as settings.LOGGING says."""
    root, stream = logging.getLogger(), io.StringIO()
    formatter = next(h.formatter for h in root.handlers if isinstance(h.formatter, structlog.stdlib.ProcessorFormatter))
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root.addHandler(handler)
    structlog.contextvars.clear_contextvars()
    yield stream
    structlog.contextvars.clear_contextvars()
    root.removeHandler(handler)


# ── One id from the request to the last retry ─────────────────────────────────────────────────────────────────────
@pytest.mark.django_db
def test_request_id_is_in_the_lines_of_the_request_and_of_every_attempt(output: io.StringIO) -> None:
    client = APIClient(headers=bearer(make_api_key().token))
    posted = client.post("/api/v1/trajectories", RUN, format="json", headers={"X-Request-ID": "trace-me"})
    reflection = Reflection.objects.get()
    structlog.contextvars.clear_contextvars()  # the worker is another process

    overloaded = ProviderError("overloaded", transient=True)
    run_reflection(
        reflection.pk,
        owner="one",
        make_reflector=ScriptedReflector(plan=fail_with(overloaded)),
        ask_model=ScriptedModel(),
    )
    Reflection.objects.update(available_at=Now())
    run_reflection(
        reflection.pk,
        owner="two",
        make_reflector=ScriptedReflector(plan=propose(make_lesson())),
        ask_model=ScriptedModel(),
    )

    assert posted.status_code == 201
    assert reflection.request_id == "trace-me"
    events = [line["event"] for line in parse(output.getvalue()) if line.get("request_id") == "trace-me"]
    story = {"request_finished", "reflection_started", "reflection_retried_later", "reflection_finished"}
    assert [event for event in events if event in story] == [
        "request_finished",
        "reflection_started",
        "reflection_retried_later",
        "reflection_finished",  # of the first attempt, which says "retry"
        "reflection_started",
        "reflection_finished",
    ]


@pytest.mark.slow
def test_request_id_goes_from_the_web_server_to_the_worker(stack: Stack) -> None:
    posted = httpx.post(
        f"{stack.base_url}/api/v1/trajectories",
        json=RUN,
        headers={**bearer(make_api_key().token), "X-Request-ID": "across-processes"},
        timeout=30,
    )

    def events(process: str) -> list[str]:
        lines = json_lines(stack.log(process))
        return [line["event"] for line in lines if line.get("request_id") == "across-processes"]

    end = time.monotonic() + 60
    while "reflection_finished" not in events("worker") and time.monotonic() < end:
        time.sleep(0.2)

    assert posted.status_code == 201
    assert posted.headers["X-Request-ID"] == "across-processes"
    assert "request_finished" in events("web")
    assert {"reflection_started", "reflection_finished"} <= set(events("worker"))


@pytest.mark.slow
def test_processes_write_json_and_nothing_of_the_run(stack: Stack) -> None:
    token = make_api_key().token
    before = {name: len(stack.log(name)) for name in ("web", "worker")}
    httpx.post(f"{stack.base_url}/api/v1/trajectories", json=RUN, headers=bearer(token), timeout=30)
    httpx.get(f"{stack.base_url}/api/v1/trajectories?task={WORDS}", headers=bearer(token), timeout=30)
    httpx.get(f"{stack.base_url}/no/such/page", timeout=30)

    web, worker = (stack.log(name)[start:] for name, start in before.items())

    assert [line for line in web.splitlines() if not line.startswith('{"')] == []
    assert len(json_lines(web)) >= 3
    assert WORDS not in web + worker
    assert token not in web + worker


# ── The shape of a line ───────────────────────────────────────────────────────────────────────────────────────────
def test_event_is_one_json_object_with_time_level_and_logger(output: io.StringIO) -> None:
    log.info("something_happened", count=3)

    (line,) = parse(output.getvalue())
    assert {
        "event": "something_happened",
        "count": 3,
        "level": "info",
        "logger": "tests.logging",
    }.items() <= line.items()
    assert line["time"].endswith("Z")


@pytest.mark.parametrize(
    "text",
    ["a\nb", 'a\r\n{"event": "forged"}', "a\u2028b\u2029c", "\x1b[31mred", "\x00", "\ud800", "x" * 100_000],
)
def test_value_cannot_start_a_new_line(output: io.StringIO, text: str) -> None:
    log.info("something_happened", text=text)

    assert len(output.getvalue().splitlines()) == 1
    assert parse(output.getvalue())[0]["event"] == "something_happened"


def test_message_of_a_library_has_the_same_shape(output: io.StringIO) -> None:
    logging.getLogger("some.library").warning("refused\n%s", "me")

    (line,) = parse(output.getvalue())
    assert (line["event"], line["logger"], line["level"]) == ("refused\nme", "some.library", "warning")


def test_warning_has_the_same_shape() -> None:
    program = "import django, warnings; django.setup(); warnings.warn('old\\nthing')"

    ended = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "erl_site.settings"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    (line,) = parse(ended.stderr)
    assert (line["logger"], line["level"]) == ("py.warnings", "warning")


def test_value_that_is_no_json_is_written_as_text(output: io.StringIO) -> None:
    log.info("something_happened", kind=ValueError("wrong"))

    assert parse(output.getvalue())[0]["kind"] == "wrong"


# ── What may not be in it ─────────────────────────────────────────────────────────────────────────────────────────
def test_secrets_are_redacted_in_events_and_library_messages(output: io.StringIO) -> None:
    log.info("something_happened", url=f"https://ana:hunter2@host/?q={SECRET}", password="hunter2")
    logging.getLogger("some.library").warning("Authorization: Bearer %s of ana@example.com", SECRET)

    written = output.getvalue()
    assert len(parse(written)) == 2
    assert [secret for secret in (SECRET, "hunter2", "ana@example.com") if secret in written] == []


@pytest.mark.parametrize("value", ["a" * 9_000, ["a" * 9_000], {"key": "a" * 9_000}, ValueError("a" * 9_000)])
def test_long_string_is_cut_and_says_so(output: io.StringIO, value: Any) -> None:
    log.info("something_happened", value=value)

    assert MAX_CHARACTERS < len(output.getvalue()) < MAX_CHARACTERS + 500
    assert "… (9,000 characters)" in str(parse(output.getvalue())[0]["value"])


def test_cut_shows_no_half_of_a_secret(output: io.StringIO) -> None:
    log.info("something_happened", text="a " * (MAX_CHARACTERS // 2 - 10) + SECRET)

    assert SECRET[:10] not in output.getvalue()


@pytest.mark.timeout(30)  # redacting the whole path took a minute for each 30,000 characters
def test_long_path_of_a_refused_request_costs_little(output: io.StringIO) -> None:
    answer = Client(enforce_csrf_checks=True).post("/admin/" + "+12345678" * 20_000)

    assert answer.status_code == 403
    assert "Forbidden (CSRF cookie not set.)" in output.getvalue()
    assert "+12345678" not in output.getvalue()


@pytest.mark.timeout(30)
def test_long_host_of_a_refused_request_costs_little(output: io.StringIO) -> None:
    answer = Client().get("/health", headers={"Host": "+12345678" * 20_000})

    assert answer.status_code == 400
    assert "Invalid HTTP_HOST header" in output.getvalue()
    assert "+12345678" not in output.getvalue()


def test_traceback_shows_places_but_no_variables(output: io.StringIO) -> None:
    def fail(prompt: str) -> None:
        raise ValueError(f"cannot read {SECRET}")

    try:
        fail(WORDS)
    except ValueError:
        log.exception("something_failed")

    written = output.getvalue()
    (line,) = parse(written)
    assert line["exception"][0]["exc_type"] == "ValueError"
    assert line["exception"][0]["frames"][-1]["name"] == "fail"
    assert SECRET not in written
    assert WORDS not in written


@pytest.mark.django_db
def test_row_that_the_database_refuses_is_not_logged(output: io.StringIO) -> None:
    with transaction.atomic():
        try:
            make_trajectory(task="Cancel the reservation of canary0006zq", outcome="perhaps")
        except IntegrityError:
            transaction.set_rollback(True)
            structlog.get_logger("test").exception("it_failed")

    logged = output.getvalue()
    assert "memory_trajectory_outcome_known" in logged
    assert "canary0006zq" not in logged
