"""Evaluations keep to their own database."""

import os

import pytest
from django.db import connection

from evaluation.errors import EvaluationError
from evaluation.runner import create_run, execute_run, find_unfinished
from evaluation.sandbox import create_sandbox, empty_sandbox, prepare_sandbox, sandbox_environment
from evaluation.suites.base import Options
from memory.models import Project
from tests.factories import make_project

REPLAY = Options(suites=("replay",))


@pytest.mark.django_db
def test_child_knows_the_sandbox_and_no_other_database() -> None:
    live = connection.settings_dict["NAME"]

    environment = sandbox_environment(create_sandbox())

    assert f"/{live}_evaluation" in environment["DATABASE_URL"]
    assert environment["CELERY_BROKER_URL"] == "memory://"
    assert environment["ERL_ENV_FILE"] == os.devnull
    assert not {name for name in environment if name.startswith("ERL_LLM") or name == "ERL_HOME"}


@pytest.mark.django_db
@pytest.mark.parametrize("destroy", [empty_sandbox, prepare_sandbox])
def test_a_live_database_is_never_emptied(destroy: object) -> None:
    project = make_project()

    with pytest.raises(EvaluationError, match="is not a sandbox"):
        destroy()  # type: ignore[operator]

    assert Project.objects.filter(pk=project.pk).exists()


@pytest.mark.django_db(transaction=True)
def test_killed_run_goes_on_where_it_stopped() -> None:
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
