"""The statements that find candidates, in SQL.

They name the views `servable_…` alone: what is not approved cannot be read here (reliability C3).
"""

from functools import lru_cache

from memory.retrieval.indexed import AMONG_POOL, DISTANCE, IndexPlan
from memory.retrieval.scoring import COUNTED_TASKS, STANDS_FOR_TASKS, STANDS_FOR_TASKS_FIRST, VOTES

_FILTERED = """
    JOIN servable_heuristic f ON f.id = v.revision_id
        AND (cardinality(%(task_ids)s::text[]) = 0 OR f.task_id = ANY(%(task_ids)s::text[])
            OR f.scope = 'project' AND EXISTS (
                SELECT FROM servable_evidence e JOIN servable_outcome o ON o.id = e.trajectory_id
                WHERE e.heuristic_id = v.heuristic_id AND o.task_id = ANY(%(task_ids)s::text[])))
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
), likenesses AS (
    SELECT texts.*, w.weight * coalesce(meaning, 0) + (1 - w.weight) * coalesce(words, 0) AS likeness
    FROM texts
    CROSS JOIN LATERAL (SELECT CASE kind WHEN 'lesson' THEN %(weight)s ELSE %(task_weight)s END AS weight) w
), lessons AS (
    SELECT revision_id,
           max(likeness) FILTER (WHERE kind = 'lesson') AS own,
           max(meaning) FILTER (WHERE kind = 'lesson') AS meaning,
           max(words) FILTER (WHERE kind = 'lesson') AS words,
           (array_agg(likeness ORDER BY likeness DESC) FILTER (WHERE kind <> 'lesson'))[1:{counted}] AS tasks,
           (array_agg(trajectory_id ORDER BY likeness DESC, trajectory_id)
            FILTER (WHERE kind <> 'lesson'))[1] AS trajectory_id
    FROM likenesses GROUP BY revision_id
), votes AS (
    SELECT lessons.*, greatest(own - %(noise)s, 0) ^ 2 AS said,
           (SELECT coalesce(sum(greatest(task - %(task_noise)s, 0) ^ 2), 0) FROM unnest(tasks) AS task) AS seen
    FROM lessons
), scored AS (
    SELECT votes.*, coalesce(own, 0) + {votes} * sqrt(said + greatest(seen, {stands} * said)) AS score,
           coalesce(own, 0) + {votes} * sqrt(said + greatest(seen, {stands_first} * said)) AS lead
    FROM votes
)
SELECT {columns}, s.own, s.meaning, s.words, s.tasks[1], s.score, s.lead,
       coalesce(t.task, left(r.source_task, 300)), v.vector, s.revision_id
FROM scored s
JOIN servable_heuristic r ON r.id = s.revision_id
LEFT JOIN servable_source t ON t.trajectory_id = s.trajectory_id
LEFT JOIN servable_text v
    ON v.revision_id = s.revision_id AND v.kind = 'lesson' AND v.embedding_model_id = (SELECT model FROM query)
ORDER BY s.score DESC, r.heuristic_id
"""

# Lessons that name what the task names, where there are any.
_OR_NAMED = """
    UNION
    SELECT v.revision_id FROM servable_text v {filtered}
    WHERE v.project_id = %(project)s AND v.embedding_model_id = (SELECT model FROM query)
      AND v.revision_id = ANY(%(named)s::uuid[])"""
_SCORING = {
    "votes": VOTES,
    "counted": COUNTED_TASKS,
    "stands": STANDS_FOR_TASKS,
    "stands_first": STANDS_FOR_TASKS_FIRST,
    "columns": _COLUMNS,
}

DRAW = f"""
SELECT {_COLUMNS}, NULL, NULL, NULL, NULL, 0, 0, r.source_task, NULL, NULL
FROM servable_heuristic r
WHERE r.id IN (
    SELECT v.revision_id
    FROM (SELECT id AS revision_id, heuristic_id FROM servable_heuristic WHERE project_id = %(project)s) v {_FILTERED}
    ORDER BY md5(%(seed)s || v.heuristic_id::text) LIMIT %(limit)s)
ORDER BY md5(%(seed)s || r.heuristic_id::text)
"""  # noqa: S608

# What an answer says of lessons that were found in memory, each with the likest task it was learnt from.
ROWS = f"""
SELECT p.revision_id, p.trajectory_id, {_COLUMNS},
       coalesce(t.task, left(r.source_task, 300))
FROM unnest(%(revisions)s::uuid[], %(trajectories)s::uuid[]) AS p (revision_id, trajectory_id)
JOIN servable_heuristic r ON r.id = p.revision_id
LEFT JOIN servable_source t ON t.trajectory_id = p.trajectory_id
"""  # noqa: S608


@lru_cache(maxsize=256)
def write_search(plan: IndexPlan | None, *, width: int, filtered: bool, named: bool) -> str:
    """Write the search of a project, by its index or of everything, with filters and named lessons or without."""
    filters = _FILTERED if filtered else ""
    return _SEARCH.format(
        pool=plan.write_pool(filters, width=width) if plan is not None else "",
        distance=DISTANCE,
        among=AMONG_POOL if plan is not None else f"servable_text v {filters}",
        named=_OR_NAMED.format(filtered=filters) if named else "",
        **_SCORING,
    )
