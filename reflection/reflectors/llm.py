"""The reflector that asks a language model."""

from collections.abc import Iterable, Iterator
from itertools import groupby

import structlog
from django.conf import settings

from memory.heuristics.sameness import compare_heuristics
from memory.heuristics.text import Citation, HeuristicText
from memory.meaning.comparison import MeaningVerdict
from memory.runs.episode import Episode, EpisodeStep
from reflection.llm.calls import Ask
from reflection.llm.chat import ChatAnswer
from reflection.reflectors.base import NearHeuristic, ProposedLesson, ReflectionResult
from reflection.reflectors.checks import Severity, is_rejected, verify
from reflection.reflectors.llm_answer import LessonAnswer, UnusableAnswer, answer_schema, parse_answer
from reflection.reflectors.llm_prompt import Prompt, build_prompt, build_repair, version_for, version_of_all

log = structlog.get_logger(__name__)

MAX_QUOTE_CHARACTERS = 200
MAX_TAG_CHARACTERS = 40
MAX_SOURCE_TASK_CHARACTERS = 2000
POLARITIES = {"success": "works", "failure": "avoid", "mixed": "mixed"}


class LlmReflector:
    """Ask for lessons once, and once more where the answer cannot be used (reliability B9)."""

    name = "llm"
    reads_near = True
    reads_family = False
    reads_tries = True

    def __init__(self, *, ask: Ask) -> None:
        self.version = version_of_all()
        self._ask = ask

    def prompt_version(self, episode: Episode) -> str:
        """Return the version of the prompt this run is asked about with."""
        return version_for(episode)

    def reflect(self, episode: Episode, *, near: tuple[NearHeuristic, ...]) -> ReflectionResult:
        """Return the lessons of a run; raise `UnusableAnswer`, or what `ask` raises."""
        max_lessons = max(1, settings.ERL_LESSONS_PER_TRAJECTORY)
        prompt = build_prompt(episode, near=near, max_lessons=max_lessons, json_schema=answer_schema(max_lessons))
        first = self._ask("reflect", prompt.request)
        try:
            lessons, skipped = self._read(first, prompt, episode, near, max_lessons)
        except UnusableAnswer as error:
            if error.code == "refusal":
                raise
            lessons, skipped, code, reason = (), "", error.code, error.reason
        else:
            code, reason = self._find_fixable(lessons, episode)
            if not reason:
                return ReflectionResult(lessons=lessons, skip_reason=skipped)
        log.info("reflection_answer_repaired", code=code, prompt_version=prompt.version)
        repair = build_repair(prompt, episode, answer=first.text, code=code, reason=reason, max_lessons=max_lessons)
        second = self._ask("reflect:repair", repair)
        try:
            mended, skipped = self._read(second, prompt, episode, near, max_lessons)
            lessons = (*mended, *_find_lost(lessons, mended, episode))
        except UnusableAnswer as error:
            log.info("reflection_answer_unusable", code=error.code, prompt_version=prompt.version)
            # The first answer may have had usable lessons beside the one that failed.
            if not lessons:
                raise
        return ReflectionResult(lessons=lessons, skip_reason=skipped)

    def _read(
        self,
        completion: ChatAnswer,
        prompt: Prompt,
        episode: Episode,
        near: tuple[NearHeuristic, ...],
        max_lessons: int,
    ) -> tuple[tuple[ProposedLesson, ...], str]:
        answers = parse_answer(
            completion.text, finish_reason=completion.finish_reason, max_lessons=max_lessons, labels=prompt.labels
        )
        shown = dict(zip(prompt.labels, near, strict=False))
        lessons = tuple(_lesson(answer, episode, shown) for answer in answers if answer.learn or answer.covers_existing)
        reasons = dict.fromkeys(answer.skip_reason.strip() for answer in answers if answer.skip_reason.strip())
        skipped = " ".join(reasons) or "The model found nothing to learn in this run."
        return lessons, "" if lessons else skipped

    def _find_fixable(self, lessons: tuple[ProposedLesson, ...], episode: Episode) -> tuple[str, str]:
        """Return code and reason for a second try, or blanks where there is nothing to fix or nothing to save."""
        findings = [finding for lesson in lessons for finding in verify(lesson, episode)]
        # To name a secret or a repetition would teach the model to hide it.
        fixable = [] if is_rejected(findings) else [item for item in findings if item.severity == Severity.MEND]
        return (fixable[0].code, " ".join(dict.fromkeys(item.message for item in fixable))) if fixable else ("", "")


def _find_lost(
    lessons: Iterable[ProposedLesson], mended: Iterable[ProposedLesson], episode: Episode
) -> Iterator[ProposedLesson]:
    """Find the lessons of a first answer that had nothing to mend and are missing in the second."""
    for lesson in lessons:
        is_there = any(compare_heuristics(lesson.text, other.text).verdict is MeaningVerdict.SAME for other in mended)
        if not is_there and all(finding.severity == Severity.FLAG for finding in verify(lesson, episode)):
            yield lesson


def _lesson(answer: LessonAnswer, episode: Episode, shown: dict[str, NearHeuristic]) -> ProposedLesson:
    existing = shown.get(answer.covers_existing or "")
    analysis = answer.analysis.strip()
    title = answer.title.strip().rstrip(".")
    task_type = answer.task_type.strip().lower()
    return ProposedLesson(
        text=HeuristicText(
            trigger=answer.trigger.strip() or (existing.trigger if existing else ""),
            guideline=answer.action.strip() or (existing.guideline if existing else ""),
            avoid=answer.avoid.strip(),
            not_when=answer.not_when.strip(),
            rationale=f"{title}. {analysis}".strip() if title else analysis,
            polarity=POLARITIES[answer.polarity],
            scope="task_family" if episode.task_id else "project",
            task_id=episode.task_id,
            tags=(task_type,) if 0 < len(task_type) <= MAX_TAG_CHARACTERS else (),
            source_task=episode.task[:MAX_SOURCE_TASK_CHARACTERS],
        ),
        citations=_citations(answer.evidence_steps, episode),
        confidence=answer.confidence,
        covers_existing=existing.id if existing else None,
        tools=tuple(dict.fromkeys(tool.strip() for tool in answer.tools if tool.strip())),
    )


def _citations(numbers: Iterable[int], episode: Episode) -> tuple[Citation, ...]:
    """Join adjacent steps into ranges; the quote comes from the run, never from the model."""
    if not episode.steps:
        return (Citation(),)
    steps = {step.index: step for step in episode.steps}
    ordered = sorted(set(numbers))
    ranges = []
    # In a row of adjacent numbers, number minus position stays the same.
    for _, group in groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0]):
        run = [number for _, number in group]
        cited = [steps[number] for number in run if number in steps]
        quoted = next((step for step in cited if step.error), cited[-1] if cited else None)
        ranges.append(Citation(first_step=run[0], last_step=run[-1], quote=_quote(quoted) if quoted else ""))
    return tuple(ranges)


def _quote(step: EpisodeStep) -> str:
    text = step.error or step.observation or step.thought or (step.action.name if step.action else "")
    line = " ".join(text.split())
    return line if len(line) <= MAX_QUOTE_CHARACTERS else f"{line[: MAX_QUOTE_CHARACTERS - 1]}…"
