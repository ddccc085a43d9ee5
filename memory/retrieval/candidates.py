"""Which lessons come into question for a task: one SQL round trip over what is served, and nothing else.

Every served text of a project is compared with the task, in meaning and in words. The lessons with the nearest texts
are then scored by all of their texts (docs/retrieval.md derives the formula): the lesson's own text counts once, and
the tasks it was learnt from vote with the squares of what they have above noise, three of them at most.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from memory.retrieval.answer import Filters
from memory.retrieval.database import QueryVector, execute_prepared

# Weight of the cosine of vectors; the rest is the cosine of words. A short task has few words to share, and the one
# vector of a long one blurs.
SHORT_MEANING_WEIGHT, LONG_MEANING_WEIGHT, SHORT_CHARACTERS = 0.5, 0.2, 150
NOISE = 0.2  # cosine of vectors below which a likeness says nothing
OWN_VOTE = 1.25  # of the lesson's own text against one task it was learnt from
VOTES = 5.0  # of the votes together against the lesson's own likeness

_FILTERED = """
    JOIN memory_heuristicrevision f ON f.id = v.revision_id
        AND (cardinality(%(task_ids)s::text[]) = 0 OR f.task_id = ANY(%(task_ids)s::text[]))
        AND f.tags @> %(tags)s::text[]
        AND (cardinality(%(polarities)s::text[]) = 0 OR f.polarity = ANY(%(polarities)s::text[]))
        AND (cardinality(%(agents)s::text[]) = 0 OR EXISTS (
            SELECT FROM memory_evidence e JOIN memory_trajectory t ON t.id = e.trajectory_id
            WHERE e.heuristic_id = v.heuristic_id AND t.agent = ANY(%(agents)s::text[])))
"""

_COLUMNS = """
    r.heuristic_id, r.number, r.content_sha256, r.trigger, r.guideline, r.avoid, r.not_when, r.rationale, r.polarity,
    r.scope, r.task_id, r.tags, h.support
"""

# `query` and `texts` are evaluated once: folded into what follows, a distance would be computed five times. A vector of
# another model than the searched one is not compared: it may be longer.
_SEARCH = """
WITH query AS MATERIALIZED (
    SELECT m.id AS model,
           CASE WHEN m.id = %(model)s THEN %(vector)b::halfvec END AS vector,
           memory_query_vector(%(project)s, %(text)s) AS terms
    FROM memory_embeddingmodel m
    WHERE CASE WHEN %(searched)s::text IS NULL THEN m.active ELSE m.id = %(searched)s END
), nearest AS (
    SELECT v.revision_id
    FROM memory_heuristicembedding v {filtered}
    WHERE v.project_id = %(project)s AND v.served AND v.embedding_model_id = (SELECT model FROM query)
    GROUP BY v.revision_id
    ORDER BY min(%(weight)s * coalesce(v.vector <#> (SELECT vector FROM query), 0)
               + (1 - %(weight)s) * coalesce(v.terms <#> (SELECT terms FROM query), 0)), v.revision_id
    LIMIT %(limit)s
), texts AS MATERIALIZED (
    SELECT v.revision_id, v.kind, v.trajectory_id,
           -(v.vector <#> (SELECT vector FROM query)) AS meaning,
           -(v.terms <#> (SELECT terms FROM query)) AS words
    FROM nearest
    JOIN memory_heuristicembedding v USING (revision_id)
    WHERE v.embedding_model_id = (SELECT model FROM query)
), likenesses AS (
    SELECT *, %(weight)s * coalesce(meaning, 0) + (1 - %(weight)s) * coalesce(words, 0) AS likeness FROM texts
), lessons AS (
    SELECT revision_id,
           max(likeness) FILTER (WHERE kind = 'lesson') AS own,
           max(meaning) FILTER (WHERE kind = 'lesson') AS meaning,
           max(words) FILTER (WHERE kind = 'lesson') AS words,
           (array_agg(likeness ORDER BY likeness DESC) FILTER (WHERE kind <> 'lesson'))[1:3] AS tasks,
           (array_agg(trajectory_id ORDER BY likeness DESC) FILTER (WHERE kind <> 'lesson'))[1] AS trajectory_id
    FROM likenesses GROUP BY revision_id
), scored AS (
    SELECT lessons.*, coalesce(own, 0) + {votes} * sqrt(
        ({own_vote} * greatest(own - %(noise)s, 0)) ^ 2 + greatest(tasks[1] - %(noise)s, 0) ^ 2
        + greatest(tasks[2] - %(noise)s, 0) ^ 2 + greatest(tasks[3] - %(noise)s, 0) ^ 2
    ) AS score
    FROM lessons
)
SELECT {columns}, s.own, s.meaning, s.words, s.tasks[1], s.score, left(coalesce(t.task, r.source_task), 300), v.vector
FROM scored s
JOIN memory_heuristicrevision r ON r.id = s.revision_id
JOIN memory_heuristic h ON h.id = r.heuristic_id
LEFT JOIN memory_trajectory t ON t.id = s.trajectory_id
LEFT JOIN memory_heuristicembedding v
    ON v.revision_id = s.revision_id AND v.kind = 'lesson' AND v.embedding_model_id = (SELECT model FROM query)
ORDER BY s.score DESC, r.heuristic_id
"""

_SCORING = {"votes": VOTES, "own_vote": OWN_VOTE, "columns": _COLUMNS}
_SEARCH_ALL = _SEARCH.format(filtered="", **_SCORING)
_SEARCH_FILTERED = _SEARCH.format(filtered=_FILTERED, **_SCORING)

_DRAW = f"""
SELECT {_COLUMNS}, NULL, NULL, NULL, NULL, 0, r.source_task, NULL
FROM memory_heuristicrevision r JOIN memory_heuristic h ON h.id = r.heuristic_id
WHERE r.id IN (
    SELECT v.revision_id
    FROM (SELECT id AS revision_id, heuristic_id FROM memory_heuristicrevision
          WHERE project_id = %(project)s AND served) v {_FILTERED}
    ORDER BY md5(%(seed)s || v.heuristic_id::text) LIMIT %(limit)s)
ORDER BY md5(%(seed)s || r.heuristic_id::text)
"""  # noqa: S608


@dataclass(kw_only=True, slots=True)
class Candidate:
    """A served lesson with what speaks for it; a likeness is None where there is nothing to compare.

    `own` is the likeness of the lesson's own text, made of `meaning` and `words`; `task` that of the likest task it
    was learnt from, which is `matched_task`. `vector` is the lesson's own, as PostgreSQL sends it.
    """

    heuristic_id: UUID
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
    support: int
    own: float | None
    meaning: float | None
    words: float | None
    task: float | None
    score: float
    matched_task: str
    vector: bytes | None


def get_meaning_weight(task: str) -> float:
    """Return what meaning counts for a task, 0–1; words count for the rest."""
    share = min(1.0, SHORT_CHARACTERS / max(len(task), 1))
    return LONG_MEANING_WEIGHT + (SHORT_MEANING_WEIGHT - LONG_MEANING_WEIGHT) * share


def find_candidates(
    project_id: UUID,
    *,
    text: str,
    vector: QueryVector | None,
    model_id: str,
    filters: Filters,
    meaning_weight: float,
    limit: int,
    searched_model_id: str | None = None,
) -> list[Candidate]:
    """Return the `limit` lessons likest to a task, best first.

    Args:
        vector: of the task, by the model `model_id`; None compares words only.
        meaning_weight: 0 to 1; the rest is the weight of words.
        searched_model_id: whose vectors to search; None takes the active model.
    """
    parameters = {
        "project": project_id,
        "text": text,
        "vector": vector,
        "model": model_id,
        "searched": searched_model_id,
        "weight": meaning_weight,
        "noise": NOISE * meaning_weight,
        "limit": limit,
    }
    if filters == Filters():
        rows = execute_prepared(_SEARCH_ALL, parameters)
    else:
        rows = execute_prepared(_SEARCH_FILTERED, parameters | _filter_parameters(filters))
    return [_read(row) for row in rows]


def draw_candidates(project_id: UUID, *, seed: str, filters: Filters, limit: int) -> list[Candidate]:
    """Return a random sample of the served lessons: the same for the same seed and state."""
    parameters = _filter_parameters(filters) | {"project": project_id, "seed": seed, "limit": limit}
    return [_read(row) for row in execute_prepared(_DRAW, parameters)]


def _filter_parameters(filters: Filters) -> dict[str, Any]:
    return {
        "task_ids": list(filters.task_ids),
        "tags": list(filters.tags),
        "agents": list(filters.agents),
        "polarities": list(filters.polarities),
    }


def _read(row: tuple[Any, ...]) -> Candidate:
    return Candidate(**dict(zip(Candidate.__slots__, row, strict=True)))
