"""Notes recorded with the run: its mistakes and successes. Its mistake cards are lessons already (memory/mistakes)."""

import re
from collections.abc import Sequence
from typing import Any

from memory.heuristics.text import Citation
from memory.runs.episode import FAILURE_SCORE, SUCCESS_SCORE, EpisodeStep
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.note_advice import advise, say_right
from reflection.reflectors.rules.run_view import ReadRun
from reflection.reflectors.rules.tools import words_of
from reflection.reflectors.rules.wording import is_general, listed

MIN_SHARED_WORDS = 2
MAX_FAMILIES = 3
MIN_FAMILY_CHARS = 5  # shorter ones say nothing: "env"

_WORD = re.compile(r"[a-z]{4,}")
_FAMILY_WORD = re.compile(r"[a-z]{2,}|\d+")
_NUMBER = re.compile(r"\d+")


def find(run: ReadRun) -> list[RuleMatch]:
    """Turn each recorded note that says what to do into a lesson, unless a mistake card of the run says it.

    Notes about successes count only if the run succeeded, notes about mistakes only if it failed (reference: ERL c.9).
    """
    kind = {"failure": "mistake", "success": "success"}.get(_get_result(run))
    if kind is None:
        return []
    notes = run.episode.mistakes if kind == "mistake" else run.episode.successes
    matches = [finding for note in notes if (finding := _from_note(run, note, kind=kind))]
    on_cards = {
        say_right(_text(card, member))
        for card in run.episode.mistake_cards
        for member in ("correct_decision", "lesson")
    }
    return _drop_repeats([finding for finding in matches if finding.guideline not in on_cards])


def _get_result(run: ReadRun) -> str:
    """Return the result of a run from its score, or from its outcome if it has none."""
    score = run.episode.score
    if score is None:
        return run.verdict
    if score >= SUCCESS_SCORE:
        return "success"
    return "failure" if score < FAILURE_SCORE else "unknown"


def _drop_repeats(matches: list[RuleMatch]) -> list[RuleMatch]:
    return list({finding.guideline: finding for finding in reversed(matches)}.values())[::-1]


def _from_note(run: ReadRun, note: str, *, kind: str) -> RuleMatch | None:
    advice = advise(note.strip(), kind=kind)
    if advice is None:
        return None
    trigger = f"When {advice.condition}" if advice.condition else _about(run)
    if not trigger:
        return None
    return RuleMatch(
        rule="recorded_notes",
        trigger=trigger,
        guideline=advice.what,
        rationale=f"Recorded with the run as a {kind}. {run.ending}",
        polarity="works" if kind == "success" else "avoid",
        confidence=0.55 if kind == "success" else 0.6,
        citations=(_where(run, note),),
        tools=_tools_in(run, advice.what),
        family_only=True,
    )


def _about(run: ReadRun) -> str:
    """Return when a note applies: to tasks of its family, or like its own if that can be said in general terms."""
    return describe_tasks([run.episode.task_id], [run.episode.task])


def describe_tasks(families: Sequence[str], tasks: Sequence[str]) -> str:
    """Describe tasks in general terms: by their families, by the task itself, or as the same task again."""
    names = [" ".join(_FAMILY_WORD.findall(family.lower())) for family in dict.fromkeys(families)]
    is_telling = all(len(_NUMBER.sub("", family).strip()) >= MIN_FAMILY_CHARS for family in names)
    if names and is_telling and len(names) <= MAX_FAMILIES:
        return f"When the task is of the kind {listed(names, last='or')}"
    if len(names) > 1:
        return "When starting a task of this project"
    task = " ".join(tasks[0].split())
    if is_general(task) and len(task) <= 200:
        return f"When the task is like this: {task}"
    return "When the same task comes again" if any(families) else ""


def _where(run: ReadRun, note: str) -> Citation:
    """Cite the step that shares the most words with the note."""
    words = set(_WORD.findall(note.lower()))
    best: EpisodeStep | None = None
    most = MIN_SHARED_WORDS - 1
    for step in run.episode.steps:
        text = _text_of(step)
        shared = len(words & set(_WORD.findall(text.lower())))
        if shared > most:
            best, most = step, shared
    return run.cite(best) if best else Citation()


def _text_of(step: EpisodeStep) -> str:
    action = f"{step.action.name} {step.action.arguments}" if step.action else ""
    return f"{step.thought}\n{action}\n{step.observation}\n{step.error}"


def _tools_in(run: ReadRun, text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(c.name for c in run.calls if c.name in text and len(words_of(c.name)) > 1))


def _text(card: dict[str, Any], member: str) -> str:
    value = card.get(member, "")
    return " ".join(value.split()) if isinstance(value, str) else ""
