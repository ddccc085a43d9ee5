"""The suite yours: a project's runs split by time, and own tasks with an adapter."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from evaluation.environments.base import Task, load_environment
from evaluation.errors import EvaluationError, LabelIndexed
from evaluation.reports.report import write_text
from evaluation.runner import create_run, execute_run
from evaluation.suites.base import Options
from evaluation.suites.loop.suite import refuse_shared_tasks
from memory.projects.models import Project
from tests.evaluation.conftest import hash_tables
from tests.factories import make_heuristic, make_project, make_trajectory

pytestmark = pytest.mark.nightly

PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"
WRONG = {"action": {"name": "book", "arguments": {"day": "3 March"}}, "observation": "Error: day must be YYYY-MM-DD"}
RIGHT = {"action": {"name": "book", "arguments": {"day": "2027-03-03"}}, "observation": "booked"}


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The example from the documentation, as a module in the working directory."""
    [code] = re.findall(r"```python\n(.*?class Tables.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "tables.py").write_text(code, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "tables:Tables"


def record_runs(project: Project, count: int = 20) -> None:
    start = timezone.now() - timedelta(days=count)
    for number in range(count):
        steps = [each | {"index": place, "thought": "", "error": ""} for place, each in enumerate((WRONG, RIGHT), 1)]
        make_trajectory(
            project=project,
            task=f"Book a table for {number + 2} people",
            task_id="book",
            steps=steps,
            outcome="failure" if number % 2 else "success",
            created_at=start + timedelta(days=number),
        )


def figure(suite: dict[str, Any], arm: str, name: str) -> float:
    mean: float = next(row["mean"] for row in suite["figures"] if (row["arm"], row["name"]) == (arm, name))
    return mean


@pytest.mark.django_db(transaction=True)
def test_lessons_come_from_older_runs_and_tasks_from_newer_ones() -> None:
    project = make_project()
    record_runs(project)
    make_heuristic(project=project, status="proposed", trigger="a table is booked", guideline="Ask how many come.")
    before = hash_tables()

    run = execute_run(create_run(Options(suites=("yours",), project=project.slug), by="test"))

    [suite] = run.results["suites"]
    assert suite["n"] == 6
    assert figure(suite, "hybrid:5", "tasks with a lesson") == 1
    assert figure(suite, "hybrid:5", "lessons of the same family") == 1
    assert figure(suite, "approved", "tasks with a lesson") == 0
    shares = [row for row in suite["figures"] if row["name"] != "tokens"]
    assert all(row["high"] - row["low"] > 0.3 for row in shares)  # six of six is not certain
    assert "Of 6 newer tasks, 100.0% would have been given a lesson" in suite["headline"]
    assert "95% between 54.1% and 100.0%" in suite["headline"]
    assert suite["headline"] in " ".join(write_text(run.results).split())
    assert figure(suite, "candidate", "tasks whose lessons would change") == 1
    assert hash_tables() == before


@pytest.mark.django_db(transaction=True)
def test_too_few_runs_are_refused() -> None:
    project = make_project()
    record_runs(project, 3)

    with pytest.raises(EvaluationError, match="has 3 runs"):
        execute_run(create_run(Options(suites=("yours",), project=project.slug), by="test"))


@pytest.mark.django_db(transaction=True)
def test_adapter_of_the_documentation_shows_the_uplift(adapter: str) -> None:
    options = Options(suites=("yours",), environment=adapter, trials=1, arms=("hybrid:5", "poison-unapproved"))

    run = execute_run(create_run(options, by="test"))

    [suite] = run.results["suites"]
    rows = {row["arm"]: row for row in suite["arms"]}
    assert suite["families"] == ["book"] * 10
    assert rows["none"]["success"]["mean"] == 0
    assert rows["hybrid:5"]["success"]["mean"] == 1
    assert all(check["passed"] for check in suite["checks"])


@pytest.mark.parametrize("place", ["nowhere:Nothing", "evaluation.errors:Nothing", "evaluation.errors:EvaluationError"])
def test_invalid_adapter_is_refused(place: str) -> None:
    with pytest.raises(EvaluationError, match="--environment"):
        load_environment(place)


@pytest.mark.parametrize("shared", [Task(id="a", text="Other words"), Task(id="b", text=" Same words ")])
def test_task_in_both_splits_is_refused(shared: Task) -> None:
    with pytest.raises(LabelIndexed, match="splits share 1 task"):
        refuse_shared_tasks([Task(id="a", text="Same words")], [shared])
