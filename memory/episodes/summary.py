"""Figures about what a project remembers: counts, scores by task, the mistakes seen most often."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q

from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.text import RULE_TAG
from memory.mistakes.models import MistakeCard, MistakeCardRevision
from memory.projects.models import Project
from memory.runs.models import Trajectory
from memory.runs.scores import ScoreHistory, read_score_history

TOP_CARDS = 10


@dataclass(frozen=True, kw_only=True, slots=True)
class MemorySummary:
    """Counts by name, score histories with the most runs first, and the unmerged cards seen most often."""

    counts: dict[str, int]
    scores: list[ScoreHistory]
    cards: list[MistakeCard]


def summarize_memory(
    project: Project, *, task_id: str | None = None, agent: str | None = None, limit: int = 50
) -> MemorySummary:
    """Sum up a project, or one task family or agent of it.

    Args:
        limit: the most score histories to return.
    """
    cards = MistakeCard.objects.for_project(project).unmerged()
    if task_id is not None:
        cards = cards.filter(task_id=task_id)
    return MemorySummary(
        counts=_count(project),
        scores=read_score_history(project, task_id=task_id, agent=agent, limit=limit),
        cards=list(cards.with_text().order_by("-seen_count", "-id")[:TOP_CARDS]),
    )


def _count(project: Project) -> dict[str, int]:
    of_project: dict[str, Any] = {"project": project}
    status, card_status = Heuristic.Status, MistakeCard.Status
    runs = Trajectory.objects.filter(**of_project).aggregate(episodes=Count("pk"), scored_episodes=Count("score"))
    heuristics = Heuristic.objects.filter(**of_project).aggregate(
        heuristics_proposed=Count("pk", filter=Q(status=status.PROPOSED)),
        heuristics_approved=Count("pk", filter=Q(status=status.APPROVED)),
    )
    rules = HeuristicRevision.objects.filter(**of_project, served=True, tags__contains=[RULE_TAG])
    cards = MistakeCard.objects.filter(**of_project, merged_into__isnull=True).aggregate(
        mistake_cards_proposed=Count("pk", filter=Q(status=card_status.PROPOSED)),
        mistake_cards_approved=Count("pk", filter=Q(status=card_status.APPROVED)),
        mistake_cards_retired=Count("pk", filter=Q(status=card_status.RETIRED)),
        mistake_cards_rejected=Count("pk", filter=Q(status=card_status.REJECTED)),
    )
    served = MistakeCardRevision.objects.filter(**of_project, served=True).count()
    return {**runs, **heuristics, "rules_served": rules.count(), **cards, "mistake_cards_served": served}
