"""Bring the steps of a run into the one form we store, whatever form the agent's framework writes them in."""

from collections.abc import Mapping, Sequence
from typing import Any

from memory.errors import InvalidSteps
from memory.limits import MAX_STEPS
from memory.runs.steps import Json, kind_of, read_step
from memory.transcripts.log import Log, UnreadableTranscript
from memory.transcripts.messages import is_message, read_messages


def normalise_steps(raw: Json) -> list[dict[str, Any]]:
    """Return the steps of a run in normal form, as `read_steps` does."""
    return read_steps(raw)[0]


def read_steps(raw: Json) -> tuple[list[dict[str, Any]], list[str], str]:
    """Return the steps of a run in normal form, what messages held that is not kept, with its place, and what they say
    before the first step: the system prompt.

    Reads our own form (a list of {"thought", "action", "observation", "error"}, the action an object with `name` and
    `arguments` or a string such as `search[red shoes]`, `get_user({"id": 1})` or `go to desk 1`), a list of messages
    in any form of `memory.transcripts.messages`, and an object whose only member `messages` is such a list. A form that
    was normalised before comes back unchanged.

    Raises InvalidSteps, naming the place, when the value is in none of these forms or is larger than we keep.
    """
    where = "steps"
    if isinstance(raw, Mapping) and set(raw) == {"messages"}:
        raw, where = raw["messages"], "steps.messages"
        if not isinstance(raw, list):
            raise InvalidSteps(f"{where} must be a list of chat messages, not {kind_of(raw)}.")
        return _steps_of_messages(raw, where=where)
    if raw is None:
        return [], [], ""
    if not isinstance(raw, Sequence) or isinstance(raw, str | bytes):
        raise InvalidSteps(f"{where} must be a list of steps or of chat messages, not {kind_of(raw)}.")
    # The first entry decides, since a run is written in one form.
    if raw and (is_message(raw[0]) or (isinstance(raw[0], Mapping) and "role" in raw[0])):
        return _steps_of_messages(raw, where=where)
    return _checked(raw, where=where), [], ""


def opening_message(messages: Sequence[Json]) -> str:
    """Return what the first user message asks for, "" when there is none."""
    log = Log()
    for number, message in enumerate(messages):
        if log.steps:
            break
        try:
            read_messages(log, [message], f"messages[{number}]")
        except UnreadableTranscript:
            break
    return log.task


def _steps_of_messages(messages: Sequence[Json], *, where: str) -> tuple[list[dict[str, Any]], list[str], str]:
    if len(messages) > MAX_STEPS:
        raise InvalidSteps(f"{where} has {len(messages)} messages; at most {MAX_STEPS} are kept. Split the run.")
    log = Log()
    try:
        read_messages(log, messages, where)
    except UnreadableTranscript as error:
        raise InvalidSteps(str(error)) from None
    run = log.transcript()
    return _checked(run.steps, where="steps"), log.left_out, run.system_prompt


def _checked(steps: Sequence[Json], *, where: str) -> list[dict[str, Any]]:
    if len(steps) > MAX_STEPS:
        raise InvalidSteps(f"{where} has {len(steps)} entries; at most {MAX_STEPS} are kept. Split the run.")
    return [
        read_step(step, number=number, where=f"{where}[{number - 1}]") for number, step in enumerate(steps, start=1)
    ]
