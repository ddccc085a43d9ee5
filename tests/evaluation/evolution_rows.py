"""Rows of an evolution, with a text wherever a proposer or a check can write one."""

from typing import Any

from django.utils import timezone

from evaluation.models import Evolution
from runtime.models.agents import Agent
from runtime.models.changes import Change, EvaluationRow

MEASURED = {
    "tasks": 60,
    "solved": {"before": 60, "after": 60},
    "steps": {"before": 602, "after": 577, "mean": -0.42, "low": -0.67, "high": -0.19},
    "tokens": {"before": 2_040_300, "after": 1_979_400, "mean": -1_015, "low": -1_712, "high": -338},
    "success": {"mean": 0.0, "low": 0.0, "high": 0.0},
}


def store_evolution(
    *,
    agent: Agent | None = None,
    text: str = "read_then_pay",
    measured: dict[str, Any] = MEASURED,
    gains: bool = True,
    change: Change | None = None,
) -> Evolution:
    """Store an evolution with a candidate of each kind; with `gains` the second one was chosen, else none."""
    project_id = agent.project_id if agent is not None else None
    sets = {"mine": {text: 3, "seats": 3}, "gate": {text: 2, "seats": 2}, "holdout": {text: 2, "seats": 2}}
    evolution: Evolution = Evolution.objects.create(
        project_id=project_id,
        kind="evolution",
        agent=agent,
        name=text,
        figures={
            "seed": 0,
            "generations": 2,
            "sets": sets,
            "looks": 3,
            "most_looks": 60,
            "measured": measured,
            "proposer": {},
        },
        made_by=text,
        at=timezone.now(),
    )
    tool = {"name": text, "description": text, "source": f"def tool():\n    {text}"}
    found: list[dict[str, Any]] = [
        {"scores": _score(text, 900), "look": 1, "is_on_front": not gains, "generation": 0, "parents": [], "adds": {}},
        {"scores": _score(text, 850), "look": 2, "is_on_front": gains, "generation": 1},
        {"stopped_by": text, "adds": {"tools": [tool], "system": text}},
        {"scores": _score(text, 870), "look": 3, "stopped_by": "regression", "parents": [1]},
    ]
    usual = {"generation": 2, "parents": [0], "adds": {"tools": [tool]}, "sha256": "0" * 64, "scores": {}, "look": None}
    EvaluationRow.objects.bulk_create(
        EvaluationRow(
            project_id=project_id,
            kind="candidate",
            parent=evolution,
            index=number,
            change=change if number == 1 else None,
            said=text if number else "the agent as it was",
            figures=usual | {"stopped_by": "", "is_on_front": False, "is_chosen": number == int(gains)} | figures,
            made_by=text,
        )
        for number, figures in enumerate(found)
    )
    return evolution


def _score(family: str, tokens: float) -> dict[str, Any]:
    return {name: {"tasks": 2, "solved": 2, "steps": 10, "tokens": tokens} for name in (family, "seats")}
