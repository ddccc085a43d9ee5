"""One reflection from claim to effect."""

import threading
import time
from typing import Any

import pytest
import structlog
from django.db import connection

from memory.heuristics.models import Evidence, Heuristic
from memory.intake.recording import report_outcome
from memory.runs.models import Trajectory
from reflection.jobs.execution import Outcome
from reflection.llm.models import ModelCall
from reflection.reflectors.base import ReflectionResult
from reflection.reflectors.models import Proposal, Reflection
from reflection.reflectors.reflections import run_reflection
from reflection.reflectors.requests import enqueue_reflection
from tests.factories import make_heuristic, make_reflection, make_retrieval, make_trajectory
from tests.reflection.running import BY, Status, make_due, run
from tests.reflection.scripted import ScriptedModel, ScriptedReflector, ask_then, fail_with, make_lesson, propose

pytestmark = pytest.mark.django_db


def test_lesson_is_proposed_with_evidence() -> None:
    done = run(propose(make_lesson()))

    heuristic = Heuristic.objects.get()
    proposal = Proposal.objects.get()
    assert (done.status, done.heuristics_proposed, done.skip_reason) == (Status.DONE, 1, "")
    assert (heuristic.status, heuristic.support, heuristic.reflector, heuristic.reflector_version) == (
        Heuristic.Status.PROPOSED,
        1,
        "scripted",
        "1",
    )
    assert (proposal.reflection, proposal.heuristic, proposal.effect) == (done, heuristic, Proposal.Effect.NEW)
    evidence = Evidence.objects.get()
    assert (evidence.trajectory_id, evidence.first_step, evidence.last_step) == (done.trajectory_id, 1, 2)


def test_finished_reflection_says_who_did_it_when() -> None:
    done = run(propose(make_lesson()))

    assert (done.reflector, done.reflector_version, done.attempts) == ("scripted", "1", 1)
    assert done.started_at is not None
    assert done.finished_at is not None
    assert done.finished_at >= done.started_at
    assert done.lease_until is None


def test_nothing_to_learn_is_done_with_its_reason() -> None:
    done = run(propose(skip_reason="The run went as expected."))

    assert (done.status, done.heuristics_proposed, done.skip_reason) == (Status.DONE, 0, "The run went as expected.")


def test_lesson_that_fails_the_checks_is_dropped_and_named() -> None:
    done = run(propose(make_lesson(trigger="")))

    assert not Heuristic.objects.exists()
    assert done.status == Status.DONE
    assert done.skip_reason == "The lesson has no trigger or no action."


def test_what_the_checks_flag_goes_to_the_reviewer() -> None:
    run(propose(make_lesson(guideline="Read the fare class first. See https://example.com/fares before you cancel.")))

    findings = Proposal.objects.get().findings
    assert findings
    assert set(findings[0]) == {"code", "message", "words"}


def test_reflector_reads_the_run_and_the_lessons_it_was_given() -> None:
    given = make_heuristic(status=Heuristic.Status.APPROVED, trigger="A refund is asked for", guideline="Refuse it.")
    assert given.current_revision is not None
    item = {"heuristic": str(given.pk), "revision": given.current_revision.number, "injected": True}
    retrieval = make_retrieval(project=given.project, items=[item])
    trajectory = make_trajectory(project=given.project, retrieval=retrieval)
    reflector = ScriptedReflector(plan=propose())

    run_reflection(make_reflection(trajectory=trajectory).pk, owner="test", make_reflector=reflector)

    assert reflector.episodes[0].task == trajectory.task
    assert reflector.episodes[0].injected == ("A refund is asked for\nRefuse it.",)


def test_answer_of_the_model_is_kept_with_its_cost(settings: Any) -> None:
    settings.ERL_LLM_INPUT_USD_PER_MTOK, settings.ERL_LLM_OUTPUT_USD_PER_MTOK = 3.0, 15.0

    done = run(ask_then(propose(make_lesson())), model=ScriptedModel(input_tokens=1000, output_tokens=200))

    call = ModelCall.objects.get()
    assert (call.job_id, call.step, call.model, call.attempt) == (done.pk, "reflect", "scripted-1", 1)
    assert (done.model, done.input_tokens, done.output_tokens) == ("scripted-1", 1000, 200)
    assert float(done.cost_usd) == float(call.cost_usd) == pytest.approx(0.006)
    assert Heuristic.objects.get().model == "scripted-1"


def test_retry_finds_the_answer_instead_of_asking_again() -> None:
    model = ScriptedModel(text="the answer")
    reflection = make_reflection()
    run(ask_then(fail_with(RuntimeError("killed"))), reflection, model=model)
    make_due(reflection)

    done = run(ask_then(propose(make_lesson())), reflection, model=model)

    assert model.calls == 1
    assert (done.status, done.attempts, done.input_tokens) == (Status.DONE, 2, 10)


def test_changed_question_is_asked() -> None:
    model = ScriptedModel()
    reflection = make_reflection()
    run(ask_then(fail_with(RuntimeError("x")), question="Old?"), reflection, model=model)
    make_due(reflection)

    run(ask_then(propose(), question="New?"), reflection, model=model)

    assert model.calls == 2


def test_outcome_reported_meanwhile_is_reflected_on_again() -> None:
    reflection = make_reflection()

    def report() -> None:
        trajectory = Trajectory.objects.get(pk=reflection.subject)
        report_outcome(trajectory, outcome="success", score=1.0, outcome_source="human", by=BY)

    waiting = run(ask_then(propose(make_lesson())), reflection, model=ScriptedModel(before=report))
    reflector = ScriptedReflector(plan=propose(make_lesson()))
    run_reflection(owner="test", make_reflector=reflector)

    assert (waiting.status, waiting.attempts, waiting.last_error_code) == (Status.RETRY, 0, "outcome_changed")
    assert reflector.episodes[0].outcome == "success"
    assert Heuristic.objects.count() == 1


def test_failure_in_the_middle_of_the_effect_leaves_no_part_of_it() -> None:
    impossible = make_lesson(guideline="Another lesson with get_reservation_details.", confidence=2.0)

    waiting = run(propose(make_lesson(), impossible))

    assert (waiting.status, waiting.last_error_code) == (Status.RETRY, "unexpected_error")
    assert not Heuristic.objects.exists()
    assert not Proposal.objects.exists()


def test_reflection_carries_the_ids_of_its_request_into_the_log() -> None:
    reflection = make_reflection(request_id="req-9", traceparent="00-abc")
    seen: list[dict[str, Any]] = []

    def look() -> None:
        seen.append(dict(structlog.contextvars.get_contextvars()))

    run(ask_then(propose()), reflection, model=ScriptedModel(before=look))

    assert seen[0]["request_id"] == "req-9"
    assert seen[0]["traceparent"] == "00-abc"
    assert seen[0]["reflection_id"] == str(reflection.pk)
    assert "reflection_id" not in structlog.contextvars.get_contextvars()


@pytest.mark.django_db(transaction=True)
def test_each_message_delivered_five_times_has_one_effect() -> None:
    reflections = [make_reflection() for _ in range(4)]
    plan = ask_then(propose(make_lesson()))
    model = ScriptedModel(before=lambda: time.sleep(0.05))
    start = threading.Barrier(5)
    outcomes: list[Outcome] = []

    def deliver() -> None:
        try:
            start.wait(timeout=10)
            for reflection in reflections:
                reflector = ScriptedReflector(plan=plan)
                attempt = run_reflection(reflection.pk, owner="test", make_reflector=reflector, ask_model=model)
                outcomes.append(attempt.outcome)
        finally:
            connection.close()

    threads = [threading.Thread(target=deliver) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)

    assert sorted(outcomes) == [Outcome.DONE] * 4 + [Outcome.NOTHING] * 16
    assert Proposal.objects.count() == model.calls == 4


def test_enqueued_reflection_is_done_end_to_end_by_the_rules(settings: Any) -> None:
    settings.ERL_REFLECTOR = "rules"
    reflection = enqueue_reflection(make_trajectory(), by=BY)

    attempt = run_reflection(reflection.pk, owner="test")

    assert attempt.outcome == Outcome.DONE
    assert Reflection.objects.get(pk=reflection.pk).reflector == "rules"


def test_skip_result_without_reason_is_still_done() -> None:
    done = run(lambda reflector, episode, near: ReflectionResult())

    assert done.status == Status.DONE
