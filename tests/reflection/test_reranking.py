"""The cross-encoder behind POST /rerank, on a real HTTP server."""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from django.db import connection

from memory.curation.decisions import retire_heuristic
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval import cross_encoder, llm_ranking
from memory.retrieval.answers import RetrievalAnswer, retrieve
from memory.retrieval.candidates import draw_candidates
from memory.retrieval.llm_ranking import RankedChoice, RankingFailed
from memory.retrieval.question import Filters, Question
from reflection.rankers.cross_encoder import close_reranker
from tests.factories import make_heuristic, make_project, make_rule
from tests.scripted_answers import Exchange, answer, drips, fails, raw, silence
from tests.scripted_provider import ScriptedProvider
from tests.scripted_reranker import scores

pytestmark = pytest.mark.django_db
TASK = "Cancel the flight of a passenger and refund the fare"
SUBJECTS = ["flight fare class", "refund of a flight", "seat on a flight"]


@pytest.fixture
def reranker(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as scripted:
        settings.ERL_RERANK_URL = f"{scripted.anthropic_url}/v2/rerank"
        settings.ERL_RERANK_API_KEY = "secret-of-the-reranker"
        monkeypatch.setattr("reflection.rankers.cross_encoder.DEADLINE_SECONDS", 3.0)
        yield scripted
        close_reranker()


@pytest.fixture
def project() -> Project:
    made = make_project()
    lessons = [
        make_heuristic(project=made, status="approved", trigger=f"A passenger asks about a {one}", guideline="Look.")
        for one in SUBJECTS
    ]
    embed_heuristics([lesson.pk for lesson in lessons])
    return made


def ask(project: Project) -> RetrievalAnswer:
    return retrieve(Question(project=project, task=TASK, record=False, by=Actor(label="test")))


def likes_seats(text: str) -> float:
    return 0.9 if "seat" in text else 0.1


@pytest.mark.parametrize("shape", ["cohere", "tei"])
def test_the_cross_encoder_decides_the_order(
    shape: str, reranker: ScriptedProvider, project: Project, settings: Any
) -> None:
    settings.ERL_RERANK_URL += f"?format={shape}"
    reranker.script(scores(likes_seats, shape=shape))
    given = ask(project)
    assert (given.mode, given.degraded) == ("hybrid", "")
    assert "seat" in given.items[0]["trigger"]
    assert [item["scores"]["rerank"] for item in given.listed] == [0.9, 0.1, 0.1]
    (request,) = reranker.requests
    assert request.path == "/v2/rerank"
    assert request.headers["authorization"] == "Bearer secret-of-the-reranker"
    assert request.body["query"] == TASK


@pytest.mark.django_db(transaction=True)
def test_rule_that_is_retired_while_the_cross_encoder_works_is_not_given(
    reranker: ScriptedProvider, project: Project
) -> None:
    rule = make_rule(project=project, task_id="airline", guideline="Offer a voucher first.")

    def retire(exchange: Exchange) -> None:
        retire_heuristic(rule, by=Actor(label="user:ana"))
        connection.close()  # this thread's own
        scores(likes_seats)(exchange)

    reranker.script(scores(likes_seats))
    before = retrieve(Question(project=project, task=TASK, task_id="airline", by=Actor(label="test")))
    reranker.script(retire)
    after = retrieve(Question(project=project, task=TASK, task_id="airline", by=Actor(label="test")))

    assert "Offer a voucher first." in before.context
    assert "Offer a voucher first." not in after.context
    assert after.degraded == ""


def test_scores_of_any_scale_become_shares(reranker: ScriptedProvider, project: Project) -> None:
    reranker.script(scores(lambda text: 7.5 if "seat" in text else -4.0))
    given = ask(project)
    assert "seat" in given.items[0]["trigger"]
    assert all(0 < item["scores"]["rerank"] < 1 for item in given.items)


class CountsInNumpy:
    """A reranker of somebody else, in this process."""

    def score_texts(self, task: str, texts: Sequence[str]) -> dict[int, float]:
        return {place: np.float32(0.5) for place in range(len(texts))}  # type: ignore[misc]


def test_scores_of_numpy_become_numbers_that_json_knows(project: Project) -> None:
    cross_encoder.breaker.reset()
    candidates = draw_candidates(project.pk, seed="1", filters=Filters(), limit=3)
    given = cross_encoder.rerank(CountsInNumpy(), task=TASK, candidates=candidates)
    assert [json.dumps(one.rerank) for one in given] == ["0.5"] * 3


FAILURES = {
    "hangs": (silence(), "too slow"),
    "drips": (drips(), "too slow"),
    "error": (fails(500), "failed"),
    "elsewhere": (raw(b"{}", status=302, headers={"Location": "http://169.254.169.254/"}), "failed"),
    "chat": (answer("hello"), "gave an unusable answer"),
    "other places": (raw(b'{"results": [{"index": 99, "relevance_score": 1}]}'), "gave an unusable answer"),
    "no number": (raw(b'{"results": [{"index": 0, "relevance_score": "NaN"}]}'), "gave an unusable answer"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_the_order_without_it_answers_where_it_does_not(
    name: str, reranker: ScriptedProvider, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    behaviour, reason = FAILURES[name]
    monkeypatch.setattr("reflection.rankers.cross_encoder.DEADLINE_SECONDS", 0.3 if reason == "too slow" else 20.0)
    reranker.script(behaviour)
    given = ask(project)
    assert (given.mode, given.degraded) == ("hybrid", f"reranker ({reason})")
    assert given.context


@pytest.fixture
def slow_ranker() -> Iterator[None]:
    """A language model that is waited for, and gives no ranking."""

    def fail(*arguments: Any, **options: Any) -> list[RankedChoice]:
        time.sleep(1.2)
        raise RankingFailed("too slow")

    before = llm_ranking._find[:]
    llm_ranking.register_ranker(lambda: fail)
    yield
    llm_ranking._find[:] = before


def test_cross_encoder_is_not_asked_after_a_wait_for_the_language_model(
    reranker: ScriptedProvider, project: Project, slow_ranker: None, settings: Any
) -> None:
    settings.ERL_RETRIEVE_MODE = "erl"
    given = ask(project)
    assert (given.mode, given.degraded) == ("hybrid", "language model (too slow)")
    assert reranker.requests == []


def test_refused_address_is_not_asked(reranker: ScriptedProvider, project: Project, settings: Any) -> None:
    settings.ERL_RERANK_URL = settings.ERL_RERANK_URL.replace("127.0.0.1", "0.0.0.0")  # noqa: S104

    assert ask(project).degraded == "reranker (failed)"
    assert reranker.requests == []
