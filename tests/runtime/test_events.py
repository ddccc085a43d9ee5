"""The events of a run are small rows, and are sent with the texts of what they are about."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from reflection.llm.base import ProviderError
from runtime.approvals import decide_effect
from runtime.models.runs import Run
from runtime.streaming.reading import read_events
from tests.runtime.running import BY, Script, Turn, go_on, make_agent, make_run

pytestmark = pytest.mark.django_db
RULES = ({"type": "requires_approval", "tool": "send_message"},)
ARGUMENTS = {"message": "Looking into it."}
CALL: Turn = [("send_message", ARGUMENTS)]


def read(run: Run, kind: str) -> list[dict[str, Any]]:
    return [payload for _, its_kind, payload in read_events(run.pk, after=0) if its_kind == kind]


@pytest.fixture
def run() -> Run:
    """A run of two calls, one approved and one rejected by people who gave reasons, and an answer."""
    run = make_run(make_agent(tools=["send_message"], rules=RULES))
    script = Script(CALL, CALL, "On its way.")
    for decision in ("approve", "reject"):
        go_on(run, script)
        effect = run.effects.get(status="waiting")
        decide_effect(
            effect, decision=decision, arguments_sha256=effect.arguments_sha256, by=BY, reason=f"They {decision}."
        )
    go_on(run, script)
    return run


def test_messages_are_sent_with_their_words(run: Run) -> None:
    messages = read(run, "message")

    assert [(message["role"], message["content"]) for message in messages] == [
        ("user", "Where is order 1?"),
        ("assistant", ""),
        ("assistant", "Looking into it."),
        ("tool", "Sent."),
        ("assistant", ""),
        ("tool", "Error: A person rejected it. They reject."),
        ("assistant", "On its way."),
    ]
    calls = [[call["arguments"] for call in message["tool_calls"]] for message in messages if "tool_calls" in message]
    assert [len(each) for each in calls] == [1, 1, 0]


def test_calls_are_sent_with_arguments_and_with_what_went_wrong(run: Run) -> None:
    calls = read(run, "effect")

    assert [(call["status"], call.get("arguments"), call.get("error")) for call in calls] == [
        ("waiting", ARGUMENTS, None),
        ("succeeded", None, ""),
        ("waiting", ARGUMENTS, None),
        ("rejected", None, "A person rejected it. They reject."),
    ]


def test_decisions_are_sent_with_their_reasons(run: Run) -> None:
    decisions = read(run, "approval")

    assert [(each["status"], each.get("by"), each.get("reason")) for each in decisions] == [
        ("pending", None, None),
        ("approved", "user:ana", "They approve."),
        ("pending", None, None),
        ("rejected", "user:ana", "They reject."),
    ]


def test_end_of_a_run_is_sent_with_what_went_wrong() -> None:
    run = make_run(make_agent())
    go_on(run, Script(ProviderError("No key.", transient=False, status=401)))

    assert [each.get("error") for each in read(run, "run")] == [None, None, run.error]


@pytest.mark.parametrize("text", ["Where is order 1?", "Looking into it.", "Sent.", "On its way.", "They approve."])
def test_no_event_has_a_copy_of_a_text(run: Run, text: str) -> None:
    assert text not in json.dumps([*run.events.values_list("payload", flat=True)])


def test_text_that_was_taken_out_of_its_message_is_gone_from_the_events(run: Run) -> None:
    run.messages.filter(content="On its way.").update(content="")

    assert read(run, "message")[-1]["content"] == ""


def test_page_of_events_takes_five_queries_however_many_there_are(run: Run) -> None:
    with CaptureQueriesContext(connection) as captured:
        events = read_events(run.pk, after=0)

    assert len(events) > 20
    assert len(captured) == 5
