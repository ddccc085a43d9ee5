"""What lessons do, measured every hour: how useful they are, and which do harm, for people to keep or retire."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Q
from django.template.defaultfilters import pluralize
from django.utils import timezone

from memory.effects.comparison import NEUTRAL, LessonEffect, compare_lessons
from memory.effects.stratified import Interval
from memory.events import EventKind, ProjectEvent, announce
from memory.heuristics.models import Heuristic
from memory.projects.models import Project
from memory.review.models import Review

log = structlog.get_logger(__name__)

MEASURED = timedelta(days=90)
KEPT_FOR = timedelta(days=30)  # after a person decided to keep it


def measure_lessons() -> int:
    """Keep with each lesson what was measured of it; return how many do harm.

    A lesson that a person kept is left alone for a while.
    """
    return sum(_measure_project(project) for project in Project.objects.all())


@transaction.atomic
def _measure_project(project: Project) -> int:
    now = timezone.now()
    effects = compare_lessons([project.pk], since=now - MEASURED)
    _write_usefulness(project, effects)
    harmful_effects = {effect.heuristic_id: effect for effect in effects if effect.sign < 0}
    lessons = Heuristic.objects.for_project(project)
    kept = Review.objects.filter(decision=Review.Decision.KEEP, created_at__gte=now - KEPT_FOR)
    in_use = lessons.filter(status=Heuristic.Status.APPROVED, pk__in=harmful_effects)
    harmful = list(in_use.exclude(pk__in=kept.values("subject_id")).only("pk", "harm"))
    for heuristic in harmful:
        is_new = heuristic.harm is None
        # It has been harmful since it was first measured so, not since the latest hour.
        since = now.isoformat() if heuristic.harm is None else heuristic.harm["since"]
        harm = _write(harmful_effects[heuristic.pk], since=since)
        # A reviewer may have retired it meanwhile; then there is nothing to announce.
        updated = Heuristic.objects.filter(pk=heuristic.pk, status=Heuristic.Status.APPROVED).update(harm=harm)
        if updated and is_new:
            details = {name: harm[name] for name in ("difference", "low", "high")}
            ids = (heuristic.pk,)
            announce(
                ProjectEvent(kind=EventKind.LESSON_HARMFUL, project_id=project.pk, lesson_ids=ids, details=details)
            )
    # Those that recovered, were kept or left service.
    lessons.filter(harm__isnull=False).exclude(pk__in=[heuristic.pk for heuristic in harmful]).update(harm=None)
    log.info("lessons_measured", project=str(project.pk), lessons=len(effects), harmful=len(harmful))
    return len(harmful)


def _write_usefulness(project: Project, effects: Sequence[LessonEffect]) -> None:
    """Write the figures that changed; what is not measured any more is neutral again."""
    measured = {effect.heuristic_id: effect.usefulness for effect in effects}
    changed = []
    rows = Heuristic.objects.for_project(project).filter(Q(pk__in=measured) | ~Q(usefulness=NEUTRAL))
    for heuristic in rows.only("pk", "usefulness"):
        usefulness = measured.get(heuristic.pk, NEUTRAL)
        if heuristic.usefulness != usefulness:
            heuristic.usefulness = usefulness
            changed.append(heuristic)
    # The statement names every row, so it must not grow with the project.
    Heuristic.objects.bulk_update(changed, ["usefulness"], batch_size=1000)


def describe_harm(harm: dict[str, Any]) -> str:
    """Say what was measured, such as "−22 points (−35 to −8)"."""
    return describe_points(harm["difference"], Interval(low=harm["low"], high=harm["high"]))


def describe_points(difference: float, interval: Interval) -> str:
    """Write a difference with its interval, such as "+6 points (2 to 10)", with a real minus sign."""
    return f"{100 * difference:+.0f} points ({100 * interval.low:+.0f} to {100 * interval.high:+.0f})".replace("-", "−")


def describe_company(count: int) -> str:
    """Say that a lesson cannot be told apart from others that stood in the same blocks."""
    lessons = f"{count:,} other lesson{pluralize(count)}"
    return f"It was always given together with {lessons}, so which of them does this cannot be told."


def read_since(harm: dict[str, Any]) -> datetime:
    """Return since when a lesson has been known to be harmful."""
    return datetime.fromisoformat(harm["since"])


def _write(effect: LessonEffect, *, since: str) -> dict[str, Any]:
    assert effect.interval is not None
    return {
        "since": since,
        "difference": effect.difference,
        "low": effect.interval.low,
        "high": effect.interval.high,
        "given": effect.compared.strata.given,
        "without": effect.compared.strata.without,
        "together": len(effect.together_with),
    }
