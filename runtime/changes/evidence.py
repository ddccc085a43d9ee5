"""What the recent runs of an agent show: which failed, what people corrected, and what tasks cost.

It is what a language model is asked about, so it is redacted and cut to size.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean
from typing import Any

from memory.redaction import redact, redact_text
from memory.runs.models import Trajectory
from reflection.consolidation.excerpts import show_run
from reflection.prompts import cut_middle
from runtime.models.agents import Agent
from runtime.models.conversations import Message
from runtime.models.effects import Approval, ApprovalStatus
from runtime.models.runs import Run

READ_RUNS = 200
FAILURES = 8
CORRECTIONS = 12
FAMILIES = 20
TEXT_CHARACTERS = 500
INSTRUCTIONS_CHARACTERS = 20_000

Sections = dict[str, list[Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class RunCost:
    """What a run of a family took, or the mean of several on the same task."""

    family: str
    succeeded: bool
    steps: float
    tokens: float


def collect(agent: Agent, *, until: datetime) -> Sections:
    """Return what a model reads before it proposes; the sections other than THE AGENT are empty where all is well."""
    runs = Run.objects.filter(agent=agent, finished_at__lt=until).order_by("-created_at", "-id")
    ids = list(runs.values_list("pk", flat=True)[:READ_RUNS])
    return {
        "THE AGENT": [show_agent(agent)],
        "FAILED RUNS": _list_failures(ids),
        "CORRECTIONS": _list_corrections(ids),
        "COSTS BY FAMILY": sum_costs(_read_costs(ids)),
    }


def shows_a_cause(sections: Sections) -> bool:
    """Tell whether there is anything to propose from."""
    return bool(sections["FAILED RUNS"] or sections["CORRECTIONS"])


def show_agent(agent: Agent) -> dict[str, Any]:
    """Return what an agent is, for a model that proposes changes of it."""
    current = agent.current
    assert current is not None  # every agent has one
    return {
        "instructions": redact_text(cut_middle(current.system, INSTRUCTIONS_CHARACTERS)),
        "tools": [tool["name"] for tool in current.tools],
        "rules": redact(list(current.rules)).value,
        "settings": {"max_output_tokens": current.max_output_tokens, "window_tokens": current.window_tokens},
    }


def sum_costs(runs: Iterable[RunCost]) -> list[dict[str, Any]]:
    """Return what tasks cost by family, for a model that proposes changes; the dearest families first."""
    families: dict[str, list[RunCost]] = defaultdict(list)
    for run in runs:
        families[run.family].append(run)
    rows: list[dict[str, Any]] = [
        {
            "family": family,
            "runs": len(own),
            "succeeded": sum(run.succeeded for run in own),
            "mean_steps": round(fmean(run.steps for run in own), 1),
            "mean_tokens": round(fmean(run.tokens for run in own)),
        }
        for family, own in sorted(families.items())
    ]
    return sorted(rows, key=lambda row: -row["mean_tokens"])[:FAMILIES]


def _list_failures(ids: list[Any]) -> list[dict[str, Any]]:
    failed = Trajectory.objects.filter(agent_run__in=ids, outcome=Trajectory.Outcome.FAILURE)
    return [show_run(run) for run in failed.order_by("-created_at", "-id")[:FAILURES]]


def _list_corrections(ids: list[Any]) -> list[dict[str, Any]]:
    """Return why people refused calls, and what they said next where a run had failed; the most frequent first."""
    refused = Approval.objects.filter(run__in=ids, status=ApprovalStatus.REJECTED).exclude(reason="")
    counted = Counter(refused.values_list("effect__tool", "reason"))
    corrections: list[dict[str, Any]] = [
        {"refused_call_of": tool, "because": cut_middle(redact_text(reason), TEXT_CHARACTERS), "times": times}
        for (tool, reason), times in counted.most_common(CORRECTIONS)
    ]
    failed = Run.objects.filter(pk__in=ids, trajectory__outcome=Trajectory.Outcome.FAILURE).order_by("-created_at")
    for run in failed[:CORRECTIONS]:
        last = run.messages.order_by("-seq").values_list("seq", flat=True).first() or 0
        replies = Message.objects.filter(conversation=run.conversation_id, role=Message.Role.USER, seq__gt=last)
        if (following := replies.order_by("seq").first()) is not None:
            corrections.append(
                {
                    "after": cut_middle(redact_text(run.task), TEXT_CHARACTERS),
                    "the_user_said": cut_middle(redact_text(following.content), TEXT_CHARACTERS),
                }
            )
    return corrections[:CORRECTIONS]


def _read_costs(ids: list[Any]) -> list[RunCost]:
    columns = ("task_id", "trajectory__outcome", "steps_taken", "input_tokens", "output_tokens")
    return [
        RunCost(family=family, succeeded=outcome == Trajectory.Outcome.SUCCESS, steps=steps, tokens=read + written)
        for family, outcome, steps, read, written in Run.objects.filter(pk__in=ids).values_list(*columns)
    ]
