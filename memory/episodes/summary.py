"""Figures about what a project remembers: counts, scores by task, the mistakes seen most often."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet

from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.text import RULE_TAG
from memory.mistakes.models import MistakeCard
from memory.projects.models import Project
from memory.runs.models import Trajectory
from memory.runs.scores import ScoreHistory, read_score_history

TOP_CARDS = 10
MOST_SCORES = 50  # families and agents


@dataclass(frozen=True, kw_only=True, slots=True)
class MemorySummary:
    """Counts by name, score histories with the most runs first, and the unmerged cards seen most often."""

    counts: dict[str, int]
    scores: list[ScoreHistory]
    cards: list[MistakeCard]


def summarize_memory(project: Project, *, task_id: str | None = None, agent: str | None = None) -> MemorySummary:
    """Sum up a project, or one task family or agent of it."""
    cards = MistakeCard.objects.for_project(project).unmerged()
    if task_id is not None:
        cards = cards.filter(current_revision__task_id=task_id)
    return MemorySummary(
        counts=_count(project),
        scores=read_score_history(project, task_id=task_id, agent=agent, limit=MOST_SCORES),
        cards=list(cards.with_text().order_by("-support", "-id")[:TOP_CARDS]),
    )


def _count(project: Project) -> dict[str, int]:
    runs = Trajectory.objects.for_project(project).aggregate(episodes=Count("pk"), scored_episodes=Count("score"))
    heuristics = _count_by_status(Heuristic.objects.for_project(project))
    rules = HeuristicRevision.objects.for_project(project).served().filter(tags__contains=[RULE_TAG])
    cards = _count_by_status(MistakeCard.objects.for_project(project).unmerged())
    return {
        **runs,
        **{f"heuristics_{status}": heuristics.get(status, 0) for status in ("proposed", "approved")},
        "rules_served": rules.count(),
        **{
            f"mistake_cards_{status}": cards.get(status, 0)
            for status in ("proposed", "approved", "retired", "rejected")
        },
        "mistake_cards_served": HeuristicRevision.objects.of_mistakes().for_project(project).served().count(),
    }


def _count_by_status(rows: QuerySet[Any]) -> dict[str, int]:
    return dict(rows.order_by().values_list("status").annotate(Count("pk")))
