"""Which lessons come into question for a task: one SQL round trip over what is served, and nothing else.

Every served text of a project is compared with the task, in meaning and in words. The lessons with the nearest texts
are then scored by all of their texts, by the formula of scoring.py: the lesson's own text counts once, and the tasks
it was learnt from vote with the squares of what they have above noise.

The statements name the views `servable_…` alone: what is not approved cannot be read here (reliability C3).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias
from uuid import UUID

from memory.retrieval.answer import Filters
from memory.retrieval.database import QueryVector, execute_prepared, read_prepared
from memory.retrieval.indexed import AMONG_POOL, DISTANCE, IndexPlan, index_plans
from memory.retrieval.known import Known, digest
from memory.retrieval.naming import Naming, choose_added, find_named
from memory.retrieval.scoring import (
    COUNTED_TASKS,
    NAMES,
    NOISE,
    STANDS_FOR_TASKS,
    STANDS_FOR_TASKS_FIRST,
    VOTES,
    get_task_weight,
)
from memory.retrieval.snapshot import Found, Snapshot, Words
from memory.retrieval.snapshots import STATE, State, snapshots

# Weight of the cosine of vectors; the rest is the cosine of words. A short task has few words to share, and the one
# vector of a long one blurs.
SHORT_MEANING_WEIGHT, LONG_MEANING_WEIGHT, SHORT_CHARACTERS = 0.5, 0.2, 150

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

_DRAW = f"""
SELECT {_COLUMNS}, NULL, NULL, NULL, NULL, 0, 0, r.source_task, NULL, NULL
FROM servable_heuristic r
WHERE r.id IN (
    SELECT v.revision_id
    FROM (SELECT id AS revision_id, heuristic_id FROM servable_heuristic WHERE project_id = %(project)s) v {_FILTERED}
    ORDER BY md5(%(seed)s || v.heuristic_id::text) LIMIT %(limit)s)
ORDER BY md5(%(seed)s || r.heuristic_id::text)
"""  # noqa: S608

_WORDS_OF_TASK = ", memory_query_vector(%(project)s, %(text)s)"
# What an answer says of lessons that were found in memory, each with the likest task it was learnt from.
_ROWS = f"""
SELECT p.revision_id, p.trajectory_id, {_COLUMNS},
       coalesce(t.task, left(r.source_task, 300))
FROM unnest(%(revisions)s::uuid[], %(trajectories)s::uuid[]) AS p (revision_id, trajectory_id)
JOIN servable_heuristic r ON r.id = p.revision_id
LEFT JOIN servable_source t ON t.trajectory_id = p.trajectory_id
"""  # noqa: S608

KNOWN_TASKS = 128  # of 100 kB each
_known_candidates: Known[list["Candidate"]] = Known(KNOWN_TASKS)
_known_words: Known[tuple[State, Words]] = Known(KNOWN_TASKS)


How: TypeAlias = Literal["auto", "exact", "indexed"]


class Beside(Protocol):
    """Something else that is wanted of the database, and comes along with the state of a project."""

    parameters: dict[str, Any]

    @property
    def columns(self) -> str:
        """What is wanted, in SQL."""

    def take(self, columns: Sequence[Any], /) -> None:
        """Take it."""


class Candidate(NamedTuple):  # a dataclass takes ten times as long to make, and every task makes forty
    """A served lesson with what speaks for it; a likeness is None where there is nothing to compare.

    `own` is the likeness of the lesson's own text, made of `meaning` and `words`; `task` that of the likest task it
    was learnt from, which is `matched_task`. `lead` decides the first place, `score` all others. `vector` is the
    lesson's own, as PostgreSQL sends it. `naming` says what it names that the task names too.
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
    usefulness: float
    client: str
    own: float | None
    meaning: float | None
    words: float | None
    task: float | None
    score: float
    lead: float
    matched_task: str
    vector: bytes | None
    naming: Naming | None = None


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
    how: How = "auto",
    beside: Beside | None = None,
) -> list[Candidate]:
    """Return the `limit` lessons likest to a task, best first.

    Args:
        vector: of the task, by the model `model_id`; None compares words only.
        meaning_weight: 0 to 1; the rest is the weight of words.
        searched_model_id: whose vectors to search; None takes the active model.
        how: "exact" compares everything in the database, "indexed" uses the project's index if it has one, both
            without anything this process remembers; "auto" takes the cheapest way.
        beside: is asked along where the state of the project is asked for.
    """

    def ask() -> _Search:
        return _Search(
            project_id=project_id,
            text=text,
            vector=vector,
            model_id=model_id,
            filters=filters,
            meaning_weight=meaning_weight,
            limit=limit,
            named=find_named(project_id, text) if meaning_weight < 1 else {},  # meaning alone knows no names
        )

    if searched_model_id is not None or filters.agents:  # runs are recorded without any change of what is served
        return _search_database(ask(), searched_model_id)
    if how != "auto":
        return _search_database(ask(), None, how=how)
    name = digest(text)
    state, words = _read_state(project_id, text, name, beside)
    key = (project_id, state, name, model_id if vector else "", filters, meaning_weight, limit)
    if (known := _known_candidates.find(key)) is not None:
        return list(known)
    search = ask()
    found = _search_memory(search, state, words)
    if found is None:
        found = _search_database(search, None)
    _known_candidates.keep(key, found)
    return list(found)


def draw_candidates(project_id: UUID, *, seed: str, filters: Filters, limit: int) -> list[Candidate]:
    """Return a random sample of the served lessons: the same for the same seed and state."""
    parameters = _filter_parameters(filters) | {"project": project_id, "seed": seed, "limit": limit}
    return [_read(row, {}) for row in execute_prepared(_DRAW, parameters)]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Search:
    """What find_candidates was asked, and what names of the task are in lessons, by revision."""

    project_id: UUID
    text: str
    vector: QueryVector | None
    model_id: str
    filters: Filters
    meaning_weight: float
    limit: int
    named: Mapping[UUID, Naming]

    @property
    def added(self) -> list[UUID]:
        """The revisions that names bring into question."""
        return choose_added(self.named)


def _read_state(
    project_id: UUID, text: str, name: bytes, beside: Beside | None = None, *, anew: bool = False
) -> tuple[State, Words | None]:
    """Return what the project serves now, by name, and the words of a task if they are at hand.

    A new task needs its words, which come along; of a task that was asked before the answer is probably known.
    `anew` asks for the words in any case.
    """
    known = None if anew else _known_words.find((project_id, name))
    more, parameters = "", dict[str, Any](project=project_id)
    if known is None:
        more, parameters = _WORDS_OF_TASK, parameters | {"text": text}
    if beside is not None:
        more, parameters = f"{more}, {beside.columns}", beside.parameters | parameters
    ((*row,),) = read_prepared(_write_state(more), parameters)
    state, columns = State(*row[: len(State._fields)]), row[len(State._fields) :]
    words = known[1] if known is not None and known[0] == state else None
    if known is None:
        words = Words.read(columns.pop(0))
        _known_words.keep((project_id, name), (state, words))
    if beside is not None:
        beside.take(columns)
    return state, words


@lru_cache(maxsize=16)
def _write_state(more: str) -> str:
    return STATE.format(more=more)


def _search_memory(search: _Search, state: State, words: Words | None) -> list[Candidate] | None:
    """Find as the database would, in the snapshot of this state; None where there is no such snapshot."""
    if search.filters != Filters() or (search.vector is not None and search.model_id != state.model):
        return None
    snapshot = snapshots.find(search.project_id, state)
    if snapshot is None:
        return None
    if words is None:
        now, words = _read_state(search.project_id, search.text, digest(search.text), anew=True)
        if words is None or now != state:
            return None
    found = snapshot.search(
        vector=search.vector.as_numbers() if search.vector is not None else None,
        words=words,
        meaning_weight=search.meaning_weight,
        limit=search.limit,
        added=search.added,
    )
    rows = _read_rows(snapshot, state, found)
    candidates = [
        _read(
            (
                *row[:-1],
                *(one.own, one.meaning, one.words, one.task, one.score, one.lead, row[-1], one.vector),
                one.revision_id,
            ),
            search.named,
        )
        for one, row in zip(found, rows, strict=True)
        if row is not None  # a lesson that was withdrawn a moment ago has none any more
    ]
    return _sort(candidates)


def _read_rows(snapshot: Snapshot, state: State, found: list[Found]) -> list[tuple[Any, ...] | None]:
    """Return what the database says of each lesson found, and ask it only for what it was not asked before."""
    rows = [snapshot.rows.get((state.whole, *one.places)) for one in found]
    missing = [one for one, row in zip(found, rows, strict=True) if row is None]
    if missing:
        parameters = {
            "revisions": [one.revision_id for one in missing],
            "trajectories": [one.trajectory_id for one in missing],
        }
        read = {(row[0], row[1]): row[2:] for row in read_prepared(_ROWS, parameters)}
        sent = {one.places: read.get((one.revision_id, one.trajectory_id)) for one in missing}
        snapshot.keep({(state.whole, *places): row for places, row in sent.items() if row is not None})
        rows = [sent[one.places] if row is None else row for one, row in zip(found, rows, strict=True)]
    return rows


@lru_cache(maxsize=256)
def _write_search(plan: IndexPlan | None, *, filtered: bool, named: bool) -> str:
    filters = _FILTERED if filtered else ""
    return _SEARCH.format(
        pool=plan.write_pool(filters) if plan is not None else "",
        distance=DISTANCE,
        among=AMONG_POOL if plan is not None else f"servable_text v {filters}",
        named=_OR_NAMED.format(filtered=filters) if named else "",
        **_SCORING,
    )


def _search_database(search: _Search, searched_model_id: str | None, *, how: How = "auto") -> list[Candidate]:
    plan = None
    if searched_model_id is None and search.vector is not None and how != "exact":
        plan = index_plans.find(search.project_id, search.model_id)
    parameters = {
        "project": search.project_id,
        "text": search.text,
        "vector": search.vector,
        "model": search.model_id,
        "searched": searched_model_id,
        "weight": search.meaning_weight,
        "task_weight": get_task_weight(search.meaning_weight),
        "noise": NOISE * search.meaning_weight,
        "task_noise": NOISE * get_task_weight(search.meaning_weight),
        "limit": search.limit,
    }
    filtered, added = search.filters != Filters(), search.added
    if filtered:
        parameters |= _filter_parameters(search.filters)
    if added:
        parameters["named"] = added
    rows = read_prepared(_write_search(plan, filtered=filtered, named=bool(added)), parameters)
    candidates = [_read(row, search.named) for row in rows]
    return _sort(candidates) if search.named else candidates


def _filter_parameters(filters: Filters) -> dict[str, Any]:
    return {
        "task_ids": list(filters.task_ids),
        "tags": list(filters.tags),
        "agents": list(filters.agents),
        "polarities": list(filters.polarities),
    }


def _read(row: tuple[Any, ...], named: Mapping[UUID, Naming]) -> Candidate:
    """Read a row whose last column is the revision, and count what it names."""
    candidate = Candidate(*row[:-1])
    if not named or (naming := named.get(row[-1])) is None:
        return candidate
    worth = NAMES * naming.share
    return candidate._replace(score=candidate.score + worth, lead=candidate.lead + worth, naming=naming)


def _sort(candidates: list[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda candidate: (-candidate.score, candidate.heuristic_id))
