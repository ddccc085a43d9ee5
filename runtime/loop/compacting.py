"""Shorten what the model reads of a conversation: first leave out old results, then summarise old messages.

Messages stay as they are. A compaction says how they are shown from the next step on, and until the next compaction the
beginning of the prompt stays the same, which providers charge less for.
"""

from collections.abc import Callable

from memory.retrieval.safe_text import clean_text
from reflection.llm.base import Provider, ProviderError
from runtime.context.planning import SUMMARY_SHARE, Plan, Shown, plan_compaction, prompt_budget
from runtime.context.prompt import write_request
from runtime.context.summaries import PROMPT_VERSION, ask_summary, extract_summary
from runtime.limits import Compacting
from runtime.loop.asking import converse
from runtime.loop.fence import Claimed
from runtime.models.conversations import Compaction, CompactionMethod, Conversation, Message
from runtime.models.runs import Run
from runtime.streaming.events import append_event


def compact(claimed: Claimed, run: Run, *, find_provider: Callable[[str], Provider]) -> None:
    """Write the compaction that makes the next prompt of a run fit."""
    shown = Shown(run)
    plan = plan_compaction(shown)
    if plan is None:
        return
    old = shown.compaction
    number = 1 + (old.number if old else 0)
    # Leaving out results writes no summary, so the one of the last compaction still holds.
    method, summary = CompactionMethod.MASK, old.summary if old else ""
    if plan.summarised_through > (old.summarised_through if old else 0):
        method, summary = _summarise(claimed, shown, plan, number=number, find_provider=find_provider)
    compaction = Compaction(
        project_id=run.project_id,
        conversation_id=run.conversation_id,
        number=number,
        method=method,
        masked_through=plan.masked_through,
        summarised_through=plan.summarised_through,
        summary=clean_text(summary),  # it quotes what tools and users said
        prompt_version="" if method == CompactionMethod.MASK else PROMPT_VERSION,
        tokens_before=plan.tokens_before,
    )
    rest = [message for message in shown.messages if message.seq > plan.summarised_through]
    compaction.tokens_after = write_request(run, rest, compaction=compaction).estimated_input_tokens
    with claimed.writing():
        compaction.save(force_insert=True)
        Conversation.objects.filter(pk=run.conversation_id).update(compaction_wanted=False)
        # A message keeps the compaction that first stood for it.
        stands_for = Message.objects.filter(
            conversation_id=run.conversation_id, seq__lte=plan.summarised_through, compacted_by__isnull=True
        )
        stands_for.update(compacted_by=compaction)
        append_event(
            run.pk,
            "compaction",
            number=number,
            method=method,
            masked_through=plan.masked_through,
            summarised_through=plan.summarised_through,
            tokens_before=plan.tokens_before,
            tokens_after=compaction.tokens_after,
        )


def _summarise(
    claimed: Claimed, shown: Shown, plan: Plan, *, number: int, find_provider: Callable[[str], Provider]
) -> tuple[CompactionMethod, str]:
    """Return a summary of what the plan leaves out: the model's, or an extract where it gives none that is usable."""
    run, before = shown.run, shown.compaction.summary if shown.compaction else ""
    messages = [message for message in shown.messages if message.seq <= plan.summarised_through]
    max_tokens = int(prompt_budget(run) * SUMMARY_SHARE)
    provider = find_provider(run.revision.model)
    wanted = Compacting.model_validate(run.revision.compaction).summarise
    if wanted == "model" or (wanted == "auto" and provider.name != "scripted"):
        request = ask_summary(messages, before=before, max_tokens=max_tokens)
        try:
            answer, _ = converse(claimed, run, f"summary:{number}", request.sha256, lambda: request, provider=provider)
        except ProviderError as error:
            # A passing failure is worth another attempt. Any other must not stop the run: the extract will do.
            if error.transient:
                raise
        else:
            # Three characters per token: a model may write more than it was asked for.
            if answer.text.strip():
                return CompactionMethod.MODEL, answer.text.strip()[: max_tokens * 3]
    return CompactionMethod.EXTRACT, extract_summary(messages, before=before, max_tokens=max_tokens)
