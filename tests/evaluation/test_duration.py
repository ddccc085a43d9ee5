"""What the command says about its duration before it starts, and while it runs."""

import io
import json
from pathlib import Path

import pytest
from django.core.management import call_command

from evaluation.suites.base import Options
from evaluation.suites.registry import foresee_seconds


def test_default_run_is_foreseen_within_three_minutes() -> None:
    seconds = foresee_seconds(Options())

    assert seconds is not None
    assert 60 < seconds <= 180


@pytest.mark.parametrize(
    "smaller", [{"limit": 120}, {"experience": 100}, {"arms": ("hybrid:5",)}, {"suites": ("replay",)}]
)
def test_less_is_foreseen_to_take_less(smaller: dict[str, object]) -> None:
    whole, part = foresee_seconds(Options()), foresee_seconds(Options(**smaller))  # type: ignore[arg-type]

    assert whole is not None
    assert part is not None
    assert part < whole


def test_duration_of_a_run_with_an_agent_of_ones_own_is_not_foreseen() -> None:
    assert foresee_seconds(Options(suites=("replay", "live"))) is None


@pytest.mark.nightly
@pytest.mark.django_db(transaction=True)
def test_command_says_how_long_it_takes_and_how_far_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "runs.jsonl").write_text(json.dumps({"arm": "none", "task": "t", "outcome": "success"}), "utf-8")
    said = io.StringIO()

    call_command(
        "evaluate", suite=["replay"], data=tmp_path / "runs.jsonl", json=Path("-"), stdout=io.StringIO(), stderr=said
    )

    assert said.getvalue() == "This takes about 1 minute on two idle processors, longer where they are busy.\n"
    assert "of about 0:10, preparing the sandbox" in capsys.readouterr().err
