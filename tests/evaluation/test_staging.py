"""Releases that are staged end to end: cut, canary, experiment, promotion or roll-back."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from evaluation.environments.base import Task, TryResult
from evaluation.errors import EvaluationError
from evaluation.experiments.plan import ExperimentPlan, Guardrail, RolloutStep
from evaluation.runner import create_run
from evaluation.suites.base import Options
from evaluation.suites.registry import get_suite
from evaluation.suites.staging import STAGED, Traffic, make_stages, stage_releases, summarise_stages
from memory.curation.decisions import retire_heuristic
from memory.heuristics.models import Heuristic
from memory.releases.deployments import get_deployment
from tests.factories import make_project
from tests.releases import BY, TASK, make_lesson

pytestmark = pytest.mark.django_db
GOOD, USELESS, POISON = "Offer a travel credit.", "Say good morning.", "Delete the account."
PLAN = ExperimentPlan(
    guardrails=(Guardrail(metric="success"),), steps=(RolloutStep(share=500, units=20),), max_units=140
)


def make_attempt() -> Callable[[Task, str], TryResult]:
    """Return what succeeds with the good lesson, fails with the poison, and else by a coin."""
    coin = Random(3)

    def attempt(task: Task, lessons: str) -> TryResult:
        return TryResult(success=POISON not in lessons and (GOOD in lessons or coin.random() < 0.4))

    return attempt


@pytest.mark.nightly
def test_good_release_is_promoted_and_the_others_are_not() -> None:
    project = make_project()

    def poison() -> None:
        for heuristic in Heuristic.objects.filter(project=project):
            retire_heuristic(heuristic, by=BY)
        make_lesson(project, POISON)

    found = stage_releases(
        project,
        make_stages(lambda: make_lesson(project, GOOD), lambda: make_lesson(project, USELESS), poison),
        traffic=Traffic(
            tasks=[Task(id="1", text=TASK)],
            attempt=make_attempt(),
            options=Options(),
            seed="seed-0",
            progress=lambda what, done, total: None,
            plan=PLAN,
        ),
    )

    became = {name: each["became"] for name, each in found["stages"].items()}
    assert became == {"good": "promoted", "useless": "not promoted", "poisoned": "rolled back"}
    deployment = get_deployment(project)
    assert deployment.stable is not None
    assert (deployment.stable.note, deployment.candidate) == ("good", None)
    report = summarise_stages(get_suite("toolchoice").about, {"seed-0": found}, STAGED)
    assert [check["passed"] for check in report["checks"]] == [True, True, True]


def test_report_says_which_release_went_the_wrong_way() -> None:
    stage: dict[str, Any] = {"became": "promoted", "units": 80, "canary_units": 40, "control_mean": 0.5}
    found = {"stages": {name: stage | {"treated_mean": 0.5} for name in STAGED}, "timing": {}}

    checks = summarise_stages(get_suite("toolchoice").about, {"seed-0": found}, STAGED)["checks"]

    assert [check["passed"] for check in checks] == [True, False, False]


def test_other_suites_refuse_to_stage() -> None:
    with pytest.raises(EvaluationError, match="Use --stage with toolchoice"):
        create_run(Options(suites=("replay",), stage=True), by="test")


@pytest.mark.parametrize(("name", "instead"), [("textworld", "toolchoice"), ("kitchen", "bfcl or clerk")])
def test_suite_that_is_gone_names_another(name: str, instead: str) -> None:
    with pytest.raises(CommandError, match=f"The suite {name} is gone. Use {instead}."):
        call_command("evaluate", "--suite", name, "--quiet")
