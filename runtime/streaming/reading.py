"""Read the events of a run as they are sent: what each row says, with the texts of what it is about.

The texts stay where they belong, in messages, calls, decisions and the run. So an erased text is gone from the events
too, and a result that was cut later is read as the model reads it.
"""

from typing import Any, NamedTuple
from uuid import UUID

from runtime.models.conversations import Message
from runtime.models.effects import Approval, Effect
from runtime.models.runs import Event, Run

Payload = dict[str, Any]
AT_ONCE = 500


class Seen(NamedTuple):
    """An event as it is sent. A part of an answer is no stored event and has no number: its `seq` is 0."""

    seq: int
    kind: str
    payload: Payload


def read_events(run_id: UUID, *, after: int) -> list[Seen]:
    """Return the next events of a run, in their order. At most five queries, however many events there are."""
    rows = Event.objects.filter(run=run_id, seq__gt=after).order_by("seq").values_list("seq", "kind", "payload")
    events = [Seen(*row) for row in rows[:AT_ONCE]]
    for kind, add_texts in _WITH_TEXTS.items():
        payloads = [event.payload for event in events if event.kind == kind]
        if payloads:
            add_texts(run_id, payloads)
    return events


def _add_contents(run_id: UUID, payloads: list[Payload]) -> None:
    rows = Message.objects.filter(run=run_id, seq__in=[payload["seq"] for payload in payloads])
    messages = {seq: texts for seq, *texts in rows.values_list("seq", "content", "tool_calls")}
    for payload in payloads:
        content, tool_calls = messages.get(payload["seq"], ("", []))
        payload["content"] = content
        if "step" in payload:  # an answer of the model
            payload["tool_calls"] = tool_calls


def _add_calls(run_id: UUID, payloads: list[Payload]) -> None:
    rows = Effect.objects.filter(run=run_id, pk__in={payload["effect"] for payload in payloads})
    effects = {str(id): texts for id, *texts in rows.values_list("id", "arguments", "error")}
    for payload in payloads:
        arguments, error = effects.get(payload["effect"], ({}, ""))
        if "index" in payload:  # it was planned
            payload["arguments"] = arguments
        else:
            payload["error"] = error


def _add_reasons(run_id: UUID, payloads: list[Payload]) -> None:
    decided = [payload for payload in payloads if "by" in payload]
    rows = Approval.objects.filter(run=run_id, pk__in=[payload["approval"] for payload in decided])
    reasons = {str(id): reason for id, reason in rows.values_list("id", "reason")}
    for payload in decided:
        payload["reason"] = reasons.get(payload["approval"], "")


def _add_error(run_id: UUID, payloads: list[Payload]) -> None:
    for payload in payloads:
        if "stop_reason" in payload:  # the run ended
            payload["error"] = Run.objects.filter(pk=run_id).values_list("error", flat=True).first() or ""


_WITH_TEXTS = {"message": _add_contents, "effect": _add_calls, "approval": _add_reasons, "run": _add_error}
