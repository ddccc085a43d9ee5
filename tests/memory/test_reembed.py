"""Changing the embedding model."""

from typing import Any

import pytest
from django.core.management import CommandError, call_command

from memory.embeddings.minilm import FloatMiniLM, MiniLM
from memory.embeddings.registry import forget_embedders
from memory.index.heuristic_vectors import embed_heuristics
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.answers import retrieve
from memory.retrieval.models import EmbeddingModel, HeuristicEmbedding
from memory.retrieval.question import Question
from tests.factories import make_heuristic, make_project
from tests.memory.embedding_service import EmbeddingService

UNKNOWN = "meaning (the model does not know English)"  # the new model is one that knows no language
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("fresh_embedders")]
BY = Actor(label="test")
TASK = "A flight is to be cancelled"


@pytest.fixture
def project() -> Project:
    project = make_project()
    heuristic = make_heuristic(project=project, status="approved", trigger=TASK)
    embed_heuristics([heuristic.pk])
    return project


@pytest.fixture
def want_service(settings: Any, service: EmbeddingService, project: Project) -> EmbeddingService:
    """Settings that ask for the service's model, in a project embedded by the bundled one."""
    settings.ERL_EMBEDDER = f"{service.base_url}?model=new&dimensions=2"
    forget_embedders()
    return service


def get_active() -> str:
    return EmbeddingModel.objects.get(active=True).pk


def test_answers_go_on_with_the_old_model_until_the_change(want_service: EmbeddingService, project: Project) -> None:
    answer = retrieve(Question(project=project, task=TASK, by=BY))
    assert (answer.mode, answer.degraded, len(answer.items)) == ("hybrid", "", 1)
    assert want_service.requests == []


def test_new_lessons_get_vectors_of_the_old_model_until_the_change(
    want_service: EmbeddingService, project: Project
) -> None:
    embed_heuristics([make_heuristic(project=project).pk])
    assert set(HeuristicEmbedding.objects.values_list("embedding_model", flat=True)) == {MiniLM.model_id}


def test_reembed_changes_the_model(want_service: EmbeddingService, project: Project) -> None:
    call_command("reembed")
    answer = retrieve(Question(project=project, task=TASK, by=BY))
    assert get_active() == "new@2"
    assert (answer.mode, answer.degraded, len(answer.items)) == ("hybrid", UNKNOWN, 1)
    assert answer.items[0]["scores"]["meaning"] > 0


def test_process_that_has_not_heard_of_the_change_asks_again(want_service: EmbeddingService, project: Project) -> None:
    retrieve(Question(project=project, task=TASK, by=BY))
    call_command("reembed")
    answer = retrieve(Question(project=project, task=TASK, by=BY))
    assert (answer.mode, answer.degraded) == ("hybrid", UNKNOWN)


def test_reembed_compares_rankings_on_recorded_tasks(
    want_service: EmbeddingService, project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    retrieve(Question(project=project, task=TASK, by=BY))
    call_command("reembed")
    assert "On 1 recorded tasks the two models have 100% of their first ten" in capsys.readouterr().out


def test_reembed_may_stop_before_the_change(want_service: EmbeddingService, project: Project) -> None:
    call_command("reembed", no_activate=True)
    assert get_active() == MiniLM.model_id
    assert HeuristicEmbedding.objects.filter(embedding_model="new@2").count() == 1


def test_reembed_twice_makes_no_vector_twice(want_service: EmbeddingService, project: Project) -> None:
    call_command("reembed", no_activate=True)
    asked = len(want_service.requests)
    call_command("reembed", no_activate=True)
    assert len(want_service.requests) == asked


def test_reembed_changes_nothing_where_the_embedder_does_not_answer(
    want_service: EmbeddingService, project: Project
) -> None:
    want_service.status = 500
    with pytest.raises(CommandError, match="The model was not changed"):
        call_command("reembed")
    assert get_active() == MiniLM.model_id


def test_reembed_goes_back(want_service: EmbeddingService, project: Project, settings: Any) -> None:
    call_command("reembed")
    settings.ERL_EMBEDDER = "minilm"
    forget_embedders()
    call_command("reembed")
    assert get_active() == MiniLM.model_id


def test_reembed_deletes_old_vectors_only_when_told(want_service: EmbeddingService, project: Project) -> None:
    call_command("reembed")
    kept = HeuristicEmbedding.objects.count()
    call_command("reembed", delete_old=True)
    assert (kept, HeuristicEmbedding.objects.count()) == (2, 1)


def test_database_with_vectors_in_floats_goes_on_with_them_until_reembed(settings: Any) -> None:
    settings.ERL_EMBEDDER = "minilm-floats"
    project = make_project()
    embed_heuristics([make_heuristic(project=project, status="approved", trigger=TASK).pk])
    settings.ERL_EMBEDDER = "minilm"
    forget_embedders()

    answers = [retrieve(Question(project=project, task=TASK, by=BY))]
    before = get_active()
    call_command("reembed")
    answers.append(retrieve(Question(project=project, task=TASK, by=BY)))

    assert (before, get_active()) == (FloatMiniLM.model_id, MiniLM.model_id)
    assert [(answer.mode, answer.degraded, len(answer.items)) for answer in answers] == [("hybrid", "", 1)] * 2
    assert answers[0].items[0]["scores"]["meaning"] > 0.3
    assert answers[1].items[0]["scores"]["meaning"] > 0.3
