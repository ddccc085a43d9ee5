"""The search of large projects: what an index finds is compared exactly, instead of everything.

An index belongs to one project and one model, so that no filter stands between it and its rows, and a project of few
texts never goes through the neighbourhoods of others. Two halves are brought together: the nearest vectors, and the
texts with the task's rarest words, as many words as occur in `MATCHES` texts together. A statement that took any text
with any word would read most of the project. Where even the rarest words are in more texts than that, as they are among
a million, the texts with two of them are taken. What was found is compared with the task where it is found; only the
lessons that come first by it are then compared by all of their texts.
"""

import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from memory.retrieval.database import read_prepared

FIRST_BREADTH = 60  # texts taken by their vectors; `hnsw.ef_search` of the connection is the same
USUAL_LIMIT = 40  # lessons that are wanted of a search; where more are, more is taken in proportion
# For the first breadth; a larger one takes more in proportion, too.
MATCHES = 1000  # texts that the rare words of a task may occur in together
ENOUGH = 3  # rare words; where a task has fewer, texts with two of its other words are looked for
PAIRED = 10  # words of a task that are paired: the rarest of those that are too frequent by themselves
KEPT = 2  # lessons of which all texts are compared, for each that is wanted: the likest by the texts that were found
PAIR_MATCHES = 2000  # texts that the pairs are expected to occur in, were words independent of each other
KNOWN_SECONDS = 10.0  # how long a process may not know of a new index; without one the search compares everything
_SAFE_MODEL = re.compile(r"[A-Za-z0-9 ._@:/+-]+")

_READY = """
SELECT project_id, embedding_model_id, m.dimensions, max(breadth)
FROM memory_searchindex JOIN memory_embeddingmodel m ON m.id = embedding_model_id
GROUP BY project_id, embedding_model_id, m.dimensions
"""

# The project and the model stand in the text: a parameter would not be known to be those of the index.
_POOL = """, counted AS MATERIALIZED (
    SELECT w.term, c.texts, sum(c.texts) OVER (ORDER BY c.texts, w.term) AS matches
    FROM memory_terms(%(project)s, %(text)s) w
    JOIN memory_termcount c ON c.project_id = %(project)s AND c.term = w.term AND c.texts > 0
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
), found AS MATERIALIZED (
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
    SELECT revision_id FROM found GROUP BY revision_id ORDER BY min(distance), revision_id LIMIT {kept} * %(limit)s
)"""
# Of one text to the task, in meaning and words together.
DISTANCE = """%(weight)s * coalesce(v.vector <#> (SELECT vector FROM query), 0)
               + (1 - %(weight)s) * coalesce(v.terms <#> (SELECT terms FROM query), 0)"""
AMONG_POOL = "pool JOIN servable_text v USING (revision_id)"


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexPlan:
    """An index that may be used."""

    project_id: UUID
    model: str
    dimensions: int
    breadth: int

    def write_pool(self, filtered: str, *, width: int) -> str:
        """Write the part of the statement that takes from the index what is then compared.

        `width` is how many times the usual number of lessons is wanted (`get_width`).
        """
        breadth = self.breadth * width
        share = breadth / FIRST_BREADTH
        matches, pair_matches = round(MATCHES * share), round(PAIR_MATCHES * share)
        return _POOL.format(
            filtered=filtered,
            project=self.project_id,
            model=self.model,
            dimensions=self.dimensions,
            breadth=breadth,
            distance=DISTANCE,
            kept=KEPT,
            matches=matches,
            enough=ENOUGH,
            paired=PAIRED,
            pair_matches=pair_matches,
            most_matches=2 * matches,  # counts may lag behind
            most_pair_matches=2 * pair_matches,
        )


def get_width(limit: int) -> int:
    """Return how many times as much as usual is to be taken from an index, where so many lessons are wanted."""
    return -(-limit // USUAL_LIMIT)


class IndexPlans:
    """Remembers which projects have an index, so that not every task asks for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: Mapping[tuple[UUID, str], IndexPlan] = {}
        self._known_until = 0.0

    def find(self, project_id: UUID, model: str) -> IndexPlan | None:
        """Return how to search a project by its index, or None where everything is to be compared."""
        if time.monotonic() > self._known_until:
            with self._lock:
                rows = read_prepared(_READY, {})
                self._plans = {
                    (project, name): IndexPlan(project_id=project, model=name, dimensions=size, breadth=breadth)
                    for project, name, size, breadth in rows
                    if _SAFE_MODEL.fullmatch(name)
                }
                self._known_until = time.monotonic() + KNOWN_SECONDS
        return self._plans.get((project_id, model))

    def forget(self) -> None:
        """Ask again the next time."""
        self._known_until = 0.0


def is_indexable(model: str) -> bool:
    """Tell whether a model's name may stand in a statement."""
    return _SAFE_MODEL.fullmatch(model) is not None


index_plans = IndexPlans()
