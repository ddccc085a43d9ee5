"""Calls that wait for a person: what the decision does, and what it is bound to."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from memory.errors import ProjectArchived
from memory.projects.actors import Actor
from runtime.approvals import decide_effect, expire_approvals
from runtime.errors import ConversationBusy, NothingPending
from runtime.models.effects import Approval, Effect
from runtime.models.runs import Run
from runtime.runs import cancel_run
from tests.runtime.running import BY, Script, check_deferred, go_on, make_agent, make_run

pytestmark = pytest.mark.django_db
ANA = Actor(label="user:ana")
RULES = ({"type": "requires_approval", "tool": "send_message"},)


def waiting(message: str = "Hello") -> tuple[Run, Effect]:
    """Make a run that waits for the approval of a message."""
    run = make_run(make_agent(tools=["send_message"], rules=RULES))
    go_on(run, Script([("send_message", {"message": message})]))
    return run, run.effects.get()


def replies(run: Run) -> list[str]:
    return list(run.messages.filter(is_reply=True).values_list("content", flat=True))


def test_call_waits_for_a_person() -> None:
    run, effect = waiting()

    assert (run.status, effect.status, replies(run)) == ("waiting", "waiting", [])
    assert effect.approvals.get().arguments_sha256 == effect.arguments_sha256


def test_rejected_call_does_not_happen_and_the_agent_reads_why() -> None:
    run, effect = waiting()
    script = Script("I understand.")

    decide_effect(effect, decision="reject", arguments_sha256=effect.arguments_sha256, by=ANA, reason="Too early.")
    go_on(run, script)

    assert replies(run) == ["I understand."]
    assert script.asked[0].messages[-1].content == "Error: A person rejected it. Too early."


def test_edited_call_happens_with_the_persons_arguments() -> None:
    run, effect = waiting()
    sha256 = effect.arguments_sha256

    new = decide_effect(effect, decision="edit", arguments_sha256=sha256, by=ANA, arguments={"message": "Hi"})
    go_on(run, Script("Done."))

    effect.refresh_from_db()
    assert (replies(run), effect.status, new.replaces_id) == (["Hi", "Done."], "superseded", effect.pk)


def test_call_is_not_approved_when_the_time_is_over() -> None:
    _, effect = waiting()
    effect.approvals.update(expires_at=timezone.now() - timedelta(seconds=1))

    with pytest.raises(NothingPending, match="The time for a decision is over"):
        decide_effect(effect, decision="approve", arguments_sha256=effect.arguments_sha256, by=ANA)

    assert expire_approvals() == 1


def test_call_in_an_archived_project_is_rejected_and_not_approved() -> None:
    run, effect = waiting()
    run.project.archived_at = timezone.now()
    run.project.save()

    with pytest.raises(ProjectArchived):
        decide_effect(effect, decision="approve", arguments_sha256=effect.arguments_sha256, by=ANA)
    decided = decide_effect(effect, decision="reject", arguments_sha256=effect.arguments_sha256, by=ANA)

    assert decided.status == "rejected"


def test_answer_takes_the_place_of_the_tool() -> None:
    run, effect = waiting()
    script = Script("Good.")

    decide_effect(effect, decision="answer", arguments_sha256=effect.arguments_sha256, by=ANA, answer="I told them.")
    go_on(run, script)

    assert (replies(run), script.asked[0].messages[-1].content) == (["Good."], "I told them.")


def test_second_decision_is_refused() -> None:
    _, effect = waiting()
    decide_effect(effect, decision="approve", arguments_sha256=effect.arguments_sha256, by=ANA)

    with pytest.raises(NothingPending):
        decide_effect(effect, decision="reject", arguments_sha256=effect.arguments_sha256, by=ANA)


def test_call_that_nobody_decides_about_is_rejected_in_time() -> None:
    run, effect = waiting()
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    assert expire_approvals() == 1
    go_on(run, Script("Then not."))

    effect.refresh_from_db()
    assert (effect.status, effect.approvals.get().status, replies(run)) == ("rejected", "expired", ["Then not."])


def test_database_starts_no_call_that_was_not_approved() -> None:
    _, effect = waiting()

    with pytest.raises(IntegrityError, match="needs an approval"), transaction.atomic():
        Effect.objects.filter(pk=effect.pk).update(status="started", started_at=timezone.now())


def test_database_lets_no_call_wait_without_a_question() -> None:
    _, effect = waiting()

    Approval.objects.all().delete()
    Effect.objects.filter(pk=effect.pk).update(status="waiting")

    with pytest.raises(IntegrityError, match="nobody was asked"), transaction.atomic():
        check_deferred()

    Effect.objects.filter(pk=effect.pk).update(status="planned")  # or the end of the test would find it too


def test_condition_on_arguments_decides_who_is_asked() -> None:
    rules = ({"type": "requires_approval", "tool": "send_message", "when": "args.message == 'Big'"},)
    run = make_run(make_agent(tools=["send_message"], rules=rules))

    go_on(run, Script([("send_message", {"message": "Small"}), ("send_message", {"message": "Big"})]))

    assert list(run.effects.values_list("status", flat=True)) == ["succeeded", "waiting"]


def test_database_carries_out_no_pure_call_that_was_not_approved() -> None:
    run = make_run(make_agent(tools=["get_lessons"], rules=({"type": "requires_approval", "tool": "get_lessons"},)))
    go_on(run, Script([("get_lessons", {"task": "Ship."})]))
    effect = run.effects.get()
    now = timezone.now()
    assert (effect.kind, effect.status) == ("pure", "waiting")

    with pytest.raises(IntegrityError, match="needs an approval"), transaction.atomic():
        Effect.objects.filter(pk=effect.pk).update(status="succeeded", started_at=now, finished_at=now)


def test_call_that_a_person_edits_keeps_its_place_in_the_order() -> None:
    rules = (
        {"type": "requires_approval", "tool": "send_message"},
        {"type": "parent_last_tool", "tool": "get_lessons", "children": ["send_message"]},
    )
    run = make_run(make_agent(tools=["get_lessons", "send_message", "conversation_search"], rules=rules))
    calls = [("get_lessons", {"task": "Ship."}), ("send_message", {"message": "Hello"})]
    go_on(run, Script([*calls, ("conversation_search", {"query": "order"})]))
    waits = run.effects.get(status="waiting")

    decide_effect(waits, decision="edit", arguments_sha256=waits.arguments_sha256, by=ANA, arguments={"message": "Hi"})
    go_on(run, Script("Done."))

    assert replies(run) == ["Hi", "Done."]


@pytest.mark.parametrize("days", [-365, 365])
def test_worker_whose_clock_is_wrong_expires_nothing(monkeypatch: pytest.MonkeyPatch, days: int) -> None:
    shifted = timezone.now() + timedelta(days=days)
    run = make_run(make_agent(tools=["send_message"], rules=RULES))
    monkeypatch.setattr(timezone, "now", lambda: shifted)

    go_on(run, Script([("send_message", {"message": "Hello"})]))
    assert expire_approvals() == 0
    effect = run.effects.get()
    decide_effect(effect, decision="approve", arguments_sha256=effect.arguments_sha256, by=ANA)
    monkeypatch.undo()
    go_on(run, Script("Done."))

    assert (run.status, run.waited_seconds < 60) == ("succeeded", True)
    assert Approval.objects.filter(expires_at__lt=timezone.now() + timedelta(days=8)).exists()


def test_agent_is_told_that_a_person_edited_its_call() -> None:
    run = make_run(make_agent(tools=["send_message"], rules=({"type": "requires_approval", "tool": "send_message"},)))
    go_on(run, Script([("send_message", {"message": "Refunded."})]))
    effect = run.effects.get()

    decide_effect(
        effect,
        decision="edit",
        arguments_sha256=effect.arguments_sha256,
        arguments={"message": "On its way."},
        by=BY,
    )
    script = Script("Done.")
    go_on(run, script)

    answer = next(message.content for message in script.asked[0].messages if message.role == "tool")
    assert answer.startswith(
        '[A person changed the arguments of this call. It was made with {"message": "On its way."}]'
    )


def test_late_text_after_a_cancel_is_no_reply() -> None:
    run = make_run(make_agent())

    go_on(run, Script(lambda request: cancel_run(run, by=BY) and "Too late."))

    assert (run.status, run.messages.filter(is_reply=True).count()) == ("cancelled", 0)


def make_waiting_run() -> Run:
    run = make_run(make_agent(tools=["send_message"], rules=({"type": "requires_approval", "tool": "send_message"},)))
    go_on(run, Script([("send_message", {"message": "Refunded."})]))
    return run


def test_refusal_of_a_second_run_says_how_to_decide_about_the_call_that_waits() -> None:
    run = make_waiting_run()

    with pytest.raises(ConversationBusy) as raised:
        make_run(run.agent, conversation=run.conversation)
    approval = run.approvals.get()
    assert approval.expires_at is not None
    for part in (
        f"effects/{approval.effect_id}/decide",
        approval.arguments_sha256,
        f"/admin/agents/approval/{approval.pk}/",
        f"{approval.expires_at:%Y-%m-%d %H:%M:%S}",
    ):
        assert part in str(raised.value)


def test_new_message_takes_the_place_of_a_run_that_waits() -> None:
    run = make_waiting_run()

    new = make_run(run.agent, "Leave it.", conversation=run.conversation, replaces_open=True)
    go_on(new, Script("I left it."))

    run.refresh_from_db()
    assert (run.status, run.approvals.get().status, new.status) == ("cancelled", "cancelled", "succeeded")


def test_worker_writes_nothing_into_a_run_whose_place_was_taken() -> None:
    run = make_run(make_agent())

    def replace(request: object) -> str:
        make_run(run.agent, "Leave it.", conversation=run.conversation, replaces_open=True)
        return "Too late."

    go_on(run, Script(replace))

    assert (run.status, run.messages.filter(role="assistant").count()) == ("cancelled", 0)
