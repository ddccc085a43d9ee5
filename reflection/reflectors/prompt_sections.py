"""What a prompt shows of a run, section by section: each thing once, as long as there is room for it."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, Self

from memory.runs.episode import Action, EarlierTurn, Episode, EpisodeStep, OfferedTool
from memory.transcripts.lesson_blocks import cut_lesson_blocks
from memory.transcripts.log import RESPOND
from reflection.prompts import cut_middle
from reflection.reflectors.contrast import contrast_section
from reflection.reflectors.excerpts import Focus, RulesFocus, excerpt, stems_of
from reflection.reflectors.members import choose_members, read_json
from reflection.reflectors.rules.errors import read_error
from reflection.reflectors.rules.tools import is_change, is_edit

MAX_NOTES = 20
MAX_TOOLS = 60
MAX_PARAMETERS = 15
MAX_GIVEN = 20
MAX_TURNS = 10
MAX_NAMED_STEPS = 40
CHANGES_BY_METHOD = {"GET": False, "HEAD": False, "POST": True, "PUT": True, "PATCH": True, "DELETE": True}
COMPARED_CHARACTERS = 200  # of a task and of what was said, which may be cut or have more after it
PROMPT_CHARACTERS = 2_500  # of what the agent was told
OF_RULE = 6  # what a word of the rules counts for in the choice of members
TOOLS_CHARACTERS = 1_600
MIN_LESSON_CHARACTERS, LESSON_CHARACTERS = 240, 330
_HAS_DIGIT = re.compile(r"\d")
_NO_SUCH_TOOL = re.compile(
    r"\b(?:no|unknown|invalid|unrecogni[sz]ed) (?:such )?(?:tool|function)\b"
    r"|\b(?:tool|function)\b[^\n]{0,80}\b(?:not found|not exist|doesn't exist|not available|not a valid|not defined)",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much of a run is shown: characters of each text, number of steps, and whether more than the run itself."""

    characters: int
    steps: int
    extras: bool = True

    def room(self, most: int) -> int:
        """Return the characters of a section beside the run: less where the run itself is cut short."""
        return most * min(500, max(200, self.characters)) // 500


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownLesson:
    """A lesson that exists: with a label, or without one where it is only known that the run was given it."""

    trigger: str
    guideline: str
    label: str = ""
    given: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownRun:
    """A run without secrets, the lessons beside it, which words matter, and where the steps are that tell most."""

    episode: Episode
    lessons: tuple[ShownLesson, ...]
    focus: Focus
    rules: RulesFocus
    telling: frozenset[int]
    parted: frozenset[int]  # where runs that ended otherwise did something else

    @classmethod
    def of(cls, episode: Episode, near: Sequence[tuple[str, str]] = ()) -> Self:
        """Find what to show of a run; `near` has trigger and guideline of each lesson close to it."""
        steps = episode.steps
        faults = {position for position, step in enumerate(steps) if step.error or read_error(step)}
        partings = {contrast["parts_at_step"] for contrast in episode.contrasts}
        parted = frozenset(position for position, step in enumerate(steps) if step.index in partings)
        focus, rules = _find_focus(episode)
        return cls(
            episode=episode,
            lessons=tuple(_choose_lessons(near, episode.injected)),
            focus=focus,
            rules=rules,
            telling=frozenset(faults | parted | {len(steps) - 2, len(steps) - 1}),
            parted=parted,
        )

    def rough_characters(self, size: Size) -> int:
        """Return about how long the steps would be, without reading any: half of what they may be."""
        texts = (
            min(len(text), size.characters)
            for position in _choose_steps(self, size.steps)
            for step in [self.episode.steps[position]]
            for text in (step.thought, step.observation, step.error)
        )
        return sum(texts) // 2


def is_task_unseen(episode: Episode) -> bool:
    """Tell whether the agent was asked in other words than the task, as by a simulated user who was given the task.

    Only the log of a conversation says so: it begins with what a person said, and the person answers the agent. The
    first observation of other runs may show an environment.
    """
    steps = episode.steps
    if not steps or steps[0].action or steps[0].thought or not steps[0].observation:
        return False
    if not any(step.action and step.action.name == RESPOND and step.observation for step in steps):
        return False
    task, asked = _plain(episode.task), _plain(steps[0].observation)
    if task.startswith(asked[:COMPARED_CHARACTERS]):
        return False
    texts = (episode.system_prompt, *(turn.task for turn in episode.earlier), *(step.observation for step in steps))
    return not any(task[:COMPARED_CHARACTERS] in _plain(text) for text in texts)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


def _find_focus(episode: Episode) -> tuple[Focus, RulesFocus]:
    """Return how much each word of a run matters to its ending, and how often: what agent and users said and called.

    What tools answered is left out, since these are the texts to choose from.
    """
    weights: Counter[str] = Counter(stems_of(episode.task))
    counts = Counter(weights)
    last = len(episode.steps) - max(3, len(episode.steps) // 4)
    for position, step in enumerate(episode.steps):
        texts = [step.thought, step.error]
        if step.action:
            texts += [step.action.name, json.dumps(step.action.arguments, ensure_ascii=False)]
        if step.action is None or step.action.name == RESPOND:
            texts.append(step.observation)
        weight = 3 if step.error or position >= last else 1
        stems = stems_of("\n".join(texts))
        counts.update(stems)
        for stem in stems:
            weights[stem] = max(weights[stem], weight)
    lines = Counter(line.strip() for step in episode.steps for line in {*step.observation.splitlines()})
    rules = RulesFocus(weights=counts)
    members = Counter(weights)
    for stem in stems_of(excerpt(episode.system_prompt, PROMPT_CHARACTERS, rules)):
        members[stem] += OF_RULE
    return Focus(weights=weights, lines=lines, members=members), rules


def write_sections(run: ShownRun, size: Size) -> Iterable[tuple[str, list[Any]]]:
    """Yield the sections of a prompt about a run, each with its values."""
    episode, limit, focus = run.episode, size.characters, run.focus
    yield "TASK", [excerpt(episode.task, max(2 * limit, 600), focus)]
    yield "OUTCOME", [{"outcome": episode.outcome, "score": episode.score, "source": episode.outcome_source}]
    if size.extras and episode.system_prompt:
        yield "WHAT THE AGENT WAS TOLD", [excerpt(episode.system_prompt, size.room(PROMPT_CHARACTERS), run.rules)]
    if size.extras and episode.earlier:
        yield "EARLIER IN THE CONVERSATION", list(_turns(episode.earlier, focus))
    yield "TRAJECTORY", list(_trajectory(run, size))
    if not size.extras:
        return
    yield "TOOLS", [list(_tools(episode, size.room(TOOLS_CHARACTERS)))]
    notes = {
        "summary": cut_middle(episode.summary, limit),
        "mistakes": [cut_middle(text, limit) for text in episode.mistakes[:MAX_NOTES]],
        "successes": [cut_middle(text, limit) for text in episode.successes[:MAX_NOTES]],
        "mistake_cards": [choose_members(card, limit, focus) for card in episode.mistake_cards[:MAX_NOTES]],
    }
    if texts := {name: note for name, note in notes.items() if note}:
        yield "THE AGENT'S OWN NOTES", [texts]
    yield "LESSONS", [_write_lesson(lesson, size) for lesson in run.lessons]
    yield from contrast_section(episode, limit=limit, focus=focus)


def name_steps(episode: Episode) -> list[dict[str, Any]]:
    """Return a line for each step, so that one can be cited by its number."""
    return list(_trajectory(ShownRun.of(episode), Size(characters=80, steps=MAX_NAMED_STEPS)))


def _choose_lessons(near: Sequence[tuple[str, str]], injected: Sequence[str]) -> list[ShownLesson]:
    """Return the lessons that exist near a run and those that it was given, each once.

    `injected` has the trigger and the guideline of each in two lines, in a form without breaks (`write_given`).
    """
    given = {text: text.partition("\n") for text in injected[:MAX_GIVEN]}
    shown = []
    for number, (trigger, guideline) in enumerate(near, 1):
        written = "\n".join(" ".join(part.split()) for part in (trigger, guideline))
        is_given = given.pop(written, None) is not None
        shown.append(ShownLesson(trigger=trigger, guideline=guideline, label=f"H{number}", given=is_given))
    return [*shown, *(ShownLesson(trigger=when, guideline=do, given=True) for when, _, do in given.values())]


def _write_lesson(lesson: ShownLesson, size: Size) -> str:
    limit = max(MIN_LESSON_CHARACTERS, size.room(LESSON_CHARACTERS))
    label = " ".join(filter(None, (lesson.label, "(given)" if lesson.given else "")))
    return f"{label}: {_cut_end(lesson.trigger, limit // 2)} → {_cut_end(lesson.guideline, limit)}"


def _cut_end(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…" if limit else ""


def _turns(turns: Sequence[EarlierTurn], focus: Focus) -> Iterable[dict[str, Any]]:
    """Yield what was said before: of a long conversation the first turn and the last ones."""
    shown = turns if len(turns) <= MAX_TURNS else (*turns[:1], *turns[1 - MAX_TURNS :])
    for position, turn in enumerate(shown):
        if position == 1 and len(shown) < len(turns):
            yield {"left_out_turns": len(turns) - len(shown)}
        written: dict[str, Any] = {"asked": excerpt(turn.task, 300, focus)}
        if turn.called:
            written["called"] = [cut_middle(name, 100) for name in turn.called[:MAX_PARAMETERS]]
        if turn.answer:
            written["answer"] = excerpt(turn.answer, 240, focus)
        yield written


def _trajectory(run: ShownRun, size: Size) -> Iterable[dict[str, Any]]:
    """Yield the steps that there is room for, and between them how many are left out."""
    before, asked = -1, set[str]()
    for position in _choose_steps(run, size.steps):
        if position > before + 1:
            yield {"left_out_steps": position - before - 1}
        # Ids and dates that the agent had; "economy" in an earlier call is not the "economy" of another reservation.
        for step in run.episode.steps[max(before, 0) : position]:
            asked |= {text for text in _texts_of(step.action) if _HAS_DIGIT.search(text)}
        step = run.episode.steps[position]
        limit = size.characters * (2 if position in run.telling else 1)
        yield _step(step, limit, run.focus, asked | _texts_of(step.action))
        before = position


def _choose_steps(run: ShownRun, count: int) -> list[int]:
    """Return the positions of the steps to show: where others part, the ends, the newest errors and changes between."""
    number = len(run.episode.steps)
    if count >= number:
        return list(range(number))
    order = sorted(run.parted)
    order += [*range(number - 1, number - 1 - max(1, count // 2), -1), *range(max(1, count // 4))]
    order += sorted((position for position in run.telling if position >= 0), reverse=True)
    order += [position for position in reversed(range(number)) if _is_change(run.episode.steps[position].action)]
    order += range(number)
    return sorted(list(dict.fromkeys(order))[:count])


def _texts_of(action: Action | None) -> set[str]:
    return {value for value in action.arguments.values() if isinstance(value, str)} if action else set()


def _is_change(action: Action | None) -> bool:
    """Tell whether a call changes something, by its HTTP method or by the verb in the name of its tool."""
    if action is None:
        return False
    method = str(action.arguments.get("method", "")).upper()
    return CHANGES_BY_METHOD.get(method, is_change(action.name) or is_edit(action.name))


def _step(step: EpisodeStep, limit: int, focus: Focus, asked: Set[str]) -> dict[str, Any]:
    shown: dict[str, Any] = {"step": step.index}
    if step.thought:
        shown["thought"] = excerpt(step.thought, limit, focus)
    if step.action and step.action.name == RESPOND and list(step.action.arguments) == ["content"]:
        shown[RESPOND] = excerpt(str(step.action.arguments["content"]), limit, focus)
    elif step.action:
        shown["tool"] = cut_middle(step.action.name, 100)
        arguments = step.action.arguments.items()
        shown["arguments"] = {name: choose_members(value, limit, focus) for name, value in arguments}
    if step.observation:
        # Lessons that the run was given by a tool stand among the lessons.
        answer = cut_lesson_blocks(step.observation) or "(lessons)"
        shown["observation"] = read_json(answer, limit, focus, asked)
    if step.error:
        shown["error"] = excerpt(step.error, limit, focus)
    return shown


def _tools(episode: Episode, room: int) -> Iterable[str]:
    """Yield the tools on offer and those that were called, as `name(parameters)`, with what is known of them.

    What was called and is not on offer says so: a model may call what there is not.
    """
    offered = {tool.name: tool for tool in episode.offered}
    called: dict[str, list[str]] = {}
    notes: dict[str, str] = {}
    for step in episode.steps:
        if step.action is None:
            continue
        name, answer = step.action.name, f"{step.error}\n{step.observation}"[:500]
        names = called.setdefault(name, [])
        names += [parameter for parameter in step.action.arguments if parameter not in names]
        if name not in offered and name in answer and _NO_SUCH_TOOL.search(answer):
            notes[name] = "there is no such tool, and the call was refused"
        elif offered and name not in offered and name != RESPOND:
            notes.setdefault(name, "called, but not on offer")
    if not episode.offered:
        yield "Which tools were on offer is not known. These were called:"
    yield from _offered(sorted(episode.offered, key=lambda tool: tool.name not in called), room)
    for name in [name for name in called if name not in offered][:MAX_TOOLS]:
        yield _signature(name, called[name], notes.get(name, ""))


def _offered(tools: Sequence[OfferedTool], room: int) -> list[str]:
    """Return as much of the tools on offer as there is room for: less of each, and then fewer of them."""
    for characters, parameters in ((200, MAX_PARAMETERS), (80, MAX_PARAMETERS), (0, MAX_PARAMETERS), (0, 0)):
        written = [
            _signature(
                tool.name, tool.parameters[:parameters], _cut_end(" ".join(tool.description.split()), characters)
            )
            for tool in tools[:MAX_TOOLS]
        ]
        if sum(map(len, written)) <= room:
            break
    return written if len(tools) <= MAX_TOOLS else [*written, f"[… {len(tools) - MAX_TOOLS} more tools …]"]


def _signature(name: str, parameters: Iterable[str], about: str) -> str:
    names = [parameter[:60] for parameter in parameters][:MAX_PARAMETERS]
    called = f"({', '.join(names)})" if names else ""
    return cut_middle(name, 100) + called + (f": {about}" if about else "")
