"""What a run did with the lessons it was given, read from its calls: without a language model, and only where it shows.

A lesson that names tools can be checked: was what its condition names about to happen, and had what it asks for
happened by then? Everything else stays unclear, which counts for nothing.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from memory.effects.models import UsageVerdict
from memory.effects.uses import refresh_uses
from memory.heuristics.models import HeuristicRevision
from memory.projects.models import Project
from memory.retrieval.replay import find_injected_wordings
from memory.runs.episode import Episode
from memory.runs.models import Trajectory

JUDGE, VERSION = "rules", "1"
MAX_RUNS = 200

_NAMED = re.compile(r"`([^`\n]{1,60})`|\b([a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b")
_Verdict = UsageVerdict.Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Judgement:
    """Whether one run followed one lesson, and the step that shows it."""

    revision: HeuristicRevision
    verdict: str
    step: int | None = None


def judge_by_calls(revision: HeuristicRevision, episode: Episode) -> Judgement:
    """Judge a lesson by the tools it names and the calls of a run, in their order."""
    first: dict[str, int] = {}
    for step in episode.steps:
        if step.action:
            first.setdefault(step.action.name, step.index)
    condition = _names(revision.trigger)
    # A tool in the condition is what the run was about to call, not what it is asked to do.
    asked = [name for name in _names(revision.guideline) if name not in condition]
    occurred = [first[name] for name in condition if name in first]
    if not first or not (condition or asked):
        return Judgement(revision=revision, verdict=_Verdict.UNCLEAR)
    if condition and not occurred:
        return Judgement(revision=revision, verdict=_Verdict.NOT_APPLICABLE)
    deadline = min(occurred, default=None)
    # What comes after the deadline came too late to follow the advice.
    done = [first[name] for name in asked if name in first and (deadline is None or first[name] <= deadline)]
    if done:
        return Judgement(revision=revision, verdict=_Verdict.FOLLOWED, step=min(done))
    if asked and deadline is not None:
        return Judgement(revision=revision, verdict=_Verdict.CONTRADICTED, step=deadline)
    return Judgement(revision=revision, verdict=_Verdict.UNCLEAR)


def find_unjudged(project: Project) -> QuerySet[Trajectory]:
    """Return the newest runs that were given lessons and have not been judged."""
    judged = UsageVerdict.objects.of_judges().filter(trajectory=OuterRef("pk"))
    runs = Trajectory.objects.for_project(project).filter(retrieval__isnull=False, retrieval__injected_ids__len__gt=0)
    return runs.filter(~Exists(judged)).select_related("retrieval").order_by("-created_at", "-pk")[:MAX_RUNS]


def find_given(trajectories: Iterable[Trajectory]) -> dict[UUID, list[HeuristicRevision]]:
    """Return the wordings each run was given, in one query."""
    answers = {trajectory.pk: trajectory.retrieval for trajectory in trajectories if trajectory.retrieval is not None}
    wordings = find_injected_wordings(answers.values())
    return {trajectory_id: wordings[answer.pk] for trajectory_id, answer in answers.items()}


@transaction.atomic
def record_verdicts(trajectory: Trajectory, judgements: Iterable[Judgement], *, judge: str, version: str) -> int:
    """Store what a judge found in a run, replacing earlier verdicts; return how many verdicts count."""
    rows = [
        UsageVerdict(
            project_id=trajectory.project_id,
            heuristic_id=judgement.revision.heuristic_id,
            trajectory=trajectory,
            retrieval_id=trajectory.retrieval_id,
            content_sha256=judgement.revision.content_sha256,
            verdict=judgement.verdict,
            step=judgement.step,
            judge=judge,
            judge_version=version,
        )
        for judgement in judgements
        if judgement.revision.project_id == trajectory.project_id
    ]
    UsageVerdict.objects.bulk_create(
        rows,
        # A newer judge replaces the verdict of an older one instead of counting twice.
        update_conflicts=True,
        unique_fields=["heuristic", "trajectory", "client"],
        update_fields=["verdict", "step", "judge", "judge_version", "content_sha256", "retrieval"],
    )
    refresh_uses({row.heuristic_id for row in rows})
    return sum(row.verdict != _Verdict.UNCLEAR for row in rows)


def _names(text: str) -> list[str]:
    """Return the names of tools and parameters in a text: words in backticks, or joined by underscores."""
    return list(dict.fromkeys(quoted or snake for quoted, snake in _NAMED.findall(text)))
