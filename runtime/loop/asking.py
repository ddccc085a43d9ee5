"""Prepare a run, ask the model, and write down its answer with the calls that it wants."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial

from django.db.models import F
from django.utils import timezone

from memory.database_clock import database_now
from memory.failpoints import failpoint
from memory.projects.actors import Actor
from memory.releases.models import Release
from memory.retrieval.answers import prepare_answer, record_answer
from memory.retrieval.assignment import ServedArm
from memory.retrieval.question import Question
from reflection.errors import LostClaim, NotNow, ReflectionError
from reflection.llm.base import Provider, ProviderError
from reflection.llm.calls import RememberedChat, read_chat
from reflection.llm.chat import ChatAnswer, ChatRequest, stored_calls
from reflection.llm.models import ModelCall
from runtime.context.head import write_head, write_question
from runtime.context.planning import Shown
from runtime.context.prompt import hash_prompt, output_of, rebuild_request, window_of, write_tools
from runtime.conversations import add_message
from runtime.endings import Ending, name_ending, room_for_answer
from runtime.loop.fence import Claimed
from runtime.loop.journal import plan_effect
from runtime.loop.waiting import room
from runtime.models.conversations import Conversation, Message
from runtime.models.runs import Event, Run, Step
from runtime.revisions import deployed_revision
from runtime.streaming.events import append_event, send_text
from runtime.tools.catalogue import tools_of

SECONDS_BETWEEN_PARTS = 0.1
SHORTER, MUCH_SHORTER = 0.75, 0.5  # of a prompt that was too long; where the provider does not say for what
MOST_TIMEOUTS = 3  # of one step: each was paid for
_Find = Callable[[str], Provider]


def prepare_run(claimed: Claimed, run: Run) -> None:
    """Fix what a run is made of: the lessons for its task, the head of its prompts, its tools."""
    # Services may be asked for the vector of the task: no transaction is open.
    prepared = prepare_answer(
        Question(
            project=run.project,
            task=write_question(run),
            by=Actor(label=run.created_by, api_key_id=run.api_key_id),
            task_id=run.task_id,
            agent=run.agent.name,
            tools=tuple(tool.name for tool in tools_of(run)),
            session=str(run.conversation_id),
            client=run.client,
            request_id=run.request_id,
        )
    )
    with claimed.writing() as run:
        # Another attempt may have prepared the run while this one waited for a service.
        if run.prepared_at is not None:
            return
        answer = record_answer(prepared)
        release = None
        if answer.release is not None:
            release = Release.objects.filter(project=run.project_id, number=answer.release).first()
        # A candidate release has its own revision of the agent.
        if answer.arm == ServedArm.CANDIDATE:
            run.revision = deployed_revision(run, release)
        now = database_now()
        Run.objects.filter(pk=run.pk).update(
            revision=run.revision,
            retrieval_id=answer.retrieval_id if answer.recorded else None,
            release=release,
            arm=answer.arm,
            head=write_head(run, lessons=answer.context),
            tools=write_tools([tool.for_model for tool in tools_of(run)]),
            prepared_at=now,
            started_at=run.started_at or now,
            status=Run.Status.RUNNING,
        )
        append_event(
            run.pk, "run", status=Run.Status.RUNNING, release=answer.release, arm=answer.arm, lessons=len(answer.items)
        )


def ask_model(claimed: Claimed, shown: Shown, *, again: bool, more_room: bool, find_provider: _Find) -> None:
    """Take a step: journal the question, ask, and write down the answer with the calls that it wants."""
    run = shown.run
    step = _get_step(run) if again else _begin_step(claimed, shown, more_room=more_room)
    if step is None:
        return
    answer, call = converse(
        claimed,
        run,
        f"step:{step.seq}",
        step.request_sha256,
        partial(rebuild_request, step) if again else partial(_read_request, shown, step),
        provider=find_provider(run.revision.model),
        listener=_Parts(claimed, step),
    )
    failpoint("agent.answered")
    _write_answer(claimed, step, answer, call)


def converse(
    claimed: Claimed,
    run: Run,
    name: str,
    sha256: str,
    write_request: Callable[[], ChatRequest],
    *,
    provider: Provider,
    listener: "_Parts | _Quiet | None" = None,
) -> tuple[ChatAnswer, ModelCall]:
    """Return a model's answer and its row in the ledger: the stored one, or a new one.

    Args:
        sha256: of the question, which is written only where there is no answer yet.

    Raises:
        HandedOver: it takes longer than a task may wait; the answer will be stored.
        ProviderError: there is no answer.
    """
    ask = RememberedChat(claimed.job, claimed.heartbeat, provider=provider, subject=f"run:{run.pk}")
    stored = ask.recall(name, sha256)
    if stored is not None:
        return stored
    listener = listener or _Quiet()
    claimed.job.project = run.project  # whose budget is asked
    asked = ask.begin(name, write_request(), on_text=listener.add)
    room.wait(claimed.job, run.pk, asked, listener)
    try:
        call = asked.store()
    except ProviderError as error:
        raise listener.note_failure(error) from error
    claimed.job.model = call.model
    return read_chat(call), call


def _begin_step(claimed: Claimed, shown: Shown, *, more_room: bool) -> Step | None:
    """Journal the question; None where something was written meanwhile, so that the rows have to be looked at again."""
    with claimed.writing() as run:
        through = run.conversation.messages_written
        if run.cancel_requested_at is not None or through != shown.run.conversation.messages_written:
            return None
        tokens = room_for_answer(output_of(run), window_tokens=window_of(run), more=more_room)
        request = replace(shown.request, max_output_tokens=tokens)
        step = Step.objects.create(
            project_id=run.project_id,
            run=run,
            seq=run.steps_taken + 1,
            through=through,
            compaction=shown.compaction,
            prompt_sha256=hash_prompt(request),
            request_sha256=request.sha256,
            prompt_tokens=request.estimated_input_tokens,
            max_output_tokens=tokens,
            fence=claimed.fence,
        )
        Run.objects.filter(pk=run.pk).update(steps_taken=F("steps_taken") + 1)
        append_event(run.pk, "step", step=step.seq, status=step.status, prompt_sha256=step.prompt_sha256)
    return step


def _read_request(shown: Shown, step: Step) -> ChatRequest:
    """Return what is asked at a step that has just begun."""
    return replace(shown.request, max_output_tokens=step.max_output_tokens or output_of(shown.run))


def _get_step(run: Run) -> Step:
    steps = Step.objects.select_related("run__revision", "run__conversation", "compaction")
    return steps.filter(run=run, status=Step.Status.ASKING).get()


def _write_answer(claimed: Claimed, step: Step, answer: ChatAnswer, call: ModelCall) -> None:
    ending = name_ending(answer, schema=step.run.revision.model_settings.get("output_schema"))
    with claimed.writing() as run:
        now: datetime = timezone.now()
        # The row count tells whether another attempt wrote the answer already.
        changed = Step.objects.filter(pk=step.pk, status=Step.Status.ASKING).update(
            status=Step.Status.ANSWERED,
            model_call=call,
            model=answer.model,
            finish_reason=ending,
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            cost_usd=call.cost_usd,
            finished_at=now,
        )
        if not changed:
            raise LostClaim("The step was answered already.")
        Run.objects.filter(pk=run.pk).update(
            input_tokens=F("input_tokens") + answer.input_tokens,
            output_tokens=F("output_tokens") + answer.output_tokens,
            cost_usd=F("cost_usd") + call.cost_usd,
        )
        message = add_message(
            run,
            role=Message.Role.ASSISTANT,
            content=answer.text,
            tool_calls=stored_calls(answer.tool_calls),
            received=answer.received,
            # An answer that is not finished, or came after a cancellation, is no reply.
            is_reply=not answer.tool_calls and ending not in set(Ending) and run.cancel_requested_at is None,
        )
        append_event(
            run.pk,
            "message",
            role="assistant",
            seq=message.seq,
            step=step.seq,
            is_reply=message.is_reply,
        )
        append_event(
            run.pk,
            "step",
            step=step.seq,
            status=Step.Status.ANSWERED,
            finish_reason=ending,
            model=answer.model,
            input_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens,
            cost_usd=call.cost_usd,
        )
        step.run, step.finish_reason = run, ending
        for index, (wanted, sent_call) in enumerate(zip(answer.tool_calls, message.tool_calls, strict=True)):
            plan_effect(step, index=index, tool=wanted.name, arguments=wanted.arguments, call_id=sent_call["id"])
        failpoint("agent.answer_before_commit")


def _learn_window(run: Run, step: Step, window_tokens: int | None) -> None:
    """End a step whose prompt was too long, and remember the model's window, so that the next prompt is shorter."""
    Step.objects.filter(pk=step.pk, status=Step.Status.ASKING).update(
        status=Step.Status.ANSWERED, finish_reason=Ending.OVERFLOW, finished_at=timezone.now()
    )
    window = min(window_of(run), window_tokens or window_of(run))
    answer = min(run.revision.max_output_tokens, window // 4)
    # A lower limit of output may be all that is needed. Otherwise the next prompt has to be shorter in any case, since
    # models count more tokens than are estimated here.
    if answer >= (step.max_output_tokens or 0) or step.prompt_tokens + answer > window:
        share = SHORTER if window_tokens else MUCH_SHORTER
        window = min(window, int(step.prompt_tokens * share) + answer)
    Conversation.objects.filter(pk=run.conversation_id).update(window_tokens=window)
    append_event(run.pk, "window", configured=run.revision.window_tokens, tokens=window_tokens, used=window)


class _Parts:
    """Tells those who follow a run what happens while a step's question is under way."""

    def __init__(self, claimed: Claimed, step: Step) -> None:
        self._claimed = claimed
        self._step = step
        self._pieces: deque[str] = deque()  # filled by the thread that reads the answer
        self._sent_at = time.monotonic()

    def add(self, piece: str) -> None:
        self._pieces.append(piece)

    def flush(self) -> None:
        """Send the parts of the answer that have come, unless the last time is recent."""
        if not self._pieces or time.monotonic() - self._sent_at < SECONDS_BETWEEN_PARTS:
            return
        # Those that are there now: the other thread may add more meanwhile.
        text = "".join(self._pieces.popleft() for _ in range(len(self._pieces)))
        if not send_text(self._claimed.run_id, self._claimed.job, step=self._step.seq, text=text):
            raise LostClaim("Another worker goes on with the run, or it has ended.")
        self._sent_at = time.monotonic()

    def note_failure(self, error: ProviderError) -> ReflectionError:
        """Write down that an attempt at the answer failed; one that always takes too long is not paid for ever."""
        with self._claimed.writing() as run:
            step = self._step.seq
            is_too_long = error.code == "context_overflow"
            again = error.transient or is_too_long
            append_event(run.pk, "attempt", step=step, code=error.code, error=str(error), again=again)
            if is_too_long:
                _learn_window(run, self._step, error.window_tokens)
                return NotNow("The prompt was too long for the model, and is shortened.")
            failed = Event.objects.filter(run=run, kind="attempt", payload__step=step, payload__code="timeout").count()
        if error.code != "timeout" or failed < MOST_TIMEOUTS:
            return error
        return ProviderError(f"{error} It was asked {failed} times.", transient=False, code=error.code)


class _Quiet:
    """Writes nothing: of a question that is no step of the agent."""

    def add(self, piece: str) -> None:
        """Leave it out."""

    def flush(self) -> None:
        """Write nothing."""

    def note_failure(self, error: ProviderError) -> ReflectionError:
        return error


def remind(claimed: Claimed, text: str) -> None:
    """Tell the agent something in the conversation, as a note of ERL."""
    with claimed.writing() as run:
        message = add_message(run, role=Message.Role.NOTE, content=text)
        append_event(run.pk, "message", role="note", seq=message.seq)
