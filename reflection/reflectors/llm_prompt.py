"""Prompts for reflection: a run becomes delimited, marked, bounded data under instructions of ours (reliability D6).

A retry builds the same prompt, byte for byte, and finds the stored answer.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from django.conf import settings

from memory.redaction import redact, redact_text
from memory.runs.episode import FAILURE_SCORE, SUCCESS_SCORE, Action, Episode, Step
from reflection.llm.base import estimate_tokens
from reflection.llm.chat import ChatRequest
from reflection.prompts import Frame, cut_middle, prompt_version, read_prompt
from reflection.reflectors.base import NearHeuristic

TEXT_CHARACTERS = (4000, 2000, 1000, 500, 250, 120)
MAX_NEAR = 10
MAX_NOTES = 20
MAX_TOOLS = 60
MAX_PARAMETERS = 15
REPAIR_TOKENS = 800
PARTS = ("reflect-rules", "reflect-data")
VARIANTS = ("reflect-success", "reflect-failure", "reflect-mixed")


@dataclass(frozen=True, kw_only=True, slots=True)
class Prompt:
    """A question about one run. `labels` are the names H1, H2 … of the existing heuristics it shows."""

    request: ChatRequest
    version: str
    labels: tuple[str, ...]


def choose_variant(episode: Episode) -> str:
    """Return the prompt for how a run ended: success, failure, or mixed where that is unknown or partial."""
    succeeded = episode.score is not None and episode.score >= SUCCESS_SCORE
    failed = episode.score is not None and episode.score < FAILURE_SCORE
    match episode.outcome:
        case "success" if succeeded or episode.score is None:
            return "reflect-success"
        case "failure" if failed or episode.score is None:
            return "reflect-failure"
        case "unknown" if succeeded:
            return "reflect-success"
        case "unknown" if failed:
            return "reflect-failure"
    return "reflect-mixed"


def version_for(episode: Episode) -> str:
    """Return the version of the prompt this run is asked about with."""
    return prompt_version(choose_variant(episode), *PARTS)


def version_of_all() -> str:
    """Return one version for all reflection prompts together."""
    return prompt_version("reflect-data", "reflect-rules", *VARIANTS, "repair").replace("reflect-data", "reflect")


def build_prompt(
    episode: Episode, *, near: tuple[NearHeuristic, ...], max_lessons: int, json_schema: dict[str, Any]
) -> Prompt:
    """Return the question about a run, within ERL_LLM_MAX_INPUT_TOKENS by a cautious estimate."""
    shape = _shape(max_lessons)
    system = read_prompt(choose_variant(episode)).fill(
        rules=read_prompt("reflect-rules").fill(how_many=_how_many(max_lessons), shape=shape)
    )
    budget = settings.ERL_LLM_MAX_INPUT_TOKENS - estimate_tokens(system) - REPAIR_TOKENS
    frame = Frame.of(episode)
    clean = _without_secrets(episode)
    lessons = [(redact_text(lesson.trigger), redact_text(lesson.guideline)) for lesson in near[:MAX_NEAR]]
    user = ""
    # Each try is smaller, and the first that fits is taken.
    for size in _sizes(len(episode.steps)):
        user = read_prompt("reflect-data").fill(
            boundary=frame.boundary,
            mark=frame.mark,
            blocks=frame.blocks(_sections(clean, lessons, size)),
            shape=shape,
        )
        if estimate_tokens(user) <= budget:
            break
    return Prompt(
        request=ChatRequest.single(
            system=system,
            user=user,
            json_schema=json_schema,
            max_output_tokens=settings.ERL_LLM_MAX_OUTPUT_TOKENS,
        ),
        version=version_for(episode),
        labels=tuple(f"H{number}" for number in range(1, 1 + (len(lessons) if size.extras else 0))),
    )


def build_repair(prompt: Prompt, episode: Episode, *, answer: str, reason: str, max_lessons: int) -> ChatRequest:
    """Return the question asked once more after an answer that could not be used."""
    frame = Frame.of(episode)
    # 3 characters of ASCII a token, but only 1 of other scripts: this much fits into REPAIR_TOKENS either way
    shown = cut_middle(redact_text(answer), 1500 if answer.isascii() else 400)
    more = read_prompt("repair").fill(
        blocks=frame.blocks([("YOUR EARLIER ANSWER", [shown]), ("WHY IT COULD NOT BE USED", [redact_text(reason)])]),
        shape=_shape(max_lessons),
    )
    return ChatRequest.single(
        system=prompt.request.system,
        user=f"{prompt.request.user}\n\n{more}",
        json_schema=prompt.request.json_schema,
        max_output_tokens=prompt.request.max_output_tokens,
    )


def _without_secrets(episode: Episode) -> Episode:
    # A second time, because rules grow; and before anything is cut, because half a secret is not recognised
    values: dict[str, Any] = redact(asdict(episode)).value
    steps = [Step(**step | {"action": step["action"] and Action(**step["action"])}) for step in values["steps"]]
    tuples: dict[str, Any] = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Episode(**values | tuples | {"steps": tuple(steps)})


@dataclass(frozen=True, kw_only=True, slots=True)
class _Size:
    """How much of a run is shown: characters of each text, number of steps, and whether more than the run itself."""

    characters: int
    steps: int
    extras: bool = True


def _sizes(steps: int) -> Iterable[_Size]:
    """Try shorter and shorter texts first, then fewer and fewer steps, and finally the bare run."""
    for characters in TEXT_CHARACTERS:
        yield _Size(characters=characters, steps=steps)
    while steps > 2:
        steps = max(2, steps * 2 // 3)
        yield _Size(characters=TEXT_CHARACTERS[-1], steps=steps)
    yield _Size(characters=TEXT_CHARACTERS[-1], steps=steps, extras=False)


def _sections(episode: Episode, known: list[tuple[str, str]], size: _Size) -> Iterable[tuple[str, list[Any]]]:
    limit = size.characters
    yield "TASK", [cut_middle(episode.task, max(limit, 500))]
    yield "OUTCOME", [{"outcome": episode.outcome, "score": episode.score, "source": episode.outcome_source}]
    yield "TRAJECTORY", list(_trajectory(episode.steps, size))
    if not size.extras:
        return
    yield "TOOLS", [{"name": name, "parameters": names} for name, names in _tools(episode).items()]
    notes = {
        "summary": cut_middle(episode.summary, limit),
        "mistakes": [cut_middle(text, limit) for text in episode.mistakes[:MAX_NOTES]],
        "successes": [cut_middle(text, limit) for text in episode.successes[:MAX_NOTES]],
        "mistake_cards": [_cut_value(card, limit) for card in episode.mistake_cards[:MAX_NOTES]],
    }
    if texts := {name: note for name, note in notes.items() if note}:
        yield "THE AGENT'S OWN NOTES", [texts]
    yield (
        "EXISTING HEURISTICS",
        [
            {"label": f"H{number}", "trigger": cut_middle(trigger, 300), "action": cut_middle(action, 600)}
            for number, (trigger, action) in enumerate(known, 1)
        ],
    )
    if episode.injected:
        yield "LESSONS THIS RUN WAS GIVEN", [cut_middle(text, max(limit, 500)) for text in episode.injected[:MAX_NOTES]]


def _trajectory(steps: tuple[Step, ...], size: _Size) -> Iterable[dict[str, Any]]:
    """Return the steps, or the first and last with a line between them that says how many are left out."""
    head = len(steps) if size.steps >= len(steps) else size.steps // 2
    tail = 0 if size.steps >= len(steps) else size.steps - head
    for step in steps[:head]:
        yield _step(step, size.characters)
    if tail:
        yield {"left_out_steps": len(steps) - head - tail}
        for step in steps[-tail:]:
            yield _step(step, size.characters)


def _step(step: Step, limit: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"step": step.index}
    if step.thought:
        shown["thought"] = cut_middle(step.thought, limit)
    if step.action:
        shown["tool"] = cut_middle(step.action.name, 100)
        shown["arguments"] = _cut_value(step.action.arguments, limit)
    if step.observation:
        shown["observation"] = cut_middle(step.observation, limit)
    if step.error:
        shown["error"] = cut_middle(step.error, limit)
    return shown


def _cut_value(value: Any, limit: int) -> Any:
    """Return a JSON value as it is while short, else its text with the middle cut."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return value if len(text) <= limit else cut_middle(text, limit)


def _tools(episode: Episode) -> dict[str, list[str]]:
    tools: dict[str, list[str]] = {}
    for step in episode.steps:
        if step.action and len(tools) < MAX_TOOLS:
            names = tools.setdefault(cut_middle(step.action.name, 100), [])
            new = [name[:60] for name in step.action.arguments if name[:60] not in names]
            names += new[: MAX_PARAMETERS - len(names)]
    return tools


def _how_many(max_lessons: int) -> str:
    if max_lessons == 1:
        return "Write ONE lesson, the most valuable one, or none. Nothing to learn is a good answer."
    return f"Write at most {max_lessons} lessons, each about another thing, or none. Nothing to learn is a good answer."


def _shape(max_lessons: int) -> str:
    if max_lessons == 1:
        return "one JSON object, the lesson"
    return 'one JSON object with the member "lessons", an array of lessons'
