"""How far a conversation has to be shortened so that the next prompt fits: first old results, then old messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from django.db.models import Max

from reflection.llm.base import estimate_tokens
from reflection.llm.chat import ChatRequest
from runtime.context.prompt import SUMMARY, output_of, window_of, write_request
from runtime.endings import Ending
from runtime.limits import Compacting
from runtime.models.conversations import Compaction, Message
from runtime.models.runs import Run, Step

SHARES = (0.3, 0.5, 0.7, 0.9)  # of the messages that are shown: so many of the oldest are summarised
SUMMARY_SHARE = 0.125  # of the budget, at most


class Fit(StrEnum):
    """How the next prompt fits."""

    FITS = "fits"
    TOO_LONG = "too_long"  # the conversation has to be shortened, and can be
    HEAD_TOO_LONG = "head_too_long"  # instructions, memory, lessons and tools alone do not fit
    NEWEST_TOO_LONG = "newest_too_long"  # the newest messages, which have to be shown, do not fit beside them


@dataclass(frozen=True, slots=True)
class Plan:
    """Up to which messages results are left out, and up to which messages are summarised."""

    masked_through: int
    summarised_through: int
    tokens_before: int


@dataclass(frozen=True)
class Shown:
    """What the next prompt of a run shows of its conversation. It is read when it is first asked for."""

    run: Run

    @cached_property
    def compaction(self) -> Compaction | None:
        """The compaction that holds."""
        return Compaction.objects.filter(conversation_id=self.run.conversation_id).order_by("-number").first()

    @cached_property
    def messages(self) -> tuple[Message, ...]:
        since = self.compaction.summarised_through if self.compaction else 0
        shown = Message.objects.read_at().filter(conversation_id=self.run.conversation_id, seq__gt=since)
        return tuple(shown.order_by("seq"))

    @cached_property
    def request(self) -> ChatRequest:
        return write_request(self.run, self.messages, compaction=self.compaction)


def prompt_budget(run: Run) -> int:
    """Return the tokens that a prompt of a run may have: the window without room for the answer."""
    return window_of(run) - output_of(run)


def measure(shown: Shown) -> Fit:
    """Say how the next prompt of a run fits."""
    run, budget = shown.run, prompt_budget(shown.run)
    tokens = shown.request.estimated_input_tokens
    is_short = tokens <= budget * Compacting.model_validate(run.revision.compaction).at
    if is_short and plan_wanted(shown) is None:
        return Fit.FITS
    if plan_compaction(shown) is not None:
        return Fit.TOO_LONG
    # Nothing can be shortened, but it still fits.
    if tokens <= budget:
        return Fit.FITS
    head_tokens = write_request(run, (), compaction=None).estimated_input_tokens
    return Fit.HEAD_TOO_LONG if head_tokens > budget else Fit.NEWEST_TOO_LONG


def plan_compaction(shown: Shown) -> Plan | None:
    """Return what a person wants, or the least that makes the prompt short enough; None where nothing does."""
    if (wanted := plan_wanted(shown)) is not None:
        return wanted
    run, messages = shown.run, shown.messages
    options = Compacting.model_validate(run.revision.compaction)
    most = prompt_budget(run) * options.at
    before = shown.request.estimated_input_tokens
    masked = shown.compaction.masked_through if shown.compaction else 0
    summarised = shown.compaction.summarised_through if shown.compaction else 0
    read_through = _find_read_through(run)
    for keep in _fewer(options.keep_results):
        # A result that was left out once is not shown again.
        masked = max(masked, min(_mask(messages, keep=keep), read_through))
        if _tokens(shown, masked=masked, summarised=summarised) <= most:
            return Plan(masked, summarised, before)
    for share in SHARES:
        cut = _cut(messages, share=share)
        if summarised < cut <= read_through and _tokens(shown, masked=masked, summarised=cut) <= most:
            return Plan(masked, cut, before)
    return None


def plan_wanted(shown: Shown) -> Plan | None:
    """Return how a conversation is shortened that a person wants to be: all but its newest turn is summarised."""
    if not shown.run.conversation.compaction_wanted:
        return None
    # The share that leaves at least the last message.
    cut = min(_cut(shown.messages, share=1 - 1 / max(1, len(shown.messages))), _find_read_through(shown.run))
    masked = shown.compaction.masked_through if shown.compaction else 0
    return Plan(masked, cut, shown.request.estimated_input_tokens) if cut else None


def _find_read_through(run: Run) -> int:
    """Return the last message that is known to have been read: nothing after it is left out.

    Messages that earlier runs left unread may be, so that a run can always begin, unless this run resumes them.
    """
    # An overflow does not prove that the model read the prompt.
    steps = Step.objects.filter(run__in=[run.pk, run.resumes_id], status=Step.Status.ANSWERED)
    read: int | None = steps.exclude(finish_reason=Ending.OVERFLOW).aggregate(last=Max("through"))["last"]
    if read is not None:
        return read
    first = run.messages.order_by("seq").values_list("seq", flat=True).first()
    return run.conversation.messages_written if first is None else first - 1


def _fewer(keep: int) -> list[int]:
    """Return how many results to keep whole: first as many as wanted, then fewer and fewer."""
    tried = [keep]
    while tried[-1] > 1:
        tried.append(tried[-1] // 2)
    return tried


def _mask(messages: Sequence[Message], *, keep: int) -> int:
    """Return the last result that is left out where the newest `keep` stay."""
    results = [message.seq for message in messages if message.role == Message.Role.TOOL]
    return results[-keep - 1] if len(results) > keep else 0


def _cut(messages: Sequence[Message], *, share: float) -> int:
    """Return the last message of the oldest `share` that is followed by the beginning of a turn; 0 where none is."""
    for index in range(int(len(messages) * share), 0, -1):
        # A result must not be separated from the call that it answers.
        if messages[index].role != Message.Role.TOOL:
            return messages[index - 1].seq
    return 0


def _tokens(shown: Shown, *, masked: int, summarised: int) -> int:
    """Estimate the prompt with these changes. A summary that is still to be written counts in full."""
    old = shown.compaction
    is_new = summarised > (old.summarised_through if old else 0)
    tried = Compaction(
        masked_through=masked,
        summarised_through=summarised,
        summary="" if is_new or old is None else old.summary,
    )
    rest = [message for message in shown.messages if message.seq > summarised]
    tokens = write_request(shown.run, rest, compaction=tried).estimated_input_tokens
    if is_new:
        tokens += int(prompt_budget(shown.run) * SUMMARY_SHARE) + estimate_tokens(SUMMARY)
    return tokens
