"""Several tries of a task whose reflections wait at once."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.utils import timezone

from memory.heuristics.models import Evidence, Heuristic
from memory.heuristics.provenance import WordOrigin
from memory.heuristics.text import Citation
from memory.projects.models import Project
from memory.runs.models import Trajectory
from memory.trust.erasure import erase_trajectory
from memory.trust.quarantine import quarantine_source
from reflection.llm.base import ProviderError
from reflection.llm.models import ModelCall
from reflection.reflectors.models import Reflection
from tests.factories import make_project, make_reflection, make_trajectory
from tests.reflection.running import BY, Status, make_due
from tests.reflection.running import run as run_plan
from tests.reflection.scripted import Plan, ScriptedModel, ScriptedReflector, ask_then, make_lesson, propose

pytestmark = pytest.mark.django_db

TASK = "Cancel the reservation of a user who does not know its id."
OF_ALL = make_lesson(citations=(Citation(first_step=1, last_step=2), Citation(first_step=2, last_step=4)))


def queue_tries(project: Project, count: int, **fields: Any) -> list[Reflection]:
    """Queue reflections of several tries of one task, of two steps each."""
    tries = [make_trajectory(project=project, **{"task": TASK, "client": "agent"} | fields) for _ in range(count)]
    return [make_reflection(trajectory=trajectory) for trajectory in tries]


def reflect(plan: Plan, reflection: Reflection, *, model: Any = None) -> tuple[Reflection, ScriptedReflector]:
    """Reflect on a run, and with it on the other tries of its task."""
    reflectors = []

    def follow(reflector: ScriptedReflector, *rest: Any) -> Any:
        reflectors.append(reflector)
        return plan(reflector, *rest)

    done = run_plan(follow, reflection, model=model, reads_tries=True)
    return done, reflectors[0]


def test_one_call_reflects_on_all_tries_that_wait() -> None:
    lead, *others = queue_tries(make_project(), 3)
    model = ScriptedModel()

    reflect(ask_then(propose(make_lesson())), lead, model=model)

    assert model.calls == 1
    rows = list(Reflection.objects.filter(pk__in=[other.pk for other in others]))
    assert [(row.status, row.carried_by, row.reflector, row.attempts) for row in rows] == [
        (Status.DONE, lead.pk, "scripted", 0)
    ] * 2
    assert Heuristic.objects.count() == 1


def test_lesson_of_several_tries_cites_the_steps_of_each() -> None:
    lead, other = queue_tries(make_project(), 2)

    reflect(propose(OF_ALL), lead)

    cited = Evidence.objects.order_by("pk").values_list("trajectory", "first_step", "last_step")
    assert set(cited) == {
        (lead.trajectory_id, 1, 2),
        (lead.trajectory_id, 2, 2),
        (other.trajectory_id, 1, 2),
    }
    assert Heuristic.objects.get().support == 2
    assert set(WordOrigin.objects.values_list("trajectory_id", flat=True)) == {lead.trajectory_id, other.trajectory_id}


@pytest.mark.parametrize(
    "differs",
    [{"task": "Another task"}, {"client": "another"}, {"task_id": "other"}, {"agent": "other"}],
    ids=["task", "client", "family", "agent"],
)
def test_runs_of_another_task_family_client_or_agent_are_not_joined(differs: dict[str, Any]) -> None:
    project = make_project()
    (lead,) = queue_tries(project, 1)
    (other,) = queue_tries(project, 1, **differs)

    _, reflector = reflect(propose(make_lesson()), lead)

    assert reflector.episodes[0].tries == ()
    other.refresh_from_db()
    assert other.status == Status.QUEUED


@pytest.mark.parametrize("words", ["hi", "Please continue.", "airline.cancel", "继续"])
def test_runs_whose_words_do_not_say_the_task_are_not_joined(words: str) -> None:
    lead, other = queue_tries(make_project(), 2, task=words, task_id="airline.cancel")

    reflect(propose(make_lesson()), lead)

    other.refresh_from_db()
    assert other.status == Status.QUEUED


def test_later_turns_of_a_conversation_are_not_joined() -> None:
    project = make_project()
    began = timezone.now()
    turn = {"metadata": {"session": "one"}, "started_at": began + timedelta(minutes=1)}
    make_trajectory(project=project, metadata={"session": "one"}, started_at=began)
    (lead,) = queue_tries(project, 1)
    (later,) = queue_tries(project, 1, **turn)

    reflect(propose(make_lesson()), lead)

    later.refresh_from_db()
    assert later.status == Status.QUEUED


def test_tries_of_other_projects_are_not_joined() -> None:
    (lead,), (other,) = queue_tries(make_project(), 1), queue_tries(make_project(), 1)

    reflect(propose(make_lesson()), lead)

    other.refresh_from_db()
    assert other.status == Status.QUEUED


def test_failed_call_leaves_every_try_queued() -> None:
    lead, other = queue_tries(make_project(), 2)
    error = ProviderError("It is overloaded.", transient=True)

    failed, _ = reflect(ask_then(propose(make_lesson())), lead, model=ScriptedModel(error=error))

    other.refresh_from_db()
    assert (failed.status, other.status, other.attempts) == (Status.RETRY, Status.QUEUED, 0)
    assert other.available_at > timezone.now()
    assert not Evidence.objects.exists()


def test_try_whose_time_comes_again_is_reflected_on_by_itself() -> None:
    lead, other = queue_tries(make_project(), 2)
    error = ProviderError("The key is wrong.", transient=False)
    reflect(ask_then(propose(make_lesson())), lead, model=ScriptedModel(error=error))
    make_due(other)

    done, _ = reflect(propose(make_lesson()), other)

    assert (done.status, done.carried_by) == (Status.DONE, None)
    assert Evidence.objects.get().trajectory_id == other.trajectory_id


def test_try_that_another_worker_took_meanwhile_is_left_to_it() -> None:
    lead, other = queue_tries(make_project(), 2)

    def take_other() -> None:
        make_due(other)
        run_plan(propose(make_lesson("The other one")), other)

    reflect(ask_then(propose(OF_ALL)), lead, model=ScriptedModel(before=take_other))

    taken = Reflection.objects.get(pk=other.pk)
    assert (taken.status, taken.carried_by, taken.heuristics_proposed) == (Status.DONE, None, 1)


def test_retry_takes_the_same_tries_and_pays_once() -> None:
    lead, other = queue_tries(make_project(), 2)
    model = ScriptedModel()

    def break_off(*_: Any) -> Any:
        raise ConnectionError

    reflect(ask_then(break_off), lead, model=model)
    make_due(lead)
    done, reflector = reflect(ask_then(propose(OF_ALL)), lead, model=model)

    assert (done.status, model.calls, len(reflector.episodes[0].tries)) == (Status.DONE, 1, 2)
    assert Reflection.objects.get(pk=other.pk).carried_by == lead.pk


def test_try_erased_during_the_call_leaves_no_lesson_and_no_answer() -> None:
    lead, other = queue_tries(make_project(), 2)
    erase = ScriptedModel(text="words of the other", before=lambda: forget(other))

    failed, _ = reflect(ask_then(propose(OF_ALL)), lead, model=erase)
    make_due(lead)
    reflect(ask_then(propose(make_lesson()), question="Asked again"), lead, model=ScriptedModel())

    assert failed.last_error_code == "outcome_changed"
    assert "words of the other" not in set(ModelCall.objects.values_list("response", flat=True))
    assert Evidence.objects.get().trajectory_id == lead.trajectory_id


def test_erased_try_takes_the_words_of_the_answer_along() -> None:
    lead, other = queue_tries(make_project(), 2)
    reflect(ask_then(propose(make_lesson())), lead, model=ScriptedModel(text="words of the other"))

    forget(other)

    assert ModelCall.objects.get().response == ""
    assert Reflection.objects.get(pk=lead.pk).input_tokens == ModelCall.objects.get().input_tokens


def test_outcome_of_a_try_that_changes_repeats_the_reflection() -> None:
    lead, other = queue_tries(make_project(), 2)

    def report() -> None:
        Trajectory.objects.filter(pk=other.trajectory.pk).update(outcome="success", score=1.0)

    failed, _ = reflect(ask_then(propose(OF_ALL)), lead, model=ScriptedModel(before=report))

    assert (failed.status, failed.last_error_code) == (Status.RETRY, "outcome_changed")
    assert not Heuristic.objects.exists()


def test_runs_that_ended_otherwise_are_shown() -> None:
    project = make_project()
    (lead,) = queue_tries(project, 1)
    success = make_success(project)

    done, reflector = reflect(propose(make_lesson()), lead)

    (shown,) = reflector.episodes[0].contrasts
    assert (shown["outcome"], shown["did_instead"][0]["tool"]) == ("success", "get_user_details")
    assert done.shown_runs == [success.pk]


def test_run_under_a_quarantine_order_is_not_shown() -> None:
    project = make_project()
    (lead,) = queue_tries(project, 1)
    make_success(project, client="poisoner")
    quarantine_source(project, client="poisoner", since=timezone.now() - timedelta(days=1), by=BY)

    _, reflector = reflect(propose(make_lesson()), lead)

    assert reflector.episodes[0].contrasts == ()


def test_run_without_a_family_is_compared_with_tries_of_its_task() -> None:
    project = make_project()
    (lead,) = queue_tries(project, 1, task_id="")
    make_success(project, task_id="")

    _, reflector = reflect(propose(make_lesson()), lead)

    assert len(reflector.episodes[0].contrasts) == 1


def make_success(project: Project, **fields: Any) -> Trajectory:
    step = {
        "index": 1,
        "thought": "",
        "action": {"name": "get_user_details", "arguments": {"user_id": "mia"}},
        "observation": "EHGLP3",
        "error": "",
    }
    ended: dict[str, Any] = {"outcome": "success", "score": 1.0, "steps": [step], "created_at": Now()}
    return make_trajectory(project=project, **{"task": TASK, "client": "agent"} | ended | fields)


def forget(reflection: Reflection) -> None:
    erase_trajectory(Trajectory.objects.get(pk=reflection.trajectory.pk), by=BY)
