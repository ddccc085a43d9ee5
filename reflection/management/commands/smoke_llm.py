"""Try the configured language model: a short question, a reflection on a bundled run, a tool and its result."""

import json
from argparse import ArgumentParser
from dataclasses import asdict, dataclass, field
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from memory.runs.episode import Action, Episode, EpisodeStep
from reflection.errors import ReflectionError
from reflection.llm.base import Provider, ProviderError
from reflection.llm.budget import cost_usd
from reflection.llm.chat import ChatAnswer, ChatRequest, ChatTool, PromptMessage
from reflection.llm.registry import USES, Use, find_config, find_provider, get_provider
from reflection.reflectors.base import ProposedLesson
from reflection.reflectors.checks import verify
from reflection.reflectors.llm import LlmReflector
from reflection.reflectors.llm_answer import UnusableAnswer

RETRIEVAL = {
    True: "which asks this model at every answer (ERL_RETRIEVE_MODE)",
    False: "which does not ask this model; ERL_RETRIEVE_MODE=erl would, at every answer",
}
SAMPLE = Episode(
    task="The customer wants to move the return flight of a reservation to the next day and to keep the price.",
    task_id="flight-change",
    outcome="failure",
    score=0.0,
    outcome_source="environment",
    agent="sample",
    steps=(
        EpisodeStep(
            index=1,
            thought="The customer gave a reservation number, so I can change the flight now.",
            action=Action(name="update_reservation_flights", arguments={"reservation_id": "R1", "cabin": "economy"}),
            error="Error: basic economy reservations cannot be modified",
        ),
        EpisodeStep(
            index=2,
            thought="Perhaps it works with another flight.",
            action=Action(name="update_reservation_flights", arguments={"reservation_id": "R1", "cabin": "economy"}),
            error="Error: basic economy reservations cannot be modified",
        ),
        EpisodeStep(
            index=3,
            action=Action(name="get_reservation_details", arguments={"reservation_id": "R1"}),
            observation='{"cabin": "basic_economy", "insurance": "yes", "flights": 2}',
        ),
        EpisodeStep(
            index=4,
            action=Action(name="respond", arguments={"content": "I am sorry, I cannot change this flight."}),
            observation="The customer leaves.",
        ),
    ),
)


LATE_ORDERS = ChatTool(
    name="late_orders",
    description="Return the numbers of the orders that are late.",
    parameters={"type": "object", "properties": {}},
)


@dataclass(kw_only=True)
class ModelTrial:
    """What happened, for people and as JSON."""

    ok: bool = False
    provider: str = ""
    url: str = ""
    model: str = ""
    retrieval_mode: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    valid_json: bool | None = None
    lessons: list[dict[str, Any]] = field(default_factory=list)
    skip_reason: str = ""
    tools: str | None = None
    left_out: list[str] = field(default_factory=list)
    error: str = ""


class Command(BaseCommand):
    help = (
        "Try the configured language model: a short question, a reflection on a small bundled run, and a tool with a "
        "second turn, as agents need it. Stores nothing. Says which model answered, how long it took, what it cost, "
        "whether its answers could be used, and what the model refused."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--model",
            default="",
            help="provider:model; by default the one that reflects, or else of the first other use.",
        )
        parser.add_argument("--json", action="store_true", help="Print one JSON object instead of sentences.")

    def handle(self, *args: Any, **options: Any) -> None:
        trial = ModelTrial()
        try:
            self._try(trial, options["model"])
        except UnusableAnswer as error:
            trial.valid_json = False
            trial.error = f"The model answered, but not in the form it was asked for. {error.reason}"
        except ReflectionError as error:
            trial.error = str(error)
        if options["json"]:
            self.stdout.write(json.dumps(asdict(trial), indent=2))
        else:
            self._tell(trial)
        if not trial.ok:
            raise SystemExit(1) if options["json"] else CommandError(trial.error)

    def _try(self, trial: ModelTrial, model: str) -> None:
        use: Use = next((use for use in USES if find_config(use)), "")
        config = find_config(use, model=model)
        provider = find_provider(use, model=model) or get_provider()
        # There is a provider, so it has settings.
        assert config is not None
        trial.provider, trial.url, trial.model = provider.name, config.base_url, provider.model
        trial.retrieval_mode = settings.ERL_RETRIEVE_MODE
        self._ask(
            trial,
            provider,
            "greeting",
            ChatRequest.single(
                system="You are being tested for a connection.",
                user="Answer with the one word: ready",
                max_output_tokens=settings.ERL_LLM_MAX_OUTPUT_TOKENS,
            ),
        )
        # A server that has one model is asked for its name.
        trial.model = provider.model
        reflector = LlmReflector(ask=lambda step, request: self._ask(trial, provider, step, request))
        result = reflector.reflect(SAMPLE, near=())
        trial.valid_json = True
        trial.lessons = [_shown(lesson) for lesson in result.lessons]
        trial.skip_reason = result.skip_reason
        trial.tools = self._try_tools(trial, provider)
        adaptations = getattr(provider, "adaptations", None)
        trial.left_out = adaptations.names(provider.model) if adaptations else []
        trial.ok = True

    def _try_tools(self, trial: ModelTrial, provider: Provider) -> str:
        """Let the model call a tool and read its result, as agents do; return what went wrong, "" for nothing."""
        talk = (
            PromptMessage(role="system", content="You answer questions about orders. Look them up; do not guess."),
            PromptMessage(role="user", content="Which order is late?"),
        )
        try:
            asked = self._chat(trial, provider, "tool", talk)
            if not asked.tool_calls:
                return f"It called no tool, and answered {asked.text[:80]!r}."
            results = (PromptMessage(role="tool", content="A-17", tool_call_id=call.id) for call in asked.tool_calls)
            answer = self._chat(trial, provider, "second turn", (*talk, asked.message, *results))
        except ProviderError as error:
            return str(error)
        return "" if "17" in answer.text else f"It did not use the result, and answered {answer.text[:80]!r}."

    def _chat(
        self, trial: ModelTrial, provider: Provider, step: str, messages: tuple[PromptMessage, ...]
    ) -> ChatAnswer:
        limit = settings.ERL_LLM_MAX_OUTPUT_TOKENS
        answer = provider.chat(ChatRequest(messages=messages, tools=(LATE_ORDERS,), max_output_tokens=limit))
        self._note(trial, provider, step, answer)
        return answer

    def _ask(self, trial: ModelTrial, provider: Provider, step: str, request: ChatRequest) -> ChatAnswer:
        completion = provider.chat(request)
        self._note(trial, provider, step, completion)
        return completion

    def _note(self, trial: ModelTrial, provider: Provider, step: str, completion: ChatAnswer) -> None:
        cost = cost_usd(
            input_tokens=completion.input_tokens, output_tokens=completion.output_tokens, provider=provider.name
        )
        trial.calls.append(
            {
                "step": step,
                "model": completion.model,
                "latency_ms": round(completion.latency_ms, 1),
                "input_tokens": completion.input_tokens,
                "output_tokens": completion.output_tokens,
                "cost_usd": float(cost),
                "finish_reason": completion.finish_reason,
            }
        )

    def _tell(self, trial: ModelTrial) -> None:
        if trial.provider:
            self.stdout.write(f"Provider {trial.provider} at {trial.url}, model {trial.model or 'not known yet'}.")
            self.stdout.write(f"Retrieval: mode {trial.retrieval_mode}, {RETRIEVAL[trial.retrieval_mode == 'erl']}.")
        for call in trial.calls:
            self.stdout.write(
                f"  {call['step']}: {call['model']} answered after {call['latency_ms'] / 1000:.2f} s, "
                f"{call['input_tokens']} tokens in, {call['output_tokens']} out, "
                f"{_price(call['cost_usd'])}, finish reason {call['finish_reason']}."
            )
        if not trial.ok:
            return
        self.stdout.write("The reflection came back as valid JSON in the form it was asked for.")
        if trial.skip_reason:
            self.stdout.write(f"The model proposes nothing: {trial.skip_reason}")
        for lesson in trial.lessons:
            self.stdout.write(f"Proposed: {lesson['trigger']} → {lesson['guideline']}")
            for finding in lesson["findings"]:
                self.stdout.write(f"  {finding['severity']}: {finding['message']}")
        if trial.left_out:
            self.stdout.write(f"The model refused, and is asked without from now on: {', '.join(trial.left_out)}.")
        if trial.tools:
            self.stdout.write(self.style.WARNING(f"Agents with tools will not work with this model. {trial.tools}"))
        else:
            self.stdout.write("It called a tool and used the result, as agents do.")
        self.stdout.write(self.style.SUCCESS("The language model works."))


def _price(usd: float) -> str:
    if settings.ERL_LLM_INPUT_USD_PER_MTOK or settings.ERL_LLM_OUTPUT_USD_PER_MTOK:
        return f"{usd:.6f} USD"
    return "price unknown (set ERL_LLM_INPUT_USD_PER_MTOK and ERL_LLM_OUTPUT_USD_PER_MTOK)"


def _shown(lesson: ProposedLesson) -> dict[str, Any]:
    return {
        "trigger": lesson.text.trigger,
        "guideline": lesson.text.guideline,
        "confidence": lesson.confidence,
        "findings": [asdict(finding) for finding in verify(lesson, SAMPLE)],
    }
