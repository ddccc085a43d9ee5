"""The search in the database: words and meaning of served texts, and the statistics behind them."""

import hashlib
import math
import re
from typing import Any

import numpy as np
import pytest
from django.db import connection

from memory.embeddings.registry import forget_embedders, get_embedder
from memory.embeddings.words import SHARED_WORDS
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.index.heuristic_vectors import (
    count_terms,
    embed_heuristics,
    find_heuristics_without_vectors,
    get_active_model,
)
from memory.projects.models import Project
from memory.retrieval.candidates import Candidate, draw_candidates, find_candidates
from memory.retrieval.database import QueryVector, read_vector
from memory.retrieval.database_search import Search
from memory.retrieval.models import EmbeddingModel, HeuristicEmbedding, SearchStatistics, TermCount
from memory.retrieval.project_state import read_state
from memory.retrieval.question import Filters
from tests.factories import make_evidence, make_heuristic, make_project, make_trajectory

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_embedders")]
ANY = Filters()


def serve(project: Project, trigger: str, guideline: str = "Do it.", **text: Any) -> Heuristic:
    heuristic = make_heuristic(project=project, status="approved", trigger=trigger, guideline=guideline, **text)
    embed_heuristics([heuristic.pk])
    return heuristic


def search(
    project: Project, task: str, *, weight: float = 0.5, filters: Filters = ANY, **options: Any
) -> list[Candidate]:
    embedder = get_embedder()
    vector = QueryVector(embedder.embed([task])[0]) if embedder else None
    model_id = embedder.model_id if embedder else ""
    wanted = Search(
        project_id=project.pk,
        task=task,
        vector=vector,
        model_id=model_id,
        filters=filters,
        meaning_weight=weight,
        **{"limit": 10} | options,
    )
    return find_candidates(wanted, read_state(project.pk, task=task))


def words_of(text: str) -> float:
    """Length of a text's vector of words: 0 where none is left."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT l2_norm(memory_text_vector(%s, %s))", ["00000000-0000-0000-0000-000000000001", text])
        return float(cursor.fetchone()[0])


def test_words_that_every_task_shares_are_no_words() -> None:
    assert [word for word in sorted(SHARED_WORDS) if words_of(word)] == []


def test_words_are_a_unit_vector() -> None:
    assert words_of("cancel the flight, cancel the hotel") == pytest.approx(1)


def test_words_of_nothing_are_a_zero_vector() -> None:
    assert words_of("") == 0


def test_words_of_the_longest_text_are_found() -> None:
    words = (hashlib.sha256(str(number).encode()).hexdigest()[:8] for number in range(7_000))  # with 40,000 pieces
    assert words_of(" ".join(words)) == pytest.approx(1, abs=1e-3)


def test_search_finds_names_by_their_parts() -> None:
    project = make_project()
    serve(project, "HousePurchasingTool is called")
    assert search(project, "purchasing a house", weight=0)[0].parts.words == pytest.approx(0.73, abs=0.01)


@pytest.mark.parametrize("name", ["math.isQuadratic", "math/is-quadratic", "math::is_quadratic", "MATHIsQuadratic"])
def test_names_are_split_into_their_words(name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT memory_text_vector(p, %s) = memory_text_vector(p, 'math is quadratic') FROM gen_random_uuid() AS p",
            [name],
        )
        assert cursor.fetchone() == (True,)


def test_search_finds_parts_of_compounds() -> None:
    project = make_project()
    compound = serve(project, "Haltepunkte und Einzelschrittausführung")
    serve(project, "Tabellen und Formatvorlagen")

    found = {one.heuristic_id: one.parts.words or 0 for one in search(project, "schrittweise Ausführung", weight=0)}

    assert found.pop(compound.pk) > 2 * max(found.values())


def test_repeated_words_count_in_a_long_task_alone() -> None:
    with connection.cursor() as cursor:
        cursor.execute("""SELECT memory_word_weight(3, 4, 100, 10) = memory_word_weight(1, 4, 100, 10),
                                 memory_word_weight(3, 400, 100, 10) > 1.5 * memory_word_weight(1, 400, 100, 10)""")
        assert cursor.fetchone() == (True, True)


@pytest.mark.parametrize(
    ("trigger", "guideline"),
    [
        ("AbleStyle", "AbleStyle: Helps you to answer what to wear. It knows 20 brands."),
        ("AbleStyle Helps you to answer what to wear.", "It knows 20 brands."),
        ("AbleStyle", "Helps you to answer what to wear. It knows 20 brands. Helps you to answer what to wear."),
    ],
)
def test_order_does_not_depend_on_how_words_are_spread_over_fields(trigger: str, guideline: str) -> None:
    project = make_project()
    serve(project, "AbleStyle", "Helps you to answer what to wear. It knows 20 brands.")
    serve(project, trigger, guideline)

    usual, other = search(project, "Which brands suit an AbleStyle customer?")

    assert usual.parts == pytest.approx(other.parts)


def test_repeated_words_weigh_by_the_logarithm() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT memory_text_vector(%s, 'refund refund fare')::text", [make_project().pk])
        (sent,) = cursor.fetchone()
    numbers = [(int(term), float(weight)) for term, weight in re.findall(r"(\d+):([0-9.]+)", sent)]
    less, more = sorted(weight for term, weight in numbers if term <= 2**28)  # of words, not of their pieces
    assert more / less == pytest.approx(1 + math.log(2), abs=1e-4)


def test_search_counts_a_rare_word_more_than_a_common_one() -> None:
    project = make_project()
    common = serve(project, "refund order")
    rare = serve(project, "refund E4711")
    for number in range(20):
        serve(project, f"order parcel{number}")
    found = {one.heuristic_id: one.parts.words or 0 for one in search(project, "order E4711", limit=50)}
    assert found[rare.pk] > found[common.pk] * 2


def test_search_gives_the_likeness_of_the_nearest_source_task() -> None:
    project = make_project()
    heuristic = serve(project, "A page is empty", source_task="Book a table for two in Rome")
    (found,) = search(project, "Book a table for two in Rome")
    assert found.heuristic_id == heuristic.pk
    assert found.similarity == pytest.approx(1, abs=0.01)
    assert found.matched_task == "Book a table for two in Rome"


def test_search_names_the_task_of_the_run_a_lesson_is_drawn_from() -> None:
    project = make_project()
    trajectory = make_trajectory(project=project, task="Water the plants on the balcony")
    heuristic = make_heuristic(trajectory=trajectory, status="approved")
    make_evidence(
        heuristic=heuristic, trajectory=make_trajectory(project=project, task="Paint the fence"), first_step=1
    )
    embed_heuristics([heuristic.pk])
    (found,) = search(project, "Who waters my plants?")
    assert found.matched_task == "Water the plants on the balcony"


def test_search_puts_a_lesson_with_a_like_source_task_before_one_without() -> None:
    project = make_project()
    serve(project, "A table is to be booked")
    learnt = serve(project, "A table is to be booked", guideline="Do it soon.", source_task="Book a table in Rome")
    assert search(project, "Book a table in Rome")[0].heuristic_id == learnt.pk


def test_search_returns_at_most_the_limit_best_first() -> None:
    project = make_project()
    for number in range(5):
        serve(project, f"Flight {number} is cancelled " + "and the weather is fine " * number)
    found = search(project, "Cancel a flight", limit=3)
    assert [candidate.score for candidate in found] == sorted((c.score for c in found), reverse=True)
    assert len(found) == 3


def test_a_lesson_for_the_whole_project_is_of_the_families_it_was_drawn_from() -> None:
    project = make_project()
    run = make_trajectory(project=project, task_id="travel")
    wanted = make_heuristic(trajectory=run, status="approved", scope="project", task_id="")
    embed_heuristics([wanted.pk])
    serve(project, "Another lesson about a cancellation")
    found = {
        family: [one.heuristic_id for one in search(project, "cancel", filters=Filters(task_ids=(family,)))]
        for family in ("travel", "shopping")
    }
    assert found == {"travel": [wanted.pk], "shopping": []}


def test_draw_filters_too() -> None:
    project = make_project()
    wanted = serve(project, "A lesson", tags=["air"])
    serve(project, "Another lesson")
    drawn = draw_candidates(project.pk, seed="1", filters=Filters(tags=("air",)), limit=5)
    assert [found.heuristic_id for found in drawn] == [wanted.pk]


def test_search_sends_the_lessons_vector() -> None:
    project = make_project()
    serve(project, "A flight is cancelled")
    (found,) = search(project, "cancel")
    assert found.vector is not None
    stored = HeuristicEmbedding.objects.get(kind="lesson").vector
    assert np.allclose(read_vector(found.vector), stored)


def test_search_with_a_vector_of_another_model_compares_words_only() -> None:
    project = make_project()
    serve(project, "A flight is cancelled")
    vector = QueryVector(np.ones(7, np.float32))
    wanted = Search(project_id=project.pk, task="flight", vector=vector, model_id="other", meaning_weight=0.5)
    (found,) = find_candidates(wanted, read_state(project.pk, task="flight"))
    assert found.parts.meaning is None
    assert found.parts.words


def test_search_is_one_statement(django_assert_num_queries: Any) -> None:
    project = make_project()
    serve(project, "A flight is cancelled")
    search(project, "cancel")
    with django_assert_num_queries(0):  # Django's own cursors count here; the search has a prepared one beside them
        assert search(project, "cancel")


def test_embedding_covers_the_served_and_the_newest_wording() -> None:
    heuristic = make_heuristic(status="approved")
    newer = HeuristicRevision.objects.create(
        project=heuristic.project, heuristic=heuristic, number=2, trigger="Newer", guideline="words"
    )
    Heuristic.objects.filter(pk=heuristic.pk).update(current_revision=newer)
    embed_heuristics([heuristic.pk])
    rows = HeuristicEmbedding.objects.values_list("revision__number", "served").order_by("revision__number")
    assert list(rows) == [(1, True), (2, False)]


def test_embedding_follows_its_wording_into_and_out_of_service() -> None:
    heuristic = serve(make_project(), "A flight is cancelled")
    HeuristicRevision.objects.filter(heuristic=heuristic).update(served=False)
    Heuristic.objects.filter(pk=heuristic.pk).update(status="retired")
    assert HeuristicEmbedding.objects.get().served is False


def test_embedding_without_an_embedder_leaves_the_words_and_is_found_for_later(settings: Any) -> None:
    get_active_model()
    settings.ERL_EMBEDDER = "http://127.0.0.1:9/v1?model=unreachable&dimensions=384"
    forget_embedders()
    EmbeddingModel.objects.all().delete()
    heuristic = serve(make_project(), "A flight is cancelled")
    row = HeuristicEmbedding.objects.get()
    assert (row.vector, bool(row.term_ids)) == (None, True)
    assert find_heuristics_without_vectors() == [heuristic.pk]


def test_embedding_later_completes_what_was_left() -> None:
    heuristic = serve(make_project(), "A flight is cancelled")
    HeuristicEmbedding.objects.update(vector=None)
    assert embed_heuristics([heuristic.pk]) == 1
    assert HeuristicEmbedding.objects.get().vector is not None
    assert find_heuristics_without_vectors() == []


def test_heuristics_never_embedded_are_found() -> None:
    heuristic = make_heuristic()
    assert find_heuristics_without_vectors() == [heuristic.pk]


def test_statistics_count_served_texts_only() -> None:
    project = make_project()
    serve(project, "refund")
    embed_heuristics([make_heuristic(project=project, trigger="refund").pk])
    assert SearchStatistics.objects.get(project=project).texts == 1


def test_statistics_forget_what_went_out_of_service() -> None:
    project = make_project()
    heuristic = serve(project, "refund")
    HeuristicRevision.objects.filter(heuristic=heuristic).update(served=False)
    Heuristic.objects.filter(pk=heuristic.pk).update(status="retired")
    count_terms(project.pk)
    assert SearchStatistics.objects.get(project=project).texts == 0
    assert set(TermCount.objects.filter(project=project).values_list("texts", flat=True)) == {0}


def test_statistics_of_an_erased_project_are_gone() -> None:
    project = make_project()
    heuristic = serve(project, "refund")
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL erl.erasing = 'on'")
    heuristic_id = heuristic.pk
    Heuristic.objects.filter(pk=heuristic_id).delete()
    project_id = project.pk
    project.delete()
    assert count_terms(project_id) == 1
    assert not TermCount.objects.filter(project_id=project_id).exists()


def test_words_of_a_task_are_looked_up_and_not_those_of_the_whole_project() -> None:
    project = make_project()
    SearchStatistics.objects.create(project=project, texts=20_000)
    TermCount.objects.bulk_create(TermCount(project=project, term=number, texts=1) for number in range(20_000))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE memory_termcount")
        asked = "SELECT memory_query_vector(%s, 'Refund order 4711 to the card')", [project.pk]
        cursor.execute(*asked)  # which reads the catalogue

        cursor.execute("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + asked[0], asked[1])
        ((plan,),) = cursor.fetchone()

    assert plan["Plan"]["Shared Hit Blocks"] + plan["Plan"]["Shared Read Blocks"] < 50
