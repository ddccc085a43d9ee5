"""The journal of effects: a call is written down here before it happens, or not at all.

`plan_effect` is the only place in which an effect is made, so the rules of the agent hold on every path.
"""

import hashlib
import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from memory.database_clock import database_now
from memory.events import EventKind, ProjectEvent, announce
from memory.limits import MAX_ARGUMENTS_CHARS, MAX_NAME_CHARS
from runtime.context.planning import prompt_budget
from runtime.context.prompt import READ_WITH, window_of, write_request
from runtime.conversations import add_message
from runtime.endings import LOOKED_AT, NO_PROGRESS_NOTE, TOLD_AT, Ending
from runtime.loop.rows import UNREADABLE, read_history
from runtime.models.conversations import Message
from runtime.models.effects import Approval, Effect
from runtime.models.runs import Step
from runtime.rules import Called, needs_approval, read_rules, refuse_call
from runtime.streaming.events import append_event
from runtime.tools.catalogue import LoopTool, find_tool

MAX_RESULT_SHARE = 0.2  # of the context window; the rest can be read with read_result
MAX_RESULTS_SHARE = 0.5  # of what the head leaves of a prompt: for the results of one answer together
LEAST_RESULT = 200  # characters
EDITED_CHARACTERS = 2_000
CHARACTERS_PER_TOKEN = 3


def hash_arguments(arguments: Any) -> str:
    """Return the hash to which an approval is bound."""
    # Sorted and without spaces: the same arguments have the same hash, whatever order they come in.
    text = json.dumps(arguments, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    # JSON can carry half of a surrogate pair, which UTF-8 refuses unless told otherwise.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def plan_effect(
    step: Step,
    *,
    index: int,
    tool: str,
    arguments: dict[str, Any] | None,
    call_id: str = "",
    parent: Effect | None = None,
    replaces: Effect | None = None,
) -> Effect:
    """Write down a call that the model, a tool or a person wants, in the caller's transaction.

    If a rule, the schema or an unknown name forbids it, it ends here as refused, and the model reads the reason.
    """
    run = step.run
    if arguments is not None and len(json.dumps(arguments, ensure_ascii=False)) > MAX_ARGUMENTS_CHARS:
        arguments = None  # no trajectory could hold them
    rules = read_rules(run.revision.rules)
    offer = find_tool(run, tool, parent=parent)
    effect = Effect(
        project_id=run.project_id,
        run=run,
        step=step,
        parent=parent,
        replaces=replaces,
        index=index,
        tool=tool[:MAX_NAME_CHARS] or "unnamed",
        tool_revision=offer.revision if offer else None,
        call_id=call_id,
        arguments=arguments or {},
        arguments_sha256=hash_arguments(arguments or {}),
        kind=offer.kind if offer else Effect.Kind.PURE,
    )
    # A call that a person edited has the place of the one that it replaces, which the rules let in.
    history = read_history(run) if offer is not None and replaces is None else None
    refused = find_refusal(effect, offer, arguments, rules=rules, history=history)
    if refused:
        effect.status, effect.error, effect.finished_at = Effect.Status.REFUSED, refused, timezone.now()
    elif replaces is None and needs_approval(
        rules,
        tool=tool,
        arguments=arguments,
        revision=str(effect.tool_revision_id or ""),
        by_itself=offer is not None and offer.needs_approval,
    ):
        effect.status, effect.needs_approval = Effect.Status.WAITING, True
    elif replaces is not None:
        # It has its approval, too: a person wrote these arguments.
        effect.needs_approval = True
    effect.save(force_insert=True)
    append_event(
        run.pk,
        "effect",
        effect=effect.pk,
        step=step.seq,
        index=index,
        tool=effect.tool,
        kind=effect.kind,
        status=effect.status,
        parent=parent.pk if parent else None,
    )
    if effect.status == Effect.Status.WAITING:
        ask_people(effect)
    # A tool in the sandbox gets the refusal as its answer, the model as a message.
    elif refused and parent is None:
        add_result(effect)
    return effect


def ask_people(effect: Effect, *, about_unknown: bool = False) -> Approval:
    """Ask whether a call may happen, or, where that is not known, whether it did."""
    run = effect.run
    expires_at = None if about_unknown else database_now() + timedelta(seconds=run.approval_seconds)
    approval = Approval.objects.create(
        project_id=run.project_id,
        run=run,
        effect=effect,
        arguments_sha256=effect.arguments_sha256,
        about_unknown=about_unknown,
        expires_at=expires_at,
    )
    append_event(
        run.pk,
        "approval",
        approval=approval.pk,
        effect=effect.pk,
        tool=effect.tool,
        arguments_sha256=effect.arguments_sha256,
        about_unknown=about_unknown,
        status=approval.status,
        expires_at=expires_at,
    )
    details = {"approval": str(approval.pk), "run": str(run.pk), "tool": effect.tool, "about_unknown": about_unknown}
    announce(ProjectEvent(kind=EventKind.APPROVAL_WAITING, project_id=run.project_id, details=details))
    return approval


def end_effect(effect: Effect, *, status: str, result: str = "", error: str = "", is_answered: bool = False) -> None:
    """Write down how a call ended and, for a call of the model, the message that answers it, if there is none yet."""
    effect.status, effect.finished_at = status, timezone.now()
    # PostgreSQL stores no NUL characters in text.
    effect.result, effect.error = result.replace("\x00", "\ufffd"), error.replace("\x00", "\ufffd")
    effect.save(update_fields=["status", "result", "error", "finished_at", "started_at", "fence"])
    append_event(
        effect.run_id,
        "effect",
        effect=effect.pk,
        tool=effect.tool,
        status=effect.status,
        result_characters=len(effect.result),
    )
    if effect.parent_id is None and status != Effect.Status.SUPERSEDED and not is_answered:
        add_result(effect)


def add_result(effect: Effect) -> None:
    """Write the message that answers a call of the model, cut where it would fill the window."""
    text = _write_result(effect)
    most = most_of_result(window_of(effect.run))
    message = add_message(effect.run, role="tool", content=text[:most], tool_call_id=effect.call_id, effect=effect)
    # The hint names the number of the message, which it has only once it is stored.
    if len(text) > most:
        message.content = cut_result(text, most, seq=message.seq)
        message.save(update_fields=["content"])
    # Calls end in their order, but for those about which people decide.
    if (effect.index or effect.needs_approval) and not _has_open_calls(effect.step):
        _share_room(effect.step)
        message.refresh_from_db(fields=["content"])
    # Told once, at the third time. If it goes on, the run fails at FAILED_AT.
    if effect.step.seq >= TOLD_AT and _count_same(effect) == TOLD_AT:
        message.content += f"\n[{NO_PROGRESS_NOTE.format(times=TOLD_AT)}]"
        message.save(update_fields=["content"])
    append_event(effect.run_id, "message", role="tool", seq=message.seq, effect=effect.pk)


def _has_open_calls(step: Step) -> bool:
    return step.effects.filter(parent__isnull=True, status__in=Effect.OPEN).exists()


def _write_result(effect: Effect) -> str:
    """Return what the model reads of a call, with its arguments where a person wrote them."""
    text = effect.result if effect.status == Effect.Status.SUCCEEDED else f"Error: {effect.error}"
    if effect.replaces_id is None:
        return text
    made = json.dumps(effect.arguments, ensure_ascii=False)
    return f"[A person changed the arguments of this call. It was made with {made[:EDITED_CHARACTERS]}]\n{text}"


def most_of_result(window_tokens: int) -> int:
    """Return how many characters of a result the model reads at once."""
    return int(window_tokens * MAX_RESULT_SHARE) * CHARACTERS_PER_TOKEN


def cut_result(text: str, most: int, *, seq: int) -> str:
    """Return a result that is too long, with how to read the rest of it."""
    return f"{text[:most]}\n[Cut here: {len(text):,} characters in all. Read on {READ_WITH}, result {seq}.]"


def _share_room(step: Step) -> None:
    """Shorten the results of an answer evenly where they leave too little of the prompt: the longest, to one length."""
    messages = list(Message.objects.filter(effect__step=step, role=Message.Role.TOOL).select_related("effect"))
    total = sum(len(message.content) for message in messages)
    budget = prompt_budget(step.run)
    if total <= budget * MAX_RESULTS_SHARE / 2 * CHARACTERS_PER_TOKEN:  # whatever the head is
        return
    head = write_request(step.run, (), compaction=None).estimated_input_tokens
    left = room = int(max(0, budget - head) * MAX_RESULTS_SHARE) * CHARACTERS_PER_TOKEN
    if total <= room:
        return
    # From the shortest up: what a short result leaves of its share goes to the longer ones.
    share = 0
    for number, length in enumerate(sorted(len(message.content) for message in messages)):
        share = max(LEAST_RESULT, left // (len(messages) - number))
        if length > share:
            break
        left -= length
    for message in messages:
        if len(message.content) > share and message.effect is not None:
            message.content = cut_result(_write_result(message.effect), share, seq=message.seq)
            message.save(update_fields=["content"])


def _count_same(effect: Effect) -> int:
    """Return how often a call was made among the last steps with the same result, this time included."""
    since = effect.step.seq - LOOKED_AT
    same = effect.run.effects.filter(
        parent__isnull=True, tool=effect.tool, arguments_sha256=effect.arguments_sha256, step__seq__gt=since
    )
    return same.filter(status=effect.status, result=effect.result, error=effect.error).count()


def find_refusal(
    effect: Effect,
    found: LoopTool | None,
    arguments: dict[str, Any] | None,
    *,
    rules: Sequence[Any],
    history: Sequence[Called] | None,
) -> str:
    """Return why a call may not begin, as a sentence for the agent; "" where it may. Runs no query.

    Args:
        found: the tool; None where the agent has none of that name.
        arguments: None where they could not be read.
        history: the calls so far; None where no rule about them holds.
    """
    if found is None:
        return f"There is no tool {effect.tool!r}."
    if history is not None:
        by_tool = effect.parent is not None
        if refused := refuse_call(rules, history, tool=effect.tool, step=effect.step.seq, by_tool=by_tool):
            return refused
    if arguments is None:
        if effect.step.finish_reason == Ending.CUT:
            return f"{UNREADABLE}: your answer was cut off because it was too long. Call the tool again, with less."
        return (
            f"{UNREADABLE} that can be used. Call the tool again with a JSON object of at most "
            f"{MAX_ARGUMENTS_CHARS:,} characters."
        )
    return found.find_fault(arguments)
