"""How a model's answer ended, and what follows: pure rules, the same for runs and for rehearsals."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any

from reflection.llm.chat import ChatAnswer
from runtime.errors import InvalidArguments
from runtime.limits import Limits
from runtime.models.runs import Run, StopReason
from runtime.schema import check_arguments


class Ending(StrEnum):
    """How an answer ended that is not simply finished; the values are those of `Step.finish_reason`."""

    EMPTY = "empty"  # neither words nor calls
    CUT = "length"  # at the limit of output
    OVERFLOW = "context"  # at the end of the window, or before the answer began
    PAUSED = "pause"  # the provider wants to be asked on
    BROKEN = "error"
    UNFIT = "schema"  # a reply that does not fit the schema of the agent's replies
    REFUSED = "refusal"  # by the model
    FILTERED = "content_filter"  # by the provider


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run fails, and the sentence that says it."""

    reason: StopReason
    error: str


# Not held against the lessons that the run was given.
FAILURES = {
    Ending.EMPTY: Failure(
        StopReason.EMPTY_ANSWER, "The model gave an empty answer twice. The run's page shows its reasoning."
    ),
    Ending.CUT: Failure(
        StopReason.CUT_OFF,
        "The model's answer was cut off at the output limit twice. Raise the agent's max_output_tokens, or let the "
        "model think less.",
    ),
    Ending.OVERFLOW: Failure(
        StopReason.CONTEXT_OVERFLOW,
        "The conversation does not fit into the model's context window, even after it was shortened. Set the agent's "
        "window_tokens to the size of the model's window.",
    ),
    Ending.BROKEN: Failure(StopReason.MODEL_FAILED, "The provider ended the model's answer with an error twice."),
    Ending.UNFIT: Failure(
        StopReason.INVALID_ANSWER, "Twice, the reply did not fit output_schema in the agent's model_settings."
    ),
    Ending.REFUSED: Failure(StopReason.REFUSED, "The model refused to answer."),
    Ending.FILTERED: Failure(StopReason.FILTERED, "The provider's content filter stopped the model's answer."),
}
NOTES = {
    Ending.EMPTY: "Your last answer was empty. Call a tool, or answer the user.",
    Ending.CUT: "Your last answer was cut off because it was too long. Write the whole answer again, more briefly.",
    Ending.BROKEN: "Your last answer broke off. Write the whole answer again.",
    Ending.UNFIT: "Your last answer does not fit the JSON schema for final answers. Write it again as a JSON object "
    "that fits, and nothing else.",
}
# Answers in a row that end in the same way, after which the run fails. Not every provider says how large the window is,
# so a prompt may have to be shortened more than once; a refused one costs nothing.
TRIES = {Ending.OVERFLOW: 4}
USUAL_TRIES = 2
NO_PROGRESS_NOTE = (
    "You have called this {times} times with the same arguments and got the same result each time. Calling it again "
    "will not help. Do something else, or answer the user."
)
TOLD_AT, FAILED_AT = 3, 8  # times that the same call has the same result
LOOKED_AT = 12  # steps among which they are counted
MOST_UNREADABLE = 3  # answers in a row whose calls cannot be read


def name_ending(answer: ChatAnswer, *, schema: Mapping[str, Any] | None = None) -> str:
    """Return how an answer ended: the model's own finish reason, or that there was nothing in it.

    Args:
        schema: what the agent's replies have to fit, a JSON schema of an object.
    """
    if answer.finish_reason in set(Ending) and answer.finish_reason != Ending.EMPTY:
        return answer.finish_reason
    if not answer.tool_calls and not answer.text.strip():
        return Ending.EMPTY
    if schema is not None and not answer.tool_calls and not _fits(answer.text, schema):
        return Ending.UNFIT
    return answer.finish_reason


def _fits(text: str, schema: Mapping[str, Any]) -> bool:
    try:
        value = json.loads(text)
        if not isinstance(value, dict):
            return False
        check_arguments(schema, value)
    except (ValueError, RecursionError, InvalidArguments):
        return False
    return True


def room_for_answer(usual: int, *, window_tokens: int, more: bool) -> int:
    """Return the tokens that the next answer may have: the usual ones, or `more` after one that was cut off."""
    # At most half of the window, so that the prompt still fits.
    return max(usual, min(4 * usual, window_tokens // 2)) if more else usual


def find_failure(endings: Sequence[str], *, calls: bool) -> Failure | None:
    """Return why a run fails after an answer; None where it goes on or has ended well.

    Args:
        endings: of the last answer and of those before it, the newest first.
        calls: whether the last answer calls tools, which may be carried out though it was cut off.
    """
    ending = endings[0] if endings else ""
    # Asked again, it would refuse again.
    if ending in (Ending.REFUSED, Ending.FILTERED):
        return FAILURES[Ending(ending)]
    if ending not in FAILURES or calls:
        return None
    tries = TRIES.get(Ending(ending), USUAL_TRIES)
    return FAILURES[Ending(ending)] if [*endings[:tries]] == [ending] * tries else None


def find_stuck(*, unreadable: int, repeats: int) -> Failure | None:
    """Return why a run that goes round in circles fails; None if it does not.

    Args:
        unreadable: answers in a row whose calls could not be read.
        repeats: how often the last step was taken, with the same results.
    """
    if unreadable >= MOST_UNREADABLE:
        error = f"In {unreadable} answers in a row, the arguments of the calls were not valid JSON."
        return Failure(StopReason.INVALID_ANSWER, error)
    if repeats >= FAILED_AT:
        error = f"The agent made the same call {repeats} times and got the same result each time."
        return Failure(StopReason.NO_PROGRESS, error)
    return None


def without_tool(tool: str) -> Failure:
    """Return why a run fails that did not call a tool it was reminded of."""
    return Failure(StopReason.REQUIRED_TOOL, f"The agent finished twice without calling {tool}.")


def find_spent(limits: Run | Limits, *, steps: int, tokens: int, cost_usd: Decimal, seconds: float) -> Failure | None:
    """Return which limit stands against another question to the model."""
    if steps >= limits.max_steps:
        return Failure(StopReason.MAX_STEPS, f"The run reached its limit of {limits.max_steps} steps.")
    if limits.max_tokens is not None and tokens >= limits.max_tokens:
        return Failure(StopReason.MAX_TOKENS, f"The run used {tokens:,} tokens; its limit is {limits.max_tokens:,}.")
    if limits.max_cost_usd is not None and cost_usd >= limits.max_cost_usd:
        return Failure(StopReason.MAX_COST, f"The run cost ${cost_usd}; its limit is ${limits.max_cost_usd}.")
    return find_overtime(limits, seconds=seconds)


def find_overtime(limits: Run | Limits, *, seconds: float) -> Failure | None:
    if limits.max_seconds is None or seconds < limits.max_seconds:
        return None
    return Failure(StopReason.MAX_SECONDS, f"The run reached its limit of {limits.max_seconds} seconds.")


def is_unfinished(ending: str) -> bool:
    """Tell whether the model is asked again after an answer without calls."""
    return ending in (*NOTES, Ending.PAUSED, Ending.OVERFLOW)


def count_repeats(steps: Sequence[str]) -> int:
    """Return how often the newest of these steps was taken among the last ones; 0 where there is none.

    Args:
        steps: what each step called and what came of it, as one text; "" for one without calls. The newest first.
    """
    recent = steps[:LOOKED_AT]
    return recent.count(recent[0]) if recent and recent[0] else 0
