"""Assignment of units to arms: a pure function, the same everywhere, with the shares asked for."""

import hashlib
from typing import Any
from uuid import UUID

import pytest

from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.assignment import Deployed, assign, draw_bucket, expose, name_unit
from memory.retrieval.question import Question

ID = UUID(int=7)
UNITS = [f"session:{number}" for number in range(20_000)]


def make_deployed(**changes: Any) -> Deployed:
    usual = Deployed(ID, "releases", UUID(int=1), UUID(int=2), 200, 50, "session", "canary", "holdout", 3)
    return usual._replace(**changes)


def ask(**options: str) -> Question:
    asked: dict[str, Any] = {"project": Project(), "task": "Cancel", "by": Actor(label="key:ci")}
    return Question(**asked | options)


def test_bucket_is_the_published_formula() -> None:
    digest = hashlib.sha256(f"salt:{ID}:session:1".encode()).hexdigest()

    assert draw_bucket("salt", ID, "session:1") == int(digest[:8], 16) % 1000


def test_shares_are_those_of_the_deployment() -> None:
    arms = [assign(make_deployed(), unit).arm for unit in UNITS]

    assert arms.count("holdout") / len(UNITS) == pytest.approx(0.05, abs=0.006)
    assert arms.count("candidate") / len(UNITS) == pytest.approx(0.19, abs=0.01)  # of those that are not held out


def test_canary_does_not_touch_the_hold_out() -> None:
    held_out = [
        assign(make_deployed(canary_salt=salt), unit).arm == "holdout" for salt in "ab" for unit in UNITS[:2000]
    ]

    assert held_out[:2000] == held_out[2000:]


def test_salts_are_independent() -> None:
    both = sum(draw_bucket("a", ID, unit) < 100 and draw_bucket("b", ID, unit) < 100 for unit in UNITS)

    assert both / len(UNITS) == pytest.approx(0.01, abs=0.003)


@pytest.mark.parametrize(
    ("kind", "options", "unit"),
    [
        ("session", {"session": "s", "task_id": "air", "agent": "bot"}, "session:s"),
        ("session", {"task_id": "air", "agent": "bot"}, "family:air"),
        ("session", {"agent": "bot"}, "agent:bot"),
        ("session", {}, f"task:{hashlib.sha256(b'Cancel').hexdigest()[:32]}"),
        ("task", {"session": "s"}, f"task:{hashlib.sha256(b'Cancel').hexdigest()[:32]}"),
        ("agent", {"session": "s", "agent": "bot"}, "agent:bot"),
        ("agent", {"client": "web"}, "agent:web"),
    ],
)
def test_unit_is_what_the_deployment_says(kind: str, options: dict[str, str], unit: str) -> None:
    assert name_unit(kind, ask(**options)) == unit


def test_continuous_project_without_a_hold_out_assigns_nothing() -> None:
    deployed = make_deployed(mode="continuous", stable_id=None, candidate_id=None, canary_share=0, holdout_share=0)

    assert expose(deployed, ask(session="s")).arm == ""


def test_bucket_of_the_draw_that_decided_is_kept() -> None:
    exposure = assign(make_deployed(holdout_share=0), "session:1")

    assert (exposure.bucket, exposure.version) == (draw_bucket("canary", ID, "session:1"), 3)
