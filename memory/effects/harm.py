"""Lessons in use after which runs succeed less often, found every hour for people to keep or retire."""

from datetime import datetime, timedelta
from typing import Any

import structlog
from django.utils import timezone

from memory.effects.comparison import LessonEffect, compare_heuristics
from memory.heuristics.models import Heuristic, Review
from memory.projects.models import Project

log = structlog.get_logger(__name__)

MEASURED = timedelta(days=90)
KEPT_FOR = timedelta(days=30)  # after a person decided to keep it


def note_harmful_lessons() -> int:
    """Note on each lesson in use whether its effect is below zero with the whole interval; return how many there are.

    A lesson that a person kept is left alone for a while.
    """
    now = timezone.now()
    found = {
        effect.heuristic_id: effect
        for project_id in Project.objects.values_list("pk", flat=True)
        for effect in compare_heuristics([project_id], since=now - MEASURED)
        if is_harmful(effect)
    }
    kept = Review.objects.filter(decision=Review.Decision.KEEP, created_at__gte=now - KEPT_FOR)
    in_use = Heuristic.objects.filter(status=Heuristic.Status.APPROVED, pk__in=found)
    harmful = list(in_use.exclude(pk__in=kept.values("heuristic")).only("pk", "harm"))
    for heuristic in harmful:
        since = (heuristic.harm or {}).get("since") or now.isoformat()
        Heuristic.objects.filter(pk=heuristic.pk, status=Heuristic.Status.APPROVED).update(
            harm=_write(found[heuristic.pk], since=since)
        )
    others = Heuristic.objects.filter(harm__isnull=False).exclude(pk__in=[heuristic.pk for heuristic in harmful])
    others.update(harm=None)
    log.info("harmful_lessons_noted", lessons=len(harmful))
    return len(harmful)


def is_harmful(effect: LessonEffect) -> bool:
    """Tell whether all of the interval of an effect lies below zero."""
    return effect.interval is not None and effect.interval[1] < 0


def describe_harm(harm: dict[str, Any]) -> str:
    """Say what was measured, such as "−22 points (−35 to −8)"."""
    points = [f"{100 * harm[name]:+.0f}".replace("-", "−") for name in ("difference", "low", "high")]
    return f"{points[0]} points ({points[1]} to {points[2]})"


def read_since(harm: dict[str, Any]) -> datetime:
    """Return since when a lesson has been known to be harmful."""
    return datetime.fromisoformat(harm["since"])


def _write(effect: LessonEffect, *, since: str) -> dict[str, Any]:
    assert effect.interval is not None
    low, high = effect.interval
    return {
        "since": since,
        "difference": effect.difference,
        "low": low,
        "high": high,
        "given": str(effect.given),
        "without": str(effect.without),
    }
