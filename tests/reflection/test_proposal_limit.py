"""One API client cannot fill the reviewers' queue, and nothing of what it recorded is lost (reliability D5)."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection
from rest_framework.test import APIClient

from memory.curation.decisions import reject_heuristic
from memory.heuristics.models import Heuristic
from memory.intake.recording import RunSender, record_trajectory
from memory.mistakes.models import MistakeCard
from memory.projects.actors import Actor
from memory.runs.models import Trajectory
from reflection.llm.models import ModelCall
from reflection.reflectors.models import Reflection
from reflection.reflectors.reflections import NO_ROOM, run_reflection
from reflection.reflectors.requests import requeue_reflection
from tests.factories import (
    approve_as_read,
    bearer,
    make_api_key,
    make_heuristic,
    make_project,
    make_reflection,
    make_trajectory,
)
from tests.reflection.scripted import ScriptedModel, ScriptedReflector, ask_then, make_lesson, propose

pytestmark = pytest.mark.django_db

BY = Actor(label="user:ana")


@pytest.fixture
def project(settings: Any) -> Any:
    settings.ERL_PENDING_PROPOSALS_PER_CLIENT = 3
    settings.ERL_EMBEDDER = "none"
    return make_project()


@pytest.fixture
def flooder(project: Any) -> APIClient:
    return APIClient(headers=bearer(make_api_key(project=project, client="flooder").token))


def send(client: APIClient, number: int) -> Any:
    lesson = {"trigger": f"A cancellation is asked for ({number})", "guideline": "Check the fare class first."}
    return client.post("/api/v1/heuristics", lesson, format="json")


def fill(project: Any, *, client: str = "flooder") -> list[Heuristic]:
    return [make_heuristic(project=project, client=client) for _ in range(3)]


def reflect(trajectory: Trajectory, *, model: Any = None, words: str = "The one that comes now") -> Reflection:
    plan = ask_then(propose(make_lesson(trigger=words)))
    reflection = make_reflection(trajectory=trajectory)
    run_reflection(
        reflection.pk, owner="t", make_reflector=ScriptedReflector(plan=plan), ask_model=model or ScriptedModel()
    )
    return Reflection.objects.get(pk=reflection.pk)


def test_proposals_beyond_the_limit_are_refused_until_some_are_decided(project: Any, flooder: APIClient) -> None:
    answers = [send(flooder, number) for number in range(5)]
    stored = Heuristic.objects.count()
    reject_heuristic(Heuristic.objects.all()[0], by=BY)

    assert [answer.status_code for answer in answers] == [201, 201, 201, 429, 429]
    assert answers[-1].json()["error"]["code"] == "too_many_proposals"
    assert int(answers[-1]["Retry-After"]) > 0
    assert stored == 3
    assert send(flooder, 6).status_code == 201


def test_other_clients_are_not_held_up(project: Any) -> None:
    fill(project)

    other = APIClient(headers=bearer(make_api_key(project=project, client="honest").token))

    assert send(other, 1).status_code == 201


def test_without_a_limit_everything_is_stored(project: Any, flooder: APIClient, settings: Any) -> None:
    settings.ERL_PENDING_PROPOSALS_PER_CLIENT = 0

    assert {send(flooder, number).status_code for number in range(5)} == {201}


def test_rewording_decided_lessons_fills_no_queue(project: Any, flooder: APIClient) -> None:
    approved = [approve_as_read(make_heuristic(project=project), by=BY) for _ in range(5)]

    answers = [
        flooder.patch(f"/api/v1/heuristics/{each.pk}", {"guideline": "Do as I say."}, format="json")
        for each in approved
    ]
    again = flooder.patch(f"/api/v1/heuristics/{approved[0].pk}", {"guideline": "Do it now."}, format="json")

    assert [answer.status_code for answer in answers] == [200, 200, 200, 429, 429]
    assert again.status_code == 200, "it waits already"
    assert Heuristic.objects.filter(status="proposed").count() == 3


def test_run_beyond_the_limit_is_kept_and_costs_nothing(project: Any) -> None:
    fill(project)
    model = ScriptedModel()

    reflection = reflect(make_trajectory(project=project, client="flooder"), model=model)

    assert (reflection.status, reflection.skip_reason) == ("done", NO_ROOM)
    assert (model.calls, ModelCall.objects.count(), Heuristic.objects.count()) == (0, 0, 3)


def test_run_that_was_kept_is_reflected_on_once_there_is_room(project: Any) -> None:
    waiting = fill(project)
    skipped = reflect(make_trajectory(project=project, client="flooder"))
    approve_as_read(waiting[0], by=BY)

    again = requeue_reflection(skipped, by=BY)
    plan = propose(make_lesson())
    run_reflection(again.pk, owner="t", make_reflector=ScriptedReflector(plan=plan), ask_model=ScriptedModel())

    assert Reflection.objects.get(pk=again.pk).heuristics_proposed == 1


def test_lessons_of_one_reflection_stop_at_the_limit(project: Any) -> None:
    make_heuristic(project=project, client="flooder")
    trajectory = make_trajectory(project=project, client="flooder")
    reflection = make_reflection(trajectory=trajectory)
    plan = propose(*[make_lesson(trigger=f"When case {number} is asked for") for number in range(4)])

    run_reflection(reflection.pk, owner="t", make_reflector=ScriptedReflector(plan=plan), ask_model=ScriptedModel())

    assert Heuristic.objects.filter(status="proposed").count() == 3
    assert Reflection.objects.get(pk=reflection.pk).heuristics_proposed == 2


def test_new_mistakes_beyond_the_limit_stay_in_their_run(project: Any) -> None:
    def report(number: int) -> Any:
        card = {"mistake_type": f"wrong fare {number}", "bad_decision": "Cancelled.", "correct_decision": "Look first."}
        data = {"task": "t", "mistake_cards": [card]}
        return record_trajectory(project, data=data, sender=RunSender(client="flooder"), by=BY, reflect=False)

    runs = [report(number) for number in range(5)]
    report(0)

    assert sorted(MistakeCard.objects.values_list("current_revision__trigger", "support")) == [
        ("wrong fare 0", 2),
        ("wrong fare 1", 1),
        ("wrong fare 2", 1),
    ]
    assert runs[4].trajectory.mistake_cards[0]["mistake_type"] == "wrong fare 4"


@pytest.mark.django_db(transaction=True)
def test_proposals_at_once_stop_at_the_limit(project: Any) -> None:
    token = make_api_key(project=project, client="flooder").token

    def propose_one(number: int) -> int:
        try:
            return int(send(APIClient(headers=bearer(token)), number).status_code)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        codes = sorted(pool.map(propose_one, range(16)))

    assert codes == [201] * 3 + [429] * 13
