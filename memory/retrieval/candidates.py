"""Which lessons come into question for a task: one SQL round trip over what is served, and nothing else."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from memory.retrieval.answer import Filters
from memory.retrieval.database import QueryVector, execute_prepared

CANDIDATES = 100

_SERVED = """
    r.project_id = %(project)s AND r.served
    AND (cardinality(%(task_ids)s::text[]) = 0 OR r.task_id = ANY(%(task_ids)s::text[]))
    AND r.tags @> %(tags)s::text[]
    AND (cardinality(%(polarities)s::text[]) = 0 OR r.polarity = ANY(%(polarities)s::text[]))
    AND (cardinality(%(agents)s::text[]) = 0 OR EXISTS (
        SELECT FROM memory_evidence e JOIN memory_trajectory t ON t.id = e.trajectory_id
        WHERE e.heuristic_id = r.heuristic_id AND t.agent = ANY(%(agents)s::text[])))
"""

_SEARCH = f"""
WITH query AS (
    SELECT CASE WHEN %(lexical)s THEN
        (SELECT string_agg(quote_literal(lexeme), ' | ')::tsquery
         FROM unnest(to_tsvector('english', %(text)s)) WITH ORDINALITY AS u(lexeme, positions, weights, place)
         WHERE place <= 40)
    END AS words
), dense AS (
    SELECT revision_id, lesson, source_task, greatest(lesson, source_task) AS similarity FROM (
        SELECT v.revision_id,
               max(-(v.vector <#> q.vector)) FILTER (WHERE v.kind = 'lesson') AS lesson,
               max(-(v.vector <#> q.vector)) FILTER (WHERE v.kind <> 'lesson') AS source_task
        FROM memory_heuristicembedding v
        JOIN memory_heuristicrevision r ON r.id = v.revision_id AND {_SERVED}
        CROSS JOIN unnest(%(vectors)b::halfvec[]) AS q(vector)
        WHERE v.project_id = %(project)s AND v.embedding_model_id = %(model)s AND v.served
        GROUP BY v.revision_id
    ) best ORDER BY similarity DESC, revision_id LIMIT %(limit)s
), lexical AS (
    SELECT r.id AS revision_id, ts_rank_cd(r.search, query.words, 1) AS lexical
    FROM memory_heuristicrevision r, query
    WHERE {_SERVED} AND query.words IS NOT NULL AND r.search @@ query.words
    ORDER BY lexical DESC, r.id LIMIT %(limit)s
)
SELECT r.heuristic_id, r.id, r.number, r.content_sha256, r.trigger, r.guideline, r.avoid, r.not_when, r.rationale,
       r.polarity, r.scope, r.task_id, r.tags, r.source_task, h.support,
       d.lesson, d.source_task, l.lexical
FROM dense d FULL JOIN lexical l USING (revision_id)
JOIN memory_heuristicrevision r ON r.id = revision_id
JOIN memory_heuristic h ON h.id = r.heuristic_id
"""  # noqa: S608

_RANDOM = f"""
SELECT r.heuristic_id, r.id, r.number, r.content_sha256, r.trigger, r.guideline, r.avoid, r.not_when, r.rationale,
       r.polarity, r.scope, r.task_id, r.tags, r.source_task, h.support, NULL, NULL, NULL
FROM memory_heuristicrevision r JOIN memory_heuristic h ON h.id = r.heuristic_id
WHERE {_SERVED}
ORDER BY md5(%(seed)s || r.heuristic_id::text) LIMIT %(limit)s
"""  # noqa: S608


@dataclass(kw_only=True, slots=True)
class Candidate:
    """A served lesson with what speaks for it: cosines of its vectors, rank of its words; None where not found."""

    heuristic_id: UUID
    revision_id: UUID
    number: int
    content_sha256: str
    trigger: str
    guideline: str
    avoid: str
    not_when: str
    rationale: str
    polarity: str
    scope: str
    task_id: str
    tags: list[str]
    source_task: str
    support: int
    lesson: float | None
    task: float | None
    lexical: float | None


def find_candidates(
    project_id: UUID,
    *,
    text: str,
    vectors: list[QueryVector],
    model_id: str,
    filters: Filters,
    lexical: bool,
    limit: int = CANDIDATES,
) -> list[Candidate]:
    """Return the lessons nearest to the task by vector or by words, at most `limit` of each, in no order."""
    parameters = _parameters(project_id, filters) | {
        "text": text,
        "vectors": vectors,
        "model": model_id,
        "lexical": lexical,
        "limit": limit,
    }
    return [_read(row) for row in execute_prepared(_SEARCH, parameters)]


def draw_candidates(project_id: UUID, *, seed: str, filters: Filters, limit: int) -> list[Candidate]:
    """Return a random sample of the served lessons: the same for the same seed and state."""
    parameters = _parameters(project_id, filters) | {"seed": seed, "limit": limit}
    return [_read(row) for row in execute_prepared(_RANDOM, parameters)]


def _parameters(project_id: UUID, filters: Filters) -> dict[str, Any]:
    return {
        "project": project_id,
        "task_ids": list(filters.task_ids),
        "tags": list(filters.tags),
        "agents": list(filters.agents),
        "polarities": list(filters.polarities),
    }


def _read(row: tuple[Any, ...]) -> Candidate:
    return Candidate(**dict(zip(Candidate.__slots__, row, strict=True)))
