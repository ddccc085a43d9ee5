"""Evaluations touch only their own database."""

import ast
import os
import subprocess
import sys
from typing import Any

import pytest
from django.db import connection

from evaluation.errors import EvaluationError
from evaluation.isolation.sandbox import create_sandbox, empty_sandbox, prepare_sandbox, sandbox_environment
from evaluation.models import EvaluationRun
from evaluation.runner import create_run, execute_run, find_unfinished
from evaluation.suites.base import Options
from memory.projects.models import Project
from tests.evaluation.conftest import evaluate, hash_tables
from tests.factories import make_heuristic, make_project, make_trajectory
from tests.stack import ROOT, database_url
from tests.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.slow]

REPLAY = Options(suites=("replay",))


@pytest.mark.django_db
def test_child_gets_only_the_sandbox_database() -> None:
    live = connection.settings_dict["NAME"]

    environment = sandbox_environment(create_sandbox())

    assert f"/{live}_evaluation" in environment["DATABASE_URL"]
    assert environment["CELERY_BROKER_URL"] == "memory://"
    assert environment["ERL_ENV_FILE"] == os.devnull
    assert not {name for name in environment if name.startswith("ERL_LLM") or name == "ERL_HOME"}


@pytest.mark.django_db
def test_child_reads_the_settings_of_its_provider_as_they_are(settings: Any) -> None:
    settings.ERL_LLM_PROVIDERS = {"lab": {"kind": "vllm", "base_url": "http://gpu.internal:8001/v1"}}
    settings.ERL_LLM_MODELS = {"reflect": "lab:qwen3:8b"}
    settings.ERL_HTTP_HOSTS, settings.ERL_HTTP_PROXY = ["gpu.internal", "10.0.0.1"], "http://proxy.internal:3128"
    names = ["ERL_LLM_PROVIDERS", "ERL_LLM_MODELS", "ERL_HTTP_HOSTS", "ERL_HTTP_PROXY"]

    read = subprocess.check_output(
        [sys.executable, "-c", f"from erl_site import settings; print([getattr(settings, name) for name in {names}])"],
        cwd=ROOT,
        env=sandbox_environment(create_sandbox(), provider=True),
        text=True,
    )

    assert ast.literal_eval(read) == [getattr(settings, name) for name in names]


@pytest.mark.django_db
@pytest.mark.parametrize("destroy", [empty_sandbox, prepare_sandbox])
def test_a_live_database_is_never_emptied(destroy: object) -> None:
    project = make_project()

    with pytest.raises(EvaluationError, match="is not a sandbox"):
        destroy()  # type: ignore[operator]

    assert Project.objects.filter(pk=project.pk).exists()


@pytest.mark.django_db(transaction=True)
def test_killed_run_resumes_where_it_stopped() -> None:
    run = create_run(REPLAY, by="test")
    finished = {"runs": [{"task": "kept", "score": 1.0, "steps": 1}], "timing": {}}
    run.units = {"replay": {"webshop": finished}}
    run.save()

    resumed = find_unfinished(REPLAY)
    assert resumed is not None
    execute_run(resumed)

    assert resumed.pk == run.pk
    assert resumed.results["suites"][0]["tasks"]["webshop"] == ["kept"]
    assert len(resumed.results["suites"][0]["tasks"]["alfworld"]) == 134
    assert find_unfinished(REPLAY) is None


@pytest.mark.django_db
def test_unknown_arm_is_refused_before_anything_runs() -> None:
    with pytest.raises(EvaluationError, match="no arm 'best:5'"):
        create_run(Options(suites=("toolchoice",), arms=("best:5",)), by="test")


@pytest.mark.django_db(transaction=True)
def test_killed_command_leaves_nothing_behind_and_resumes() -> None:
    make_heuristic(trajectory=make_trajectory(), status="approved")
    before = hash_tables()
    command = ["evaluate", "--suite", "toolchoice", "--limit", "12", "--experience", "8", "--arms", "hybrid:5"]
    command += ["--seeds", "3", "--quiet"]
    environment = os.environ | {"DATABASE_URL": database_url(connection.settings_dict)}
    with subprocess.Popen(
        [sys.executable, "manage.py", *command], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL
    ) as process:
        wait_until(lambda: any(run.units for run in EvaluationRun.objects.all()), seconds=150)
        process.kill()
    after = hash_tables()
    wait_until(lambda: not find_sandbox_clients(), seconds=150)
    [killed] = EvaluationRun.objects.all()

    evaluate(*command[1:], "--resume")

    [run] = EvaluationRun.objects.all()
    assert after == before
    assert killed.status == EvaluationRun.Status.RUNNING
    assert (run.pk, run.status) == (killed.pk, EvaluationRun.Status.FINISHED)
    assert run.units["toolchoice"].items() >= killed.units["toolchoice"].items()
    assert len(run.units["toolchoice"]) == 3
    assert hash_tables() == before


def find_sandbox_clients() -> list[int]:
    """Return the database processes connected to a sandbox."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pid FROM pg_stat_activity WHERE datname LIKE current_database() || '%%_evaluation%%'")
        return [pid for (pid,) in cursor.fetchall()]
