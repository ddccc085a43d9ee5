"""Which lessons come into question for a task: one SQL round trip over what is served, and nothing else.

Every served text of a project is compared with the task, in meaning and in words. The lessons with the nearest texts
are then scored by all of their texts, by the formula of scoring.py: the lesson's own text counts once, and the tasks
it was learnt from vote with the squares of what they have above noise.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias
from uuid import UUID

from memory.retrieval.answer import Filters
from memory.retrieval.database import QueryVector, read_prepared
from memory.retrieval.indexed import get_width, index_plans
from memory.retrieval.known import KNOWN_TASKS, Known, digest
from memory.retrieval.naming import Naming, choose_added, find_named
from memory.retrieval.scoring import NAMES, NOISE, get_task_weight
from memory.retrieval.snapshot import Found, Snapshot, Words
from memory.retrieval.snapshots import snapshots
from memory.retrieval.state import Beside, State, read_state
from memory.retrieval.statements import DRAW, ROWS, write_search

# Weight of the cosine of vectors; the rest is the cosine of words. A short task has few words to share, and the one
# vector of a long one blurs.
SHORT_MEANING_WEIGHT, LONG_MEANING_WEIGHT, SHORT_CHARACTERS = 0.5, 0.2, 150

_known_candidates: Known[list["Candidate"]] = Known(KNOWN_TASKS)


How: TypeAlias = Literal["auto", "exact", "indexed"]


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
    state, words = read_state(project_id, text, name, beside)
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
    return [_read(row, {}) for row in read_prepared(DRAW, parameters)]


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


def _search_memory(search: _Search, state: State, words: Words | None) -> list[Candidate] | None:
    """Find as the database would, in the snapshot of this state; None where there is no such snapshot."""
    if search.filters != Filters() or (search.vector is not None and search.model_id != state.model):
        return None
    snapshot = snapshots.find(search.project_id, state)
    if snapshot is None:
        return None
    if words is None:
        now, words = read_state(search.project_id, search.text, digest(search.text), anew=True)
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
        read = {(row[0], row[1]): row[2:] for row in read_prepared(ROWS, parameters)}
        sent = {one.places: read.get((one.revision_id, one.trajectory_id)) for one in missing}
        snapshot.keep({(state.whole, *places): row for places, row in sent.items() if row is not None})
        rows = [sent[one.places] if row is None else row for one, row in zip(found, rows, strict=True)]
    return rows


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
    statement = write_search(plan, width=get_width(search.limit), filtered=filtered, named=bool(added))
    rows = read_prepared(statement, parameters)
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
