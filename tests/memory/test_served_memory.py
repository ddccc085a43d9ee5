"""Searches from memory and by an index agree with the comparison in the database, and miss no decision."""

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction
from django.test import override_settings

from memory.curation.decisions import quarantine_heuristic, retire_heuristic
from memory.embeddings.base import Vectors
from memory.embeddings.registry import get_embedder
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.housekeeping import fold_changes
from memory.index.heuristic_vectors import count_terms, embed_heuristics
from memory.index.vector_index import has_index, keep_index
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval import database_search
from memory.retrieval.answers import retrieve
from memory.retrieval.candidates import Candidate, find_candidates, find_in_database
from memory.retrieval.database import QueryVector, read_prepared
from memory.retrieval.database_search import FIRST_BREADTH, USUAL_LIMIT, Search, UsableIndex
from memory.retrieval.models import EmbeddingModel, HeuristicEmbedding, ServedChange
from memory.retrieval.project_state import ProjectState
from memory.retrieval.project_state import read_state as read_project_state
from memory.retrieval.question import Filters, Question
from memory.retrieval.snapshot import snapshots
from tests.factories import approve_as_read, make_evidence, make_heuristic, make_project, make_trajectory

pytestmark = pytest.mark.django_db(transaction=True)
BY = Actor.policy("test")
TASKS = ("Book a table for two in Rome", "Cancel the flight E4711 and refund it", "water the plants", "…")


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    snapshots.clear()
    with override_settings(ERL_RETRIEVE_MEMORY_MB=64):
        yield
    snapshots.wait()
    snapshots.clear()


@pytest.fixture
def project() -> Project:
    """Lessons with none, one and many source tasks."""
    project = make_project()
    heuristics = [
        make_heuristic(project=project, status="approved", trigger=f"{thing} is wanted", source_task=task)
        for thing, task in (
            ("A table", "Reserve a table in Rome"),
            ("A refund", ""),
            ("A flight", "Find the flight E4711"),
            ("A plant", "Water the plants on the balcony"),
            ("A hotel", "Book a hotel in Rome for two"),
        )
    ]
    for number in range(6):
        trajectory = make_trajectory(project=project, task=f"Cancel flight number {number} of the refund")
        make_evidence(heuristic=heuristics[1], trajectory=trajectory, first_step=1)
    embed_heuristics([heuristic.pk for heuristic in heuristics])
    return project


def search(project: Project, task: str, *, how: str = "auto", weight: float = 0.5, limit: int = 4) -> list[Candidate]:
    """Search as requests do, or `exact` or `indexed` in the database."""
    embedder = get_embedder()
    assert embedder is not None
    vector = QueryVector(embedder.embed([task])[0]) if weight else None
    return search_with(project, task, vector, how=how, meaning_weight=weight, limit=limit)


def search_with(
    project: Project, task: str, vector: QueryVector | None, *, how: str, breadth: int = FIRST_BREADTH, **options: Any
) -> list[Candidate]:
    embedder = get_embedder()
    assert embedder is not None
    wanted = Search(project_id=project.pk, task=task, vector=vector, model_id=embedder.model_id, **options)
    if how == "auto":
        return find_candidates(wanted, read_project_state(project.pk, task=task))
    index = UsableIndex(embedder.model_id, embedder.dimensions, breadth)
    return find_in_database(wanted, index=index if how == "indexed" else None)


def keep_lesson_index(threshold: int) -> bool:
    return keep_index(HeuristicEmbedding, threshold=threshold, served=True)


def serve(project: Project, trigger: str) -> Heuristic:
    heuristic = make_heuristic(project=project, trigger=trigger)
    embed_heuristics([heuristic.pk])
    return approve_as_read(heuristic, by=BY)


def triggers(found: list[Candidate]) -> list[str]:
    return [candidate.trigger for candidate in found]


def as_rounded(candidate: Candidate) -> dict[str, object]:
    values = candidate._asdict() | candidate.parts._asdict() | {"parts": None}
    return {name: round(value, 5) if isinstance(value, float) else value for name, value in values.items()}


def read_state(project: Project) -> ProjectState:
    return read_project_state(project.pk)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("weight", [0.0, 0.5, 1.0])
def test_memory_finds_what_the_database_finds(project: Project, task: str, weight: float) -> None:
    snapshot = snapshots.load(project.pk)
    assert snapshot is not None
    assert snapshots.find(project.pk, read_state(project)) is snapshot
    from_memory = search(project, task, weight=weight)
    assert [as_rounded(one) for one in from_memory] == [
        as_rounded(one) for one in search(project, task, weight=weight, how="exact")
    ]


def test_memory_is_read_beside_the_first_task_and_used_for_the_next(project: Project) -> None:
    search(project, "Reserve a table")
    for _ in range(200):
        if (held := snapshots.find(project.pk, read_state(project))) is not None:
            break
        connection.cursor().execute("SELECT pg_sleep(0.02)")
    assert held is not None
    assert triggers(search(project, "Reserve a table in Rome"))[0] == "A table is wanted"


def test_a_new_task_takes_one_pass_of_the_embedder_and_reads_no_lesson_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshots.load(project.pk)
    retrieve(Question(project=project, task="Book a table in Rome", record=False, by=BY))
    embedder = get_embedder()
    assert embedder is not None
    embed, passes = embedder.embed, []

    def note(texts: Sequence[str], *, timeout_seconds: float | None = None) -> Vectors:
        passes.append(list(texts))
        return embed(texts, timeout_seconds=timeout_seconds)

    monkeypatch.setattr(embedder, "embed", note)
    asked: list[UUID] = []

    def write_down(statement: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]]:
        asked.extend(parameters.get("revisions", ()))
        return read_prepared(statement, parameters)

    monkeypatch.setattr(database_search, "read_prepared", write_down)
    answer = retrieve(Question(project=project, task="Reserve a table for two in Rome", record=False, by=BY))

    assert answer.items
    assert passes == [["Reserve a table for two in Rome"]]
    # Another of several source tasks may be the likest now; all else is known.
    assert set(asked) <= {HeuristicRevision.objects.get(trigger="A refund is wanted").pk}


@pytest.mark.parametrize("withdraw", [retire_heuristic, quarantine_heuristic])
def test_what_was_withdrawn_is_not_in_the_next_answer(project: Project, withdraw: object) -> None:
    snapshots.load(project.pk)
    (first, *_) = search(project, TASKS[0])
    assert triggers(search(project, TASKS[0]))[0] == first.trigger  # known by now
    withdraw(Heuristic.objects.get(pk=first.heuristic_id), by=BY)  # type: ignore[operator]
    assert first.trigger not in triggers(search(project, TASKS[0], limit=10))


def test_what_was_approved_is_in_the_next_answer(project: Project) -> None:
    snapshots.load(project.pk)
    search(project, "Tune the piano")
    serve(project, "The piano is out of tune")
    assert triggers(search(project, "Tune the piano"))[0] == "The piano is out of tune"


def test_support_is_the_one_of_now(project: Project) -> None:
    snapshots.load(project.pk)
    (first, *_) = search(project, TASKS[0])
    Heuristic.objects.filter(pk=first.heuristic_id).update(approved_support=7)
    assert search(project, TASKS[0])[0].support == 7
    held = snapshots.find(project.pk, read_state(project))
    assert held is not None  # what is searched is the same: nothing was read anew


def test_answers_of_another_project_are_not_disturbed(project: Project) -> None:
    before = read_state(project)
    serve(make_project(), "The piano is out of tune")
    assert read_state(project) == before


def test_a_change_that_was_rolled_back_leaves_no_trace(project: Project) -> None:
    before = read_state(project)
    with transaction.atomic():
        serve(project, "The piano is out of tune")
        assert read_state(project) != before
        assert triggers(search(project, "Tune the piano"))[0] == "The piano is out of tune"
        transaction.set_rollback(True)
    assert read_state(project) == before
    assert "The piano is out of tune" not in triggers(search(project, "Tune the piano", limit=10))


def test_folded_changes_keep_their_name(project: Project) -> None:
    for number in range(10):
        Heuristic.objects.filter(project=project).update(approved_support=number + 10)
    before = read_state(project)
    assert fold_changes() == [project.pk]
    assert read_state(project) == before
    assert ServedChange.objects.filter(project_id=project.pk).count() == 2


def test_counting_words_is_a_change(project: Project) -> None:
    serve(project, "The piano is out of tune")
    count_terms(project.pk)
    before = read_state(project)
    serve(project, "The violin is out of tune")

    count_terms(project.pk)

    assert read_state(project).whole != before.whole


@pytest.fixture
def index() -> Iterator[EmbeddingModel]:
    """Searches find their texts by an index, not by reading all of a project."""
    assert keep_lesson_index(5)
    with connection.cursor() as cursor:
        for way in ("seqscan", "bitmapscan", "sort"):
            cursor.execute(f"SET enable_{way} = off")
    yield EmbeddingModel.objects.get(active=True)
    connection.close()
    assert not keep_lesson_index(1000)


def test_index_is_built_and_dropped(project: Project) -> None:
    model = EmbeddingModel.objects.get(active=True)
    assert not has_index(HeuristicEmbedding, model)
    assert keep_lesson_index(5)
    assert keep_lesson_index(10)  # it pays up to half of the threshold
    assert has_index(HeuristicEmbedding, model)
    assert not keep_lesson_index(1000)
    assert not has_index(HeuristicEmbedding, model)


def test_index_finds_what_a_comparison_finds(project: Project, index: EmbeddingModel) -> None:
    assert [as_rounded(one) for one in search(project, TASKS[1], how="indexed")] == [
        as_rounded(one) for one in search(project, TASKS[1], how="exact")
    ]
    retire_heuristic(Heuristic.objects.get(pk=search(project, TASKS[1])[0].heuristic_id), by=BY)
    assert triggers(search(project, TASKS[1], how="indexed", limit=10)) == triggers(
        search(project, TASKS[1], how="exact", limit=10)
    )


def test_index_finds_the_lessons_of_a_project_behind_nearer_ones_of_another(
    project: Project, index: EmbeddingModel
) -> None:
    other = make_project()
    for number in range(12):
        serve(other, f"{TASKS[0]}, at table {number}")

    found = search(project, TASKS[0], weight=1.0, how="indexed")

    assert triggers(found) == triggers(search(project, TASKS[0], weight=1.0, how="exact"))
    assert len(found) == 4


def test_index_is_used_for_filtered_searches(project: Project, index: EmbeddingModel) -> None:
    vector = QueryVector(get_embedder().embed(["refund"])[0])  # type: ignore[union-attr]
    filters = Filters(tags=("nowhere",))
    assert search_with(project, "refund", vector, how="indexed", filters=filters, meaning_weight=0.5) == []


def test_project_asks_the_index_from_a_number_of_texts_on(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    count_terms(project.pk)
    assert read_project_state(project.pk, task=TASKS[0]).index is None
    monkeypatch.setattr("memory.retrieval.project_state.INDEX_FROM_TEXTS", 5)
    assert read_project_state(project.pk, task=TASKS[0]).index is not None


def test_more_is_taken_from_an_index_where_more_lessons_are_wanted(project: Project, index: EmbeddingModel) -> None:
    embedder = get_embedder()
    assert embedder is not None
    found = {
        limit: search_with(
            project,
            "xylophone",  # in no lesson, so that only vectors speak
            QueryVector(embedder.embed([TASKS[0]])[0]),
            meaning_weight=1.0,
            limit=limit,
            how="indexed",
            breadth=1,
        )
        for limit in (USUAL_LIMIT, 3 * USUAL_LIMIT)
    }

    assert len(found[USUAL_LIMIT]) < len(found[3 * USUAL_LIMIT])
    assert found[3 * USUAL_LIMIT][0].heuristic_id == found[USUAL_LIMIT][0].heuristic_id


@pytest.mark.parametrize(("words", "found"), [("water balcony", True), ("balcony", False)])
def test_texts_with_two_words_are_found_where_no_word_is_rare(
    project: Project, index: EmbeddingModel, monkeypatch: pytest.MonkeyPatch, words: str, found: bool
) -> None:
    monkeypatch.setattr("memory.retrieval.database_search.MATCHES", 0)
    count_terms(project.pk)
    embedder = get_embedder()
    assert embedder is not None

    other = QueryVector(embedder.embed([TASKS[0]])[0])  # of another task, so that meaning finds another lesson
    candidates = search_with(project, words, other, meaning_weight=0.5, limit=4, how="indexed", breadth=1)

    assert ("A plant is wanted" in triggers(candidates)) is found
