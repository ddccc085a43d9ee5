"""The retrieve service, on a real database with the real embedder."""

from collections.abc import Iterator
from typing import Any

import pytest

from memory.embeddings.registry import forget_embedders
from memory.heuristics.models import Heuristic
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval import llm_ranking, task_vector
from memory.retrieval.answers import retrieve
from memory.retrieval.llm_ranking import RankedChoice, RankingFailed
from memory.retrieval.models import HeuristicEmbedding, PolarityQuota, Retrieval
from memory.retrieval.question import Question
from tests.factories import make_heuristic, make_project
from tests.memory.embedding_service import EmbeddingService

pytestmark = pytest.mark.django_db
BY = Actor(label="test")

LESSONS = [
    ("A passenger asks to cancel a basic economy flight", "Check the fare class and the time of booking first."),
    ("A customer wants to exchange an item for another size", "Confirm the new variant is in stock."),
    ("The search page shows no result for a long query", "Search again with fewer words."),
    ("The API answers error E4711", "Refresh the token and repeat the call."),
]


def serve(project: Project, lessons: list[tuple[str, str]] = LESSONS, **text: Any) -> list[Heuristic]:
    made = [
        make_heuristic(project=project, status="approved", trigger=trigger, guideline=guideline, **text)
        for trigger, guideline in lessons
    ]
    embed_heuristics([heuristic.pk for heuristic in made])
    return made


def test_retrieve_puts_the_lesson_close_in_meaning_first() -> None:
    project = make_project()
    flight, *_ = serve(project)
    answer = retrieve(
        Question(project=project, task="My client no longer wants to fly, please undo her booking", by=BY)
    )
    assert answer.items[0]["id"] == str(flight.pk)


@pytest.fixture
def failing_ranker() -> Iterator[None]:
    """A language model that gives no ranking."""

    def fail(*arguments: Any, **options: Any) -> list[RankedChoice]:
        raise RankingFailed("too slow")

    before = llm_ranking._find[:]
    llm_ranking.register_ranker(lambda: fail)
    yield
    llm_ranking._find[:] = before
    llm_ranking.breaker.reset()


@pytest.mark.usefixtures("fresh_embedders", "failing_ranker")
def test_embedder_that_hangs_is_asked_once_where_the_model_fails_too(settings: Any, service: EmbeddingService) -> None:
    settings.ERL_EMBEDDER = f"{service.base_url}?model=new&dimensions=2"
    project = make_project()
    serve(project)
    service.requests.clear()
    service.delay_seconds = 5.0

    answer = retrieve(Question(project=project, task="The API answers error E4711", by=BY, mode="erl"))
    task_vector.breaker.reset()

    assert (answer.mode, answer.degraded) == ("lexical", "language model (too slow), embedder")
    assert len(service.requests) == 1


def test_retrieve_finds_an_error_code_by_its_letters() -> None:
    project = make_project()
    code = serve(project)[3]
    assert retrieve(Question(project=project, task="E4711", mode="lexical", by=BY)).items[0]["id"] == str(code.pk)


def test_retrieve_never_serves_a_proposed_lesson() -> None:
    project = make_project()
    proposed = make_heuristic(project=project, trigger=LESSONS[0][0], guideline=LESSONS[0][1])
    embed_heuristics([proposed.pk])
    modes = ["random", "embedding", "lexical", "hybrid"]
    assert [retrieve(Question(project=project, task=LESSONS[0][0], mode=mode, by=BY)).items for mode in modes] == [
        []
    ] * 4


def test_retrieve_without_an_embedder_answers_by_words_and_says_so(settings: Any) -> None:
    project = make_project()
    flight, *_ = serve(project)
    settings.ERL_EMBEDDER = "none"
    forget_embedders()
    try:
        answer = retrieve(Question(project=project, task="cancel a basic economy flight", by=BY))
    finally:
        forget_embedders()
    assert (answer.items[0]["id"], answer.mode, answer.degraded) == (str(flight.pk), "lexical", "embedder")


def test_retrieve_mode_random_draws_the_same_for_the_same_task() -> None:
    project = make_project()
    serve(project)
    first, second = (
        retrieve(Question(project=project, task="anything", mode="random", top_k=2, by=BY)) for _ in range(2)
    )
    assert [item["id"] for item in first.items] == [item["id"] for item in second.items]


def test_retrieve_mode_random_draws_otherwise_for_another_seed() -> None:
    project = make_project()
    serve(project)
    orders = {
        tuple(
            item["id"]
            for item in retrieve(Question(project=project, task="x", mode="random", seed=str(seed), by=BY)).items
        )
        for seed in range(10)
    }
    assert len(orders) > 1


def test_retrieve_writes_down_an_answer_that_is_given_again_as_it_was() -> None:
    project = make_project()
    serve(project)
    retrieve(Question(project=project, task="Cancel my flight", by=BY))
    retrieve(Question(project=project, task="Cancel my flight", by=BY))

    columns = ("items", "heuristic_ids", "considered_ids", "considered_scores", "context_sha256", "tokens")
    first, again = Retrieval.objects.filter(project=project).values(*columns)
    assert first == again
    assert first["items"]


def test_retrieve_gives_a_known_answer_no_longer_where_the_budget_is_smaller() -> None:
    project = make_project()
    serve(project)
    whole = retrieve(Question(project=project, task="Cancel my flight", by=BY))
    nothing = retrieve(Question(project=project, task="Cancel my flight", budget_tokens=10, by=BY))

    assert [item["injected"] for item in whole.items[:1]] == [True]
    assert nothing.items == []
    assert {item["passed_over"] for item in nothing.considered} >= {"There was no room for it."}


def test_embed_heuristics_twice_makes_nothing_new() -> None:
    heuristic = make_heuristic(status="approved")
    assert (embed_heuristics([heuristic.pk]), embed_heuristics([heuristic.pk])) == (1, 0)


def test_retrieve_mode_erl_without_a_language_model_answers_by_likeness_and_says_so() -> None:
    project = make_project()
    serve(project)
    answer = retrieve(Question(project=project, task=LESSONS[0][0], mode="erl", by=BY))
    assert (answer.mode, answer.degraded, bool(answer.items)) == ("hybrid", "language model (not configured)", True)


def test_retrieve_gives_an_empty_block_where_nothing_fits() -> None:
    project = make_project()
    serve(project)
    answer = retrieve(
        Question(project=project, task="Which sonata did Beethoven dedicate to Countess Guicciardi?", by=BY)
    )
    assert (answer.context, answer.items) == ("", [])


def test_retrieve_says_which_lessons_the_budget_left_out() -> None:
    project = make_project()
    serve(
        project, [("A flight is to be cancelled", "Check the fare class. " * 200), ("A flight is cancelled", "Wait.")]
    )
    answer = retrieve(Question(project=project, task="The flight is cancelled", budget_tokens=150, by=BY))
    assert len(answer.items) == 1
    assert "There was no room for it." in {item["passed_over"] for item in answer.considered}


def test_retrieve_where_vectors_are_not_made_yet_answers_by_words_and_says_so() -> None:
    project = make_project()
    flight, *_ = serve(project)
    HeuristicEmbedding.objects.update(vector=None)
    answer = retrieve(Question(project=project, task="cancel a basic economy flight", by=BY))
    assert (answer.items[0]["id"], answer.mode, answer.degraded) == (str(flight.pk), "lexical", "vectors")


def test_retrieve_keeps_to_the_quota_of_the_family_else_of_the_project() -> None:
    project = make_project()
    serve(project, LESSONS[:2], polarity="works")
    serve(project, LESSONS[2:], polarity="avoid")
    task = " ".join(trigger for trigger, _ in LESSONS)
    for task_id, works, avoid in (("", 0.0, None), ("search", None, 0.0)):
        PolarityQuota.objects.create(project=project, task_id=task_id, max_works_share=works, max_avoid_share=avoid)
    for task_id, polarity in (("airline", "avoid"), ("search", "works")):
        answer = retrieve(Question(project=project, task=task, task_id=task_id, mode="lexical", by=BY))
        assert {item["polarity"] for item in answer.items} == {polarity}
