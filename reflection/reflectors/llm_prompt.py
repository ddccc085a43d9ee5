"""Prompts for reflection: a run becomes delimited, marked, bounded data under instructions of ours (reliability D6).

A retry builds the same prompt, byte for byte, and finds the stored answer. What the system says is the same for all
runs, so that providers can cache it.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from django.conf import settings

from memory.redaction import redact, redact_text
from memory.runs.episode import FAILURE_SCORE, SUCCESS_SCORE, Action, EarlierTurn, Episode, EpisodeStep, OfferedTool
from reflection.llm.base import estimate_tokens
from reflection.llm.chat import ChatRequest
from reflection.prompts import Frame, cut_middle, prompt_version, read_prompt
from reflection.reflectors.base import NearHeuristic
from reflection.reflectors.prompt_sections import ShownRun, Size, is_task_unseen, name_steps, write_sections

TEXT_CHARACTERS = (4000, 2800, 2000, 1400, 1000, 700, 500, 360, 250, 180, 140, 110)
# What a reflection should cost by the cautious estimate, a third above what models count; longer runs cost more
TARGET_TOKENS, USUAL_STEPS, TOKENS_OF_MORE_STEPS = 4_050, 15, 50
MAX_NEAR = 6
REPAIR_TOKENS = 800
MIN_REPAIRED_CHARACTERS, MAX_REPAIRED_CHARACTERS = 200, 6_000
UNSEEN_TASK = "reflect-unseen-task"  # added to the variant where the agent did not see the task
PARTS = ("reflect-rules", "reflect-data", UNSEEN_TASK)
VARIANTS = ("reflect-success", "reflect-failure", "reflect-mixed")
# Faults for which the run is sent again: there is no whole answer that could be mended.
NO_ANSWER = frozenset({"empty", "cut_off"})
# Faults that are mended by looking at the steps
OF_STEPS = frozenset({"no_evidence", "no_such_step"})


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
    version = prompt_version("reflect-data", "reflect-rules", UNSEEN_TASK, *VARIANTS, "repair")
    return version.replace("reflect-data", "reflect")


def build_prompt(
    episode: Episode, *, near: tuple[NearHeuristic, ...], max_lessons: int, json_schema: dict[str, Any]
) -> Prompt:
    """Return the question about a run, within ERL_LLM_MAX_INPUT_TOKENS by a cautious estimate."""
    shape = _shape(max_lessons)
    system = read_prompt("reflect-rules").fill(how_many=_how_many(max_lessons), shape=shape)
    variant = read_prompt(choose_variant(episode)).fill()
    if is_task_unseen(episode):
        variant += "\n\n" + read_prompt(UNSEEN_TASK).fill()
    room = settings.ERL_LLM_MAX_INPUT_TOKENS - REPAIR_TOKENS
    target = TARGET_TOKENS + TOKENS_OF_MORE_STEPS * max(0, len(episode.steps) - USUAL_STEPS)
    budget = min(room, target) - estimate_tokens(system)
    frame = Frame.of(episode)
    shown_near = [(redact_text(lesson.trigger), redact_text(lesson.guideline)) for lesson in near[:MAX_NEAR]]
    run = ShownRun.of(_without_secrets(episode), shown_near)
    user = ""
    # Each try is smaller, and the first that fits is taken.
    for size in _sizes(len(episode.steps)):
        # Looking for excerpts of thousands of steps that do not fit anyway would take minutes.
        if size.extras and run.rough_characters(size) // 3 > budget:
            continue
        user = read_prompt("reflect-data").fill(
            variant=variant,
            boundary=frame.boundary,
            mark=frame.mark,
            blocks=frame.blocks(write_sections(run, size)),
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
        labels=tuple(lesson.label for lesson in run.lessons if lesson.label) if size.extras else (),
    )


def build_repair(
    prompt: Prompt, episode: Episode, *, answer: str, code: str, reason: str, max_lessons: int
) -> ChatRequest:
    """Return the question asked once more after an answer that could not be used: what was wrong with it.

    The run is sent again only where there is no whole answer to mend.
    """
    frame, is_whole = Frame.of(episode), code not in NO_ANSWER and len(answer) >= MIN_REPAIRED_CHARACTERS
    # 3 characters of ASCII a token, but only 1 of other scripts: this much fits into REPAIR_TOKENS either way
    limit = MAX_REPAIRED_CHARACTERS if is_whole else 1500 if answer.isascii() else 400
    blocks: list[tuple[str, list[Any]]] = [
        ("YOUR EARLIER ANSWER", [cut_middle(redact_text(answer), limit)]),
        ("WHY IT COULD NOT BE USED", [redact_text(reason)]),
    ]
    if code in OF_STEPS:
        blocks.append(("STEPS OF THE RUN", name_steps(_without_secrets(episode))))
    more = read_prompt("repair").fill(
        boundary=frame.boundary, mark=frame.mark, blocks=frame.blocks(blocks), shape=_shape(max_lessons)
    )
    return ChatRequest.single(
        system=prompt.request.system,
        user=more if is_whole else f"{prompt.request.user}\n\n{more}",
        json_schema=prompt.request.json_schema,
        max_output_tokens=prompt.request.max_output_tokens,
    )


def _without_secrets(episode: Episode) -> Episode:
    # A second time, because rules grow; and before anything is cut, because half a secret is not recognised
    values: dict[str, Any] = redact(asdict(episode)).value
    steps = [EpisodeStep(**step | {"action": step["action"] and Action(**step["action"])}) for step in values["steps"]]
    offered = [OfferedTool(**tool | {"parameters": tuple(tool["parameters"])}) for tool in values["offered"]]
    earlier = [EarlierTurn(**turn | {"called": tuple(turn["called"])}) for turn in values["earlier"]]
    values |= {"steps": steps, "offered": offered, "earlier": earlier}
    tuples: dict[str, Any] = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Episode(**values | tuples)


def _sizes(steps: int) -> Iterable[Size]:
    """Try shorter and shorter texts first, then fewer and fewer steps, and finally the bare run."""
    for characters in TEXT_CHARACTERS:
        yield Size(characters=characters, steps=steps)
    while steps > 2:
        steps = max(2, steps * 5 // 6)
        yield Size(characters=TEXT_CHARACTERS[-1], steps=steps)
    yield Size(characters=TEXT_CHARACTERS[-1], steps=steps, extras=False)


def _how_many(max_lessons: int) -> str:
    if max_lessons == 1:
        return "Write ONE lesson, the most valuable one, or none. Nothing to learn is a good answer."
    return f"Write at most {max_lessons} lessons, each about another thing, or none. Nothing to learn is a good answer."


def _shape(max_lessons: int) -> str:
    if max_lessons == 1:
        return "one JSON object, the lesson"
    return 'one JSON object with the member "lessons", an array of lessons'
