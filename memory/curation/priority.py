"""The order of the review queue: what a reviewer sees first is what a decision affects most (reference: ERL (b) 5).

    priority = traffic · uncertainty · harm · gain

Traffic is the mean similarity to those of the project's newest tasks that the lesson fits, as retrieval has it; the
runs it was learnt from do not count. Uncertainty falls with the number of runs it was seen in, and
with the reflector's confidence, if stated, the further it is from a half. Harm grows with what the checks found, with a
scope of the whole project, and if an earlier wording is in use. Gain grows with the share of the failures on record
that the lesson would have met, and falls with the share of the successes that did what it says to avoid; it is 1 where
neither is known.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import structlog
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Q
from django.utils import timezone

from memory.heuristics.extensions import Tally, find_flags, find_tallies
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.index.recent_tasks import find_projects_to_remember, remember_tasks
from memory.retrieval.ranking import FLOORS, FOREIGN_WORDS_FLOOR
from memory.retrieval.scoring import (
    FLOOR_CHARACTERS,
    GROWTH,
    LONGEST,
    MEANING_WEIGHT,
    SHARED_WORDS,
    SHORTEST,
    UNSHARED_SHARE,
)

log = structlog.get_logger(__name__)

BATCH = 100
VALID_FOR = timedelta(hours=1)
SHOWN_TASKS = 12

# How similar each recent task is to the best-matching text of a lesson's newest wording, where that is enough to be
# given it: what a lesson says counts by its meaning, an earlier task by meaning and words (`measure_fit`). Names are
# not looked for. Where one of the two has no vector, or the model does not know the task's language, words decide.
_SIMILARITY = f"""
SELECT v.heuristic_id, t.trajectory_id, t.recorded_at, max(fit.similarity) AS similarity,
       bool_or(fit.similarity >= CASE WHEN fit.has_meaning THEN t.floor WHEN t.language = 'english'
                                 THEN {FLOORS["lexical"]} ELSE {FOREIGN_WORDS_FLOOR} END) AS fits
FROM memory_heuristic h
JOIN memory_heuristicembedding v ON v.revision_id = h.current_revision_id
JOIN (
    SELECT s.*, CASE WHEN m.floors IS NULL THEN {FLOORS["hybrid"]} ELSE (m.floors ->> s.language)::float8
           + coalesce((m.floors ->> '{GROWTH}')::float8, 0)
             * log(2, least(greatest(s.length, {SHORTEST}), {LONGEST}) / {FLOOR_CHARACTERS}.0)::float8 END AS floor
    FROM (
        SELECT t.*, memory_language(r.task) AS language, length(r.task) AS length
        FROM memory_taskvector t JOIN memory_trajectory r ON r.id = t.trajectory_id
        WHERE t.project_id IN (SELECT project_id FROM memory_heuristic WHERE id = ANY(%(ids)s)) OFFSET 0
    ) s JOIN memory_embeddingmodel m ON m.id = s.embedding_model_id
) t ON t.project_id = h.project_id AND t.embedding_model_id = v.embedding_model_id
CROSS JOIN LATERAL (SELECT -(v.vector <#> t.vector) AS meaning, -(v.terms <#> t.terms) AS words) AS near
CROSS JOIN LATERAL (
    SELECT near.meaning IS NOT NULL AND t.floor IS NOT NULL AS has_meaning,
           CASE WHEN near.meaning IS NULL OR t.floor IS NULL THEN coalesce(near.words, 0) WHEN v.kind <> 'lesson'
           THEN {MEANING_WEIGHT} * near.meaning + {1 - MEANING_WEIGHT} * coalesce(near.words, 0)
           WHEN near.words < {SHARED_WORDS} THEN near.meaning - {UNSHARED_SHARE} * (1 - near.meaning)
           ELSE near.meaning END AS similarity
) AS fit
WHERE h.id = ANY(%(ids)s) AND NOT EXISTS (
    SELECT FROM memory_evidence e WHERE e.heuristic_id = h.id AND e.trajectory_id = t.trajectory_id)
GROUP BY v.heuristic_id, t.trajectory_id, t.recorded_at
"""  # noqa: S608 - constants
_COUNT = f"""
SELECT heuristic_id, count(*) FILTER (WHERE fits), count(*), coalesce(sum(similarity) FILTER (WHERE fits), 0)
FROM ({_SIMILARITY}) s GROUP BY heuristic_id
"""  # noqa: S608 - constants of this module
_SHOW = f"""
SELECT r.id, left(r.task, 300), r.outcome, r.created_at,
    EXISTS (SELECT FROM memory_retrieval a WHERE a.id = r.retrieval_id AND a.injected_ids <> '{{}}'),
    count(*) OVER ()
FROM ({_SIMILARITY}) s JOIN memory_trajectory r ON r.id = s.trajectory_id
WHERE s.fits
ORDER BY s.recorded_at DESC, r.id DESC LIMIT %(limit)s
"""  # noqa: S608 - constants of this module


@dataclass(frozen=True, kw_only=True, slots=True)
class FittingTask:
    """A recorded task that a lesson fits, and how its run ended."""

    trajectory_id: UUID
    task: str
    outcome: str
    recorded_at: datetime
    had_lessons: bool
    found: int  # how many fit in all


@dataclass(frozen=True, kw_only=True, slots=True)
class _Fit:
    """How many recent tasks a lesson fits, out of how many, and the sum of its similarity to those."""

    matches: int = 0
    tasks: int = 0
    similarity: float = 0


def find_fitting_tasks(heuristic: Heuristic) -> list[FittingTask]:
    """Return the newest recorded tasks that a heuristic's newest wording fits, newest first. One query, bounded."""
    with connection.cursor() as cursor:
        cursor.execute(_SHOW, {"ids": [heuristic.pk], "limit": SHOWN_TASKS})
        rows = cursor.fetchall()
    # The columns of _SHOW are in the order of the fields.
    return [FittingTask(**dict(zip(FittingTask.__slots__, row, strict=True))) for row in rows]


@transaction.atomic
def prioritise_heuristics(heuristic_ids: Iterable[UUID]) -> int:
    """Work out the priority of these heuristics; return how many there were. A fixed number of queries."""
    ids = list(heuristic_ids)
    served_earlier = HeuristicRevision.objects.filter(heuristic=OuterRef("pk"), served=True).exclude(
        pk=OuterRef("current_revision")
    )
    rows = list(
        Heuristic.objects.filter(pk__in=ids)
        .select_for_update(of=("self",), skip_locked=True)  # rows being decided on now get their turn later
        .with_text()
        .annotate(replaces=Exists(served_earlier))
        .only("support", "confidence", "current_revision__scope")
    )
    counts = _count_fitting_tasks(ids)
    flags = find_flags(ids)
    tallies = find_tallies(ids)
    now = timezone.now()
    for row in rows:
        fit = counts.get(row.pk, _Fit())
        # Sorted, so that the stored list does not change from one time to the next.
        codes = sorted(flags.get(row.pk, ()))
        row.review_basis = weigh(
            row,
            fit=fit,
            flags=codes,
            replaces=row.replaces,  # type: ignore[attr-defined]
            tally=tallies.get(row.pk),
        )
        row.review_priority = row.review_basis["priority"]
        row.risk_flags = codes
        row.prioritised_at = now
    Heuristic.objects.bulk_update(rows, ["review_basis", "review_priority", "risk_flags", "prioritised_at"])
    return len(rows)


def weigh(
    heuristic: Heuristic, *, fit: _Fit, flags: list[str], replaces: bool, tally: Tally | None = None
) -> dict[str, Any]:
    """Return the priority and what it is made of."""
    revision = heuristic.current_revision
    broad = revision is not None and revision.scope == HeuristicRevision.Scope.PROJECT
    traffic = (fit.similarity + FLOORS["hybrid"]) / (fit.tasks + 1)  # without any task: as if one just fitted
    # As the standard error of a mean falls with the number of observations.
    uncertainty = max(1, heuristic.support) ** -0.5
    if heuristic.confidence is not None:
        uncertainty *= 1 - abs(2 * heuristic.confidence - 1) / 2
    harm = 1 + (0.5 + 0.5 * len(flags) if flags else 0) + 0.5 * broad + 0.5 * replaces
    gain = 1.0
    if tally is not None:
        gain += tally.failures_met / max(1, tally.failures)
        gain -= 0.5 * (tally.successes_contradicted or 0) / max(1, tally.successes)
    return {
        "priority": round(traffic * uncertainty * harm * gain, 6),
        "matches": fit.matches,
        "tasks": fit.tasks,
        "traffic": round(traffic, 4),
        "uncertainty": round(uncertainty, 4),
        "harm": round(harm, 2),
        "gain": round(gain, 4),
        "tally": asdict(tally) if tally else None,
        "flags": flags,
        "broad": broad,
        "replaces": replaces,
    }


def prioritise_queue() -> int:
    """Update the order of the queue: proposals without a priority first, then those whose priority is old.

    Returns:
        how many were looked at; 0 where everything is up to date.
    """
    # Traffic is measured against these tasks, so they come before the proposals.
    for project_id in find_projects_to_remember():
        remember_tasks(project_id)
    old = Q(prioritised_at__isnull=True) | Q(prioritised_at__lt=timezone.now() - VALID_FOR)
    waiting = Heuristic.objects.proposed().filter(old).order_by(F("prioritised_at").asc(nulls_first=True))
    ids = list(waiting.values_list("pk", flat=True)[:BATCH])
    return prioritise_heuristics(ids) if ids else 0


def _count_fitting_tasks(ids: list[UUID]) -> dict[UUID, _Fit]:
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, {"ids": ids})
        return {
            heuristic_id: _Fit(matches=matches, tasks=tasks, similarity=similarity)
            for heuristic_id, matches, tasks, similarity in cursor.fetchall()
        }
