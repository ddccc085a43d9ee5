"""The search in the database: every text of a project is compared with the task, or those that an index finds.

Statements name the views `servable_…` alone: what is not approved cannot be read here (reliability C3). They only find
lessons and say how similar their texts are to the task; scoring.py turns that into scores.

**By an index**, which holds all projects' vectors of one model: `hnsw.iterative_scan` goes on until it has found enough
of the project. A project with fewer texts than `INDEX_FROM_TEXTS` is compared as a whole. Two halves come together: the
nearest vectors, and the texts with the rarest words of the task, as many words as occur in `MATCHES` texts together;
taking any text with any word would read most of the project. Where even the rarest words are in more texts than that,
as among a million, the texts with two of them are taken. Each text is compared with the task where it is found, and
only the lessons that come first by that are then compared by all of their texts.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from memory.retrieval.database import QueryVector, read_prepared, reading_as_of
from memory.retrieval.families import OF_FAMILIES
from memory.retrieval.question import NO_FILTERS, Filters
from memory.retrieval.scoring import COUNTED_TASKS

FIRST_BREADTH = 60  # texts taken by their vectors; `hnsw.ef_search` of the connection is the same
USUAL_LIMIT = 40  # lessons that a search usually returns; for more of them, more is taken from an index in proportion
INDEX_FROM_TEXTS = 20_000  # served texts of a project from which on the index is asked
# For the first breadth; a larger one takes more in proportion, too.
MATCHES = 1000  # texts that the rare words of a task may occur in together
ENOUGH = 3  # rare words; where a task has fewer, texts with two of its other words are looked for
PAIRED = 10  # words of a task that are paired: the rarest of those that are too frequent by themselves
KEPT = 2  # lessons of which all texts are compared, for each that is wanted
PAIR_MATCHES = 2000  # texts that the pairs are expected to occur in, were words independent of each other
_SAFE_MODEL = re.compile(r"[A-Za-z0-9 ._@:/+-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """What to look for: the `limit` lessons whose texts are most like a task.

    Args:
        vector: of the task, by the model `model_id`; None compares words only.
        meaning_weight: what meaning counts, 0 to 1; words count for the rest.
        release_id: to search in; None searches all that is live.
        as_of: the moment at which lessons have to hold; None is now.
    """

    project_id: UUID
    task: str
    vector: QueryVector | None = None
    model_id: str = ""
    meaning_weight: float = 0.0
    filters: Filters = NO_FILTERS
    limit: int = USUAL_LIMIT
    release_id: UUID | None = None
    as_of: datetime | None = None


class UsableIndex(NamedTuple):
    """An index that a search may use, and how many texts it takes from it."""

    model_id: str
    dimensions: int
    breadth: int = FIRST_BREADTH


# Only what is in one release; without it, all that is live.
_OF_RELEASE = """
    JOIN servable_member k ON k.revision_id = v.revision_id AND k.release_id = %(release)s"""

_FILTERED = f"""
    JOIN servable_heuristic f ON f.id = v.revision_id
        AND {OF_FAMILIES.format(lesson="f")}
        AND f.tags @> %(tags)s::text[]
        AND (cardinality(%(polarities)s::text[]) = 0 OR f.polarity = ANY(%(polarities)s::text[]))
        AND (cardinality(%(agents)s::text[]) = 0 OR EXISTS (
            SELECT FROM servable_evidence e JOIN servable_source t USING (trajectory_id)
            WHERE e.heuristic_id = v.heuristic_id AND t.agent = ANY(%(agents)s::text[])))
"""

_COLUMNS = """
    r.heuristic_id, r.number, r.content_sha256, r.trigger, r.guideline, r.avoid, r.not_when, r.rationale, r.polarity,
    r.scope, r.task_id, r.tags, r.support, r.usefulness, r.client
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
){pool}, nearest AS (
    (SELECT v.revision_id
    FROM {among}
    WHERE v.project_id = %(project)s AND v.embedding_model_id = (SELECT model FROM query)
    GROUP BY v.revision_id
    ORDER BY min({distance}), v.revision_id
    LIMIT %(limit)s){named}
), texts AS MATERIALIZED (
    SELECT v.revision_id, v.kind, v.trajectory_id,
           -(v.vector <#> (SELECT vector FROM query)) AS meaning,
           -(v.terms <#> (SELECT terms FROM query)) AS words
    FROM nearest
    JOIN servable_text v USING (revision_id)
    WHERE v.embedding_model_id = (SELECT model FROM query)
), similarities AS (
    SELECT texts.*, %(weight)s * coalesce(meaning, 0) + (1 - %(weight)s) * coalesce(words, 0) AS similarity
    FROM texts
), found AS (
    SELECT revision_id,
           max(meaning) FILTER (WHERE kind = 'lesson') AS meaning,
           max(words) FILTER (WHERE kind = 'lesson') AS words,
           (array_agg(similarity ORDER BY similarity DESC) FILTER (WHERE kind <> 'lesson'))[1:{counted}] AS tasks,
           (array_agg(trajectory_id ORDER BY similarity DESC, trajectory_id)
            FILTER (WHERE kind <> 'lesson'))[1] AS trajectory_id
    FROM similarities GROUP BY revision_id
)
SELECT {columns}, coalesce(t.task, left(r.source_task, 300)), s.trajectory_id, s.revision_id, s.meaning, s.words,
       s.tasks, v.vector
FROM found s
JOIN servable_heuristic r ON r.id = s.revision_id
LEFT JOIN servable_source t ON t.trajectory_id = s.trajectory_id
LEFT JOIN servable_text v
    ON v.revision_id = s.revision_id AND v.kind = 'lesson' AND v.embedding_model_id = (SELECT model FROM query)
"""

# Of one text to the task, in meaning and words together.
_DISTANCE = """%(weight)s * coalesce(v.vector <#> (SELECT vector FROM query), 0)
               + (1 - %(weight)s) * coalesce(v.terms <#> (SELECT terms FROM query), 0)"""

# Lessons that name what the task names, where there are any.
_OR_NAMED = """
    UNION
    SELECT v.revision_id FROM servable_text v {filtered}
    WHERE v.project_id = %(project)s AND v.embedding_model_id = (SELECT model FROM query)
      AND v.revision_id = ANY(%(named)s::uuid[])"""

# The project and the model are part of the text: with parameters PostgreSQL could not tell that the index fits.
_POOL = """, counted AS MATERIALIZED (
    SELECT w.term, c.texts, sum(c.texts) OVER (ORDER BY c.texts, w.term) AS matches
    FROM memory_terms(%(project)s, %(text)s) w
    -- OFFSET: each word is looked up, since in a join the planner reads the counts of all words of the project.
    CROSS JOIN LATERAL (
        SELECT texts FROM memory_termcount
        WHERE project_id = %(project)s AND term = w.term AND texts > 0 OFFSET 0) c
), rare AS MATERIALIZED (
    SELECT array_agg(term) AS terms, count(*) AS words FROM counted WHERE matches <= {matches}
), frequent AS MATERIALIZED (
    SELECT term, texts FROM counted
    WHERE matches > {matches} AND (SELECT words FROM rare) < {enough}
    ORDER BY texts, term LIMIT {paired}
), pairs AS MATERIALIZED (
    SELECT terms FROM (
        SELECT ARRAY[one.term, other.term] AS terms,
               sum(one.texts::float * other.texts / s.texts)
                   OVER (ORDER BY one.texts::float * other.texts, one.term, other.term) AS matches
        FROM frequent one
        JOIN frequent other ON (one.texts, one.term) < (other.texts, other.term)
        JOIN memory_searchstatistics s ON s.project_id = %(project)s) expected
    WHERE matches <= {pair_matches}
), hits AS MATERIALIZED (
    (SELECT v.revision_id, {distance} AS distance FROM servable_text v {filtered}
     WHERE v.project_id = '{project}' AND v.embedding_model_id = '{model}'
     ORDER BY v.vector::halfvec({dimensions}) <#> %(vector)b::halfvec({dimensions}) LIMIT {breadth})
    UNION ALL
    (SELECT v.revision_id, {distance} FROM servable_text v {filtered}
     WHERE v.term_ids && (SELECT terms FROM rare)
       AND v.project_id = '{project}' AND v.embedding_model_id = '{model}'
     LIMIT {most_matches})
    UNION ALL
    (SELECT shared.* FROM pairs CROSS JOIN LATERAL (
        SELECT v.revision_id, {distance} FROM servable_text v {filtered}
        WHERE v.term_ids @> pairs.terms AND v.project_id = '{project}' AND v.embedding_model_id = '{model}'
        LIMIT {pair_matches}) shared
     LIMIT {most_pair_matches})
), pool AS MATERIALIZED (
    SELECT revision_id FROM hits GROUP BY revision_id ORDER BY min(distance), revision_id LIMIT {kept} * %(limit)s
)"""

_DRAW = f"""
SELECT {_COLUMNS}, r.source_task, NULL::uuid
FROM servable_heuristic r
WHERE r.id IN (
    SELECT v.revision_id
    FROM (SELECT id AS revision_id, heuristic_id FROM servable_heuristic WHERE project_id = %(project)s) v
    {{of_release}}{_FILTERED}
    ORDER BY md5(%(seed)s || v.heuristic_id::text) LIMIT %(limit)s)
ORDER BY md5(%(seed)s || r.heuristic_id::text)
"""  # noqa: S608

# What an answer says of lessons that were found in memory, each with the most similar task it was learnt from.
_ROWS = f"""
SELECT p.revision_id, p.trajectory_id, {_COLUMNS}, coalesce(t.task, left(r.source_task, 300)), p.trajectory_id
FROM unnest(%(revisions)s::uuid[], %(trajectories)s::uuid[]) AS p (revision_id, trajectory_id)
JOIN servable_heuristic r ON r.id = p.revision_id
LEFT JOIN servable_source t ON t.trajectory_id = p.trajectory_id
"""  # noqa: S608


def search_database(
    search: Search, *, index: UsableIndex | None = None, named: list[UUID] | None = None, model_id: str | None = None
) -> list[tuple[Any, ...]]:
    """Return a row for each lesson found: its columns, matched task and run, revision, meaning, words, tasks, vector.

    Args:
        index: to take texts from; None compares everything.
        named: revisions to return in any case, unless the filters leave them out.
        model_id: whose vectors to search; None takes the active model.
    """
    parameters = {
        "project": search.project_id,
        "text": search.task,
        "vector": search.vector,
        "model": search.model_id,
        "searched": model_id,
        "weight": search.meaning_weight,
        "limit": search.limit,
        "named": named,
        "release": search.release_id,
    }
    filtered = _OF_RELEASE if search.release_id is not None else ""
    if search.filters != NO_FILTERS:
        filtered += _FILTERED
        parameters |= _filter_parameters(search.filters)
    # Rounded up, so that a smaller limit takes no less than usual.
    width = -(-search.limit // USUAL_LIMIT)
    pool = (search.project_id, index, width) if index is not None and search.vector is not None else None
    with reading_as_of(search.as_of):
        return read_prepared(_write_search(pool, filtered=filtered, named=bool(named)), parameters)


def draw_rows(
    project_id: UUID,
    *,
    seed: str,
    filters: Filters,
    limit: int,
    release_id: UUID | None = None,
    as_of: datetime | None = None,
) -> list[tuple[Any, ...]]:
    """Return the columns and the matched task of lessons drawn at random, and no run: the same for the same state."""
    statement = _DRAW.format(of_release=_OF_RELEASE if release_id is not None else "")
    asked = {"project": project_id, "seed": seed, "limit": limit, "release": release_id}
    with reading_as_of(as_of):
        return read_prepared(statement, _filter_parameters(filters) | asked)


def read_rows(found: list[tuple[UUID, UUID | None]]) -> dict[tuple[UUID, UUID | None], tuple[Any, ...]]:
    """Return the first columns of such rows for revisions and, for each, the run whose task is the most similar."""
    parameters = {"revisions": [revision for revision, _ in found], "trajectories": [run for _, run in found]}
    return {(row[0], row[1]): row[2:] for row in read_prepared(_ROWS, parameters)}


def is_indexable(model_id: str) -> bool:
    """Tell whether the name of a model may stand in a statement."""
    return _SAFE_MODEL.fullmatch(model_id) is not None


def _filter_parameters(filters: Filters) -> dict[str, Any]:
    return {
        "task_ids": list(filters.task_ids),
        "tags": list(filters.tags),
        "agents": list(filters.agents),
        "polarities": list(filters.polarities),
    }


def _write_search(pool: tuple[UUID, UsableIndex, int] | None, *, filtered: str, named: bool) -> str:
    """Write the search of a project: by its index or of everything, with filters and named lessons or without."""
    among = f"servable_text v {filtered}"
    written = ""
    if pool is not None:
        project_id, index, width = pool
        breadth = index.breadth * width
        matches, pair_matches = (round(most * breadth / FIRST_BREADTH) for most in (MATCHES, PAIR_MATCHES))
        among = "pool JOIN servable_text v USING (revision_id)"
        written = _POOL.format(
            filtered=filtered,
            project=project_id,
            model=index.model_id,
            dimensions=index.dimensions,
            breadth=breadth,
            distance=_DISTANCE,
            kept=KEPT,
            matches=matches,
            enough=ENOUGH,
            paired=PAIRED,
            pair_matches=pair_matches,
            most_matches=2 * matches,  # counts may lag behind
            most_pair_matches=2 * pair_matches,
        )
    return _SEARCH.format(
        pool=written,
        distance=_DISTANCE,
        among=among,
        named=_OR_NAMED.format(filtered=filtered) if named else "",
        columns=_COLUMNS,
        counted=COUNTED_TASKS,
    )
