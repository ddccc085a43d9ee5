"""`manage.py run_jobs`: the queue without a broker and without a worker."""

import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.utils import timezone

from reflection.jobs.execution import Outcome
from reflection.reflectors.models import Reflection
from tests.factories import make_project, make_reflection, make_trajectory
from tests.scripted_answers import silence
from tests.scripted_provider import ScriptedProvider
from tests.stack import database_url
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).resolve().parents[2]
Status = Reflection.Status


@pytest.fixture(autouse=True)
def _rules(settings: Any) -> None:
    settings.ERL_REFLECTOR = "rules"


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("run_jobs", *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def make_reflections(count: int) -> None:
    project = make_project()
    for _ in range(count):
        make_reflection(trajectory=make_trajectory(project=project))


def test_run_works_until_nothing_is_due() -> None:
    make_reflections(3)
    later = make_reflection(available_at=timezone.now() + timedelta(hours=1))

    said = run()

    assert Reflection.objects.filter(status=Status.DONE).count() == 3
    assert list(Reflection.objects.live()) == [later]
    assert said == "3 done; 1 left in the queue.\n"


def test_run_of_an_empty_queue_says_so() -> None:
    assert run() == "0 done; 0 left in the queue.\n"


def test_run_of_one_kind_leaves_the_others() -> None:
    make_reflections(1)

    assert run("--kind", "webhook") == "0 done; 1 left in the queue.\n"


def test_run_ends_at_the_limit() -> None:
    make_reflections(3)

    run("--limit", "2")

    assert Reflection.objects.filter(status=Status.DONE).count() == 2


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_run_refuses_a_limit_below_one(limit: str) -> None:
    with pytest.raises(CommandError, match="1 or more"):
        run("--limit", limit)


def test_run_as_json_prints_one_object() -> None:
    make_reflections(2)

    figures = json.loads(run("--json"))

    assert figures == {"done": 2, "retry": 0, "deferred_budget": 0, "dead": 0, "left": 0}


def test_run_that_gives_one_up_exits_with_one(settings: Any) -> None:
    settings.ERL_REFLECTOR = "llm"
    settings.ERL_LLM_PROVIDER = "openai"  # without a model: nothing that waiting cures
    make_reflections(1)

    with pytest.raises(SystemExit) as ended:
        run()

    assert ended.value.code == 1
    assert Reflection.objects.get().status == Outcome.DEAD


@pytest.mark.django_db(transaction=True)
def test_run_that_is_stopped_gives_the_reflection_back() -> None:
    make_reflections(1)
    with ScriptedProvider(otherwise=silence()) as provider:
        environment = {
            "DATABASE_URL": database_url(connection.settings_dict),
            "ERL_EMBEDDER": "none",
            "ERL_LLM_PROVIDER": "openai-compatible",
            "ERL_LLM_MODEL": "scripted-1",
            "ERL_LLM_BASE_URL": provider.openai_url,
        }
        process = subprocess.Popen(
            [sys.executable, "manage.py", "run_jobs", "--json"],
            cwd=ROOT,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: len(provider.requests) == 1)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=20)

    reflection = Reflection.objects.get()
    assert process.returncode == 0
    assert json.loads(said)["left"] == 1
    assert (reflection.status, reflection.attempts) == (Status.RETRY, 0)
