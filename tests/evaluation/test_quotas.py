"""What an evaluation teaches about the mix of lessons."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from evaluation.errors import EvaluationError
from evaluation.quotas import get_sign_p, learn_quotas
from memory.retrieval.limits import Limits
from memory.retrieval.models import PolarityQuota
from memory.retrieval.project_state import read_state
from tests.factories import make_project


def report(**per_task: list[float]) -> dict[str, Any]:
    """Return a report of 20 tasks of searching and 20 of doing; arms as in `hybrid:5`."""
    arms = {name.replace("_", ":"): values for name, values in per_task.items()}
    families = ["search"] * 20 + ["do"] * 20 + ["rare"] * 2
    rows = [{"arm": name} for name in arms]
    return {"suites": [{"name": "yours", "arms": rows, "families": families, "per_task": arms}]}


FAILURES_HELP_SEARCH = report(
    hybrid_5=[0.0] * 12 + [1.0] * 8 + [0.5] * 20 + [0.0] * 2,
    hybrid_5_failures=[1.0] * 20 + [0.5] * 10 + [0.0] * 10 + [1.0] * 2,
    hybrid_5_successes=[0.0] * 20 + [1.0] * 3 + [0.5] * 17 + [0.0] * 2,
)


def test_a_half_is_taken_where_it_is_shown_to_be_better() -> None:
    everything, do, search = learn_quotas(FAILURES_HELP_SEARCH, suite="yours")
    assert (search.family, search.best, search.shares) == ("search", "failures", (0.0, None))
    assert (do.family, do.best, do.shares) == ("do", "mixed", (None, None))  # 3 gained and none lost may be chance
    assert (everything.family, everything.tasks, everything.best) == ("", 42, "mixed")


def test_the_sign_test_is_exact() -> None:
    assert get_sign_p([1] * 6) == pytest.approx(2 / 64)
    assert get_sign_p([1, 1, -1, 0]) == 1.0
    assert get_sign_p([]) == 1.0


def test_a_run_that_did_not_try_both_halves_says_what_to_run() -> None:
    with pytest.raises(EvaluationError, match="hybrid:5:failures"):
        learn_quotas(report(hybrid_5=[1.0] * 42), suite="yours")
    with pytest.raises(EvaluationError, match="no suite live"):
        learn_quotas(FAILURES_HELP_SEARCH, suite="live")


@pytest.mark.django_db
def test_what_was_learnt_is_applied_to_answers(tmp_path: Path) -> None:
    project, file, said = make_project(), tmp_path / "report.json", StringIO()
    file.write_text(json.dumps(FAILURES_HELP_SEARCH))
    call_command("learn_quotas", str(file), project=project.slug, stdout=said)
    assert not PolarityQuota.objects.exists()
    with pytest.raises(CommandError, match="--project"):
        call_command("learn_quotas", str(file), apply=True, stdout=said)

    call_command("learn_quotas", str(file), project=project.slug, apply=True, stdout=said)

    quotas = read_state(project.pk).quotas
    assert Limits.of_family(quotas, "search").max_works_share == 0
    assert Limits.of_family(quotas, "do").max_works_share is None
    assert PolarityQuota.objects.get().set_by.startswith("policy:evaluation")
    assert "lessons from failures alone" in said.getvalue()
