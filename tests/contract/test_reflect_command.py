"""manage.py reflect FILE"""

import io
import json
import re
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from memory.heuristics.models import Evidence, Heuristic
from memory.runs.models import Trajectory
from reflection.reflectors.models import Reflection
from tests.factories import make_project
from tests.real_runs import TAU, TAU_NATIVE, WEBSHOP


@pytest.fixture(autouse=True)
def rules(settings: Settings) -> None:
    settings.ERL_REFLECTOR = "rules"


def reflect(path: Path, *arguments: str) -> tuple[str, int]:
    """Return what the command printed and how it exited."""
    out = io.StringIO()
    try:
        call_command("reflect", str(path), *arguments, stdout=out, stderr=io.StringIO())
    except SystemExit as exit_:
        return out.getvalue(), int(str(exit_.code))
    return out.getvalue(), 0


# These tests have no access to a database: pytest-django would fail them if they asked for one.


def test_reflect_prints_lessons_without_a_database() -> None:
    out, code = reflect(TAU)

    assert code == 0
    assert re.match(r"Reflector: rules, version \d+\.\n", out)
    assert "── tau-airline-01-1 (success, score 1)\n   when     the user does not know the reservation ID" in out
    assert '   shown    step 2: "Z7GOZK"' in out
    assert "   nothing: No failed call was corrected" in out
    assert out.splitlines()[-1].startswith(
        "Proposals: 10 (3 different) from 20 runs. 10 runs gave none, 0 could not be"
    )


def test_reflect_prints_the_same_twice() -> None:
    assert reflect(WEBSHOP) == reflect(WEBSHOP)


def test_reflect_json_prints_one_run_a_line() -> None:
    out, _ = reflect(TAU_NATIVE, "--json")
    reports = [json.loads(line) for line in out.splitlines()]

    assert [report["place"] for report in reports] == ["entry 1", "entry 2"]
    assert reports[0]["lessons"][0]["evidence"][0]["first_step"] >= 1


def test_reflect_limit_reads_only_the_first_runs() -> None:
    out, _ = reflect(TAU, "--limit", "3")

    assert "from 3 runs" in out


def test_reflect_bad_line_is_reported_and_the_others_reflected_on(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("{\n" + TAU.read_text().splitlines()[0])

    out, code = reflect(path)

    assert code == 1
    assert "── line 1\n   failed: " in out
    assert "Proposals: 1 (1 different) from 2 runs. 0 runs gave none, 1 could not be" in out


def test_reflect_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="There is no file"):
        reflect(tmp_path / "none.jsonl")


def test_reflect_with_a_model_that_is_not_configured_is_refused(settings: Settings) -> None:
    settings.ERL_REFLECTOR = "llm"
    settings.ERL_LLM_PROVIDER = ""

    out, code = reflect(TAU, "--limit", "1")

    assert code == 1
    assert "failed: " in out


@pytest.mark.django_db(transaction=True)
def test_reflect_store_puts_lessons_into_the_queue() -> None:
    make_project()

    out, code = reflect(TAU, "--store")

    assert code == 0
    assert "new in the review queue" in out
    assert Trajectory.objects.count() == 20
    assert Reflection.objects.filter(status="done").count() == 20
    assert Heuristic.objects.filter(status="proposed", reflector="rules").count() == 3
    lookup = Heuristic.objects.get(current_revision__guideline__startswith="Ask for the `user_id` instead")
    assert lookup.support == Evidence.objects.filter(heuristic=lookup).values("trajectory").distinct().count() == 5


@pytest.mark.django_db(transaction=True)
def test_reflect_store_again_changes_nothing() -> None:
    make_project()
    reflect(TAU_NATIVE, "--store")
    before = list(Heuristic.objects.order_by("id").values())

    out, code = reflect(TAU_NATIVE, "--store")

    assert code == 0
    assert Reflection.objects.count() == 2
    assert list(Heuristic.objects.order_by("id").values()) == before
    assert "Proposals: 1 " in out


@pytest.mark.django_db
def test_reflect_store_without_a_project_says_what_to_do() -> None:
    with pytest.raises(CommandError, match="There is no project yet"):
        reflect(TAU, "--store")
