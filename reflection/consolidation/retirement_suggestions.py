"""Suggest which lessons to retire: harmful, given often without use, or not given for long (reference: ERL c.1).

A suggestion says why and names the runs that show it; a person decides. How often runs failed that followed a lesson is
no reason: their tasks may be hard. Harm is what a comparison found in which chance decided (`memory.effects.harm`).
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from math import log2
from typing import Any
from uuid import UUID

from django.utils import timezone

from memory.effects.harm import describe_harm
from memory.effects.models import UsageVerdict
from memory.effects.outcomes import OutcomeCount, count_by_heuristic
from memory.effects.uses import Use, find_uses
from memory.heuristics.models import Heuristic
from memory.projects.models import Project
from reflection.consolidation.drafts import Advice, Author, Support
from reflection.consolidation.models import Suggestion
from reflection.consolidation.sources import Lesson

MIN_USED_SHARE = 0.05  # of the runs that were given a lesson: followed it
MIN_USES = 20  # before the use of a lesson is judged
UNUSED_DAYS = 180  # without having been given to an agent
AUTHOR = Author(method="rules", version="1")


def suggest_retirements(project: Project, lessons: Sequence[Lesson]) -> list[Advice]:
    """Suggest retiring what is served without being useful. Six queries, however many lessons there are."""
    served = [lesson for lesson in lessons if lesson.status == Heuristic.Status.APPROVED]
    if not served:
        return []
    given = count_by_heuristic([project.pk])
    uses = find_uses([lesson.id for lesson in served])
    return [
        advice
        for lesson in served
        if (advice := _suggest(lesson, given.get(lesson.id), uses.get(lesson.id, []))) is not None
    ]


def used_lessons(project: Project) -> list[UUID]:
    """Return the lessons that have a verdict, or had one before its run was erased."""
    judged: Any = UsageVerdict.objects.filter(project=project).order_by().values_list("heuristic_id", flat=True)
    counted: Any = Heuristic.objects.for_project(project).exclude(usefulness_version="").values_list("pk", flat=True)
    return sorted({*judged.distinct(), *counted})


def _suggest(lesson: Lesson, given: OutcomeCount | None, uses: Iterable[Use]) -> Advice | None:
    uses = list(uses)
    times, last_at = (given.answers, given.last_at) if given else (0, None)
    # Found for several lessons together, harm says nothing about this one alone.
    if lesson.harm and not lesson.harm["together"]:
        reason = f"By chance alone some runs were not given it, and they did better: {describe_harm(lesson.harm)}."
        return _retire(lesson, reason, [], occasion=f"harmful/{lesson.harm['since']}")
    if times >= MIN_USES and len(uses) >= MIN_USES:
        followed = sum(use.verdict == UsageVerdict.Verdict.FOLLOWED for use in uses)
        if followed / len(uses) < MIN_USED_SHARE:
            reason = f"It was given {times} times; {followed} of {len(uses)} runs followed it."
            # By doubling: a person who said no is asked again only after twice as many answers.
            return _retire(lesson, reason, uses[:5], occasion=f"idle/{int(log2(times))}")
    approved_at = lesson.revision.approved_at or lesson.created_at
    # A lesson that was approved only lately has had no time to be given.
    idle = timezone.now() - max(last_at or approved_at, approved_at)
    if idle >= timedelta(days=UNUSED_DAYS):
        since = "since it was approved" if last_at is None else "since it was last given to an agent"
        reason = f"{idle.days} days have passed {since}, so no recent task came near it."
        return _retire(lesson, reason, [], occasion=f"unused/{idle.days // UNUSED_DAYS}")
    return None


def _retire(lesson: Lesson, reason: str, uses: Iterable[Use], *, occasion: str) -> Advice:
    return Advice(
        kind=Suggestion.Kind.RETIRE,
        heuristic_id=lesson.id,
        content_sha256=lesson.revision.content_sha256,
        reason=reason,
        author=AUTHOR,
        support=tuple(Support(trajectory_id=use.trajectory_id) for use in uses),
        tokens_saved=lesson.tokens,
        occasion=occasion,
    )
