"""What would differ if the candidate answered: for a page, and for the API."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import Avg, Count, FloatField, IntegerField, Q, QuerySet, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from memory.heuristics.models import HeuristicRevision
from memory.projects.models import Project
from memory.releases.deployments import get_deployment
from memory.releases.models import Release
from runtime.models.changes import ComparisonVerdict, EvaluationRow, RowKind

MOST_FAMILIES, MOST_LESSONS = 50, 10  # lessons of each family
DIFFERS = Q(verdict=ComparisonVerdict.DIFFERS)

_LESSONS = """
SELECT family, change, lesson, answers FROM (
    SELECT r.task_id AS family, c.change, c.lesson, count(*) AS answers,
        row_number() OVER (PARTITION BY r.task_id ORDER BY count(*) DESC, c.change, c.lesson) AS place
    FROM agents_evaluationrow s
    JOIN memory_retrieval r ON r.id = s.retrieval_id
    CROSS JOIN LATERAL (
        SELECT f.change, jsonb_array_elements_text(s.figures -> f.change)::uuid AS lesson
        FROM unnest(ARRAY['added', 'removed', 'reworded']) f (change)
    ) c
    WHERE s.kind = 'answer' AND s.project_id = %(project)s
        AND s.stable_id = %(stable)s AND s.candidate_id = %(candidate)s
    GROUP BY 1, 2, 3
) AS counted WHERE place <= %(most)s ORDER BY family, place
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ShadowReport:
    """What was compared of two releases, and what differs. `is_on` says whether new answers are compared now.

    `seen` counts the answers since the comparison began, `dropped` those over the maximum a minute or too old, and
    `skipped` those that cannot be compared. `families` has for each task family how many answers were `compared` and
    are `differing`, and the `lessons` that are added, removed or reworded most often, as `{"heuristic", "change",
    "answers", "trigger"}`, where `trigger` is empty if its words were erased.
    """

    stable: Release
    candidate: Release
    is_on: bool
    percent: float
    per_minute: int
    seen: int
    compared: int
    dropped: int
    skipped: int
    differing: int
    stable_tokens: float | None
    candidate_tokens: float | None
    last_at: datetime | None
    families: list[dict[str, Any]]

    def answers(self, project: Project) -> QuerySet[EvaluationRow]:
        """Return the rows behind it, the newest first."""
        return find_rows(RowKind.ANSWER, project, self.stable, self.candidate).order_by("-at", "-id")

    @property
    def sentence(self) -> str:
        """Say in one sentence what was found."""
        names = f"Release {self.candidate.number}"
        if not self.compared:
            wait = "The first comparison comes about a minute after a request." if self.is_on else "Shadow is off."
            return f"{names} has not been compared with release {self.stable.number} yet. {wait}"
        share = self.differing / self.compared
        return (
            f"{names} would change {share:.0%} of the answers of release {self.stable.number}: "
            f"{self.differing:,} of {self.compared:,} that were compared."
        )


def find_rows(kind: RowKind, project: Project, stable: Release, candidate: Release) -> QuerySet[EvaluationRow]:
    """Return the rows of a kind about two releases of a project."""
    return EvaluationRow.objects.filter(kind=kind, project=project, stable=stable, candidate=candidate)


def describe_shadow(project: Project, candidate: Release | None = None) -> ShadowReport | None:
    """Return what was compared of a candidate; None where there is none. At most six queries.

    Args:
        candidate: a release that was compared before; None takes the one on trial now, else the last that was.
    """
    deployment = get_deployment(project)
    stable = deployment.stable
    on_trial = deployment.candidate
    if candidate is not None or on_trial is None:
        rows = EvaluationRow.objects.filter(kind=RowKind.MINUTE, project=project).select_related("stable", "candidate")
        last = (rows if candidate is None else rows.filter(candidate=candidate)).order_by("-at", "-id").first()
        if last is None and (candidate is None or candidate != on_trial):
            return None
        if last is not None:
            stable, candidate = last.stable, last.candidate
    candidate = candidate or on_trial
    if stable is None or candidate is None:
        return None
    # An old pair of releases can be looked at, but nothing new is compared for it.
    is_on = candidate == on_trial and stable == deployment.stable and deployment.shadow_share > 0
    counts = find_rows(RowKind.MINUTE, project, stable, candidate).aggregate(
        **{
            name: Sum(Cast(KT(f"figures__{name}"), IntegerField()), default=0)
            for name in ("seen", "dropped", "skipped")
        }
    )
    answers = find_rows(RowKind.ANSWER, project, stable, candidate)
    figures = answers.aggregate(
        compared=Count("pk"),
        differing=Count("pk", filter=DIFFERS),
        **{name: Avg(Cast(KT(f"figures__{name}"), FloatField())) for name in ("stable_tokens", "candidate_tokens")},
    )
    last_answer = answers.order_by("-at").values_list("at", flat=True).first()
    return ShadowReport(
        stable=stable,
        candidate=candidate,
        is_on=is_on,
        percent=deployment.shadow_share / 10,
        per_minute=deployment.shadow_per_minute,
        last_at=last_answer,
        families=_describe_families(project, stable, candidate),
        **counts,
        **figures,
    )


def _describe_families(project: Project, stable: Release, candidate: Release) -> list[dict[str, Any]]:
    families = (
        find_rows(RowKind.ANSWER, project, stable, candidate)
        .values_list("retrieval__task_id")
        .annotate(compared=Count("pk"), differing=Count("pk", filter=DIFFERS))
        .order_by("-differing", "-compared", "retrieval__task_id")[:MOST_FAMILIES]
    )
    asked: dict[str, Any] = {
        "project": project.pk,
        "stable": stable.pk,
        "candidate": candidate.pk,
        "most": MOST_LESSONS,
    }
    with connection.cursor() as cursor:
        cursor.execute(_LESSONS, asked)
        rows = cursor.fetchall()
    # One query for the words of all lessons on the page.
    triggers = _find_triggers({lesson for _, _, lesson, _ in rows}, stable, candidate)
    lessons: dict[str, list[dict[str, Any]]] = {}
    for family, change, lesson, number in rows:
        described = {"heuristic": lesson, "change": change, "answers": number, "trigger": triggers.get(lesson, "")}
        lessons.setdefault(family, []).append(described)
    return [
        {"family": name, "compared": compared, "differing": differing, "lessons": lessons.get(name, [])}
        for name, compared, differing in families
    ]


def _find_triggers(lesson_ids: Iterable[UUID], *releases: Release) -> dict[UUID, str]:
    """Return when each lesson applies, in the words of the last of the releases that has it."""
    wanted = {str(id) for id in lesson_ids}
    revisions = [
        lesson["revision"]
        for release in releases
        for lesson in release.manifest["lessons"]
        if lesson["heuristic"] in wanted
    ]
    # In this order the later revision overwrites the earlier one in the dictionary.
    rows = HeuristicRevision.objects.filter(pk__in=revisions).order_by("number")
    return dict(rows.values_list("heuristic_id", "trigger"))
