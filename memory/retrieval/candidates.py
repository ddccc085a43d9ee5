"""Which lessons may answer a task: what the search found, each with its score.

Every served text of a project is compared with the task, in meaning and in words: in this process's memory where it
holds what the project serves, in the database otherwise. The lessons with the most similar texts are then scored by all
of their texts (scoring.py).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from memory.retrieval.database_search import Search, UsableIndex, draw_rows, search_database
from memory.retrieval.name_match import Naming, choose_added, find_named
from memory.retrieval.project_state import ProjectState
from memory.retrieval.question import NO_FILTERS, Filters
from memory.retrieval.scoring import NO_PARTS, Parts, find_rises, measure_fit, score_heuristic
from memory.retrieval.snapshot import snapshots


class Candidate(NamedTuple):  # a dataclass takes ten times as long to make, and every task makes forty
    """A served lesson with its figures.

    `matched_task` is the most similar task it was learnt from, of `matched_run` if a run is known. `parts` are what its
    score is the sum of, with None for what was not compared. `similarity` says whether it fits the task at all, 0–1
    (`measure_fit`). `vector` is the lesson's own, as PostgreSQL sends it. `naming` says what it names that the task
    names too. `rerank` is the score of a cross-encoder, 0–1, which stands in for the sum in `score`.
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
    matched_task: str
    matched_run: UUID | None
    parts: Parts
    similarity: float
    score: float
    vector: bytes | None
    naming: Naming | None = None
    rerank: float | None = None


def find_candidates(search: Search, state: ProjectState) -> list[Candidate]:
    """Return the lessons most like a task, best first: at most `search.limit`, and those that name what it names.

    Args:
        state: of the project, as it was a moment ago, with the words of the task.
    """
    snapshot = None
    # A snapshot has no columns to filter by, the vectors of one model only, and what holds now.
    if search.filters == NO_FILTERS and search.as_of is None and search.model_id in ("", state.model_id):
        snapshot = snapshots.find(search.project_id, state)
    if snapshot is None or state.words is None:
        return find_in_database(search, index=state.index)
    namings = _find_named(search)
    lessons = snapshot.search(search, state.words, named=choose_added(namings))
    return _score(snapshot.read_rows(state.whole, lessons), search.meaning_weight, namings)


def find_in_database(
    search: Search, *, index: UsableIndex | None = None, model_id: str | None = None
) -> list[Candidate]:
    """Return candidates without anything that this process remembers; see `search_database` for the arguments."""
    namings = _find_named(search)
    rows = search_database(search, index=index, named=choose_added(namings), model_id=model_id)
    return _score(rows, search.meaning_weight, namings)


def draw_candidates(
    project_id: UUID,
    *,
    seed: str,
    filters: Filters,
    limit: int,
    release_id: UUID | None = None,
    as_of: datetime | None = None,
) -> list[Candidate]:
    """Return a random sample of the served lessons: the same for the same seed and state."""
    rows = draw_rows(project_id, seed=seed, filters=filters, limit=limit, release_id=release_id, as_of=as_of)
    return [Candidate(*(*row, NO_PARTS, 0.0, 0.0, None)) for row in rows]


def _find_named(search: Search) -> Mapping[UUID, Naming]:
    return find_named(search.project_id, search.task) if search.meaning_weight < 1 else {}  # meaning knows no names


def _score(rows: Iterable[tuple[Any, ...]], meaning_weight: float, named: Mapping[UUID, Naming]) -> list[Candidate]:
    """Score what a search returned, and put it in order, best first."""
    searched = list(rows)
    compared = ((meaning, words, tasks or ()) for *_, meaning, words, tasks, _ in searched)
    rises = find_rises(compared, meaning_weight=meaning_weight)
    candidates = []
    for (*texts, revision_id, meaning, words, tasks, vector), rise in zip(searched, rises, strict=True):
        naming = named.get(revision_id)
        share = naming.share if naming is not None else 0.0
        parts = score_heuristic(meaning, words, rise, meaning_weight=meaning_weight, named_share=share)
        fit = measure_fit(meaning, words, tasks or (), named_share=share)
        candidates.append(Candidate(*(*texts, parts, fit, parts.total, vector, naming)))
    # The id among equals, so that the same state gives the same answer.
    candidates.sort(key=lambda candidate: (-candidate.score, candidate.heuristic_id))
    return candidates
