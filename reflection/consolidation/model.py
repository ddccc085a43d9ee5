"""Consolidate with a language model: it distils, merges, widens, narrows and finds contradictions.

Its answers are parsed strictly and checked like the lessons of reflections. They only ever become proposals.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.utils.text import Truncator

from memory.heuristics.text import RULE_TAG, Citation, HeuristicText
from memory.redaction import redact_text
from memory.runs.episode import Episode, EpisodeStep
from reflection.consolidation.answers import ModelDecision, decisions_schema, parse_decisions, with_names
from reflection.consolidation.comparison import compare, suggest_generalisation, suggest_merge
from reflection.consolidation.drafts import Advice, Author, Draft, NewLesson, Support
from reflection.consolidation.excerpts import RUNS_SHOWN, show_lesson, show_note, show_run
from reflection.consolidation.maintenance import FailedUse
from reflection.consolidation.models import Suggestion
from reflection.consolidation.similarity import group_similar, halve, stack
from reflection.consolidation.sources import Lesson, RecordedNote
from reflection.errors import ReflectionError
from reflection.llm.calls import Ask
from reflection.llm.chat import ChatRequest
from reflection.prompts import Frame, prompt_version, read_prompt
from reflection.reflectors.base import ProposedLesson
from reflection.reflectors.checks import Severity, is_rejected, verify

MAX_QUESTIONS = 20  # to the language model in one consolidation
GROUPS_AT_ONCE = 8
NOTES_OF_A_GROUP = 6
LESSONS_AT_ONCE = 12
COMPARED_SIMILARITY = 0.8  # the cosine from which two lessons are shown to the model together
MAX_SOURCE_TASK_CHARS = 500
MAX_NAME_CHARACTERS = 60
TOO_LONG = frozenset({"timeout", "cut_off"})  # failures that a shorter question may not have


class TooManyQuestions(ReflectionError):
    """A consolidation has used up its model calls; the rules do the rest."""

    code = "too_many_questions"


class ModelConsolidator:
    """Asks the model what to do with notes and lessons. Raises what asking and parsing raise."""

    def __init__(self, *, ask: Ask, model: str) -> None:
        self.prompt_version = prompt_version(
            "consolidate", "consolidate-data", "consolidate-distil", "consolidate-compare", "consolidate-maintain"
        )
        self._author = Author(
            method="llm", version=self.prompt_version, model=model, prompt_version=self.prompt_version
        )
        self._ask = ask
        self._asked = 0
        # What the model proposed and no reviewer will see, and why, in sentences.
        self.dropped: list[str] = []

    def distil(self, groups: Sequence[Sequence[tuple[RecordedNote, float]]]) -> list[Draft]:
        """Return the lessons that groups of notes teach."""
        drafts: list[Draft] = []
        # Several groups in one question: each question repeats the same long instructions.
        for start in range(0, len(groups), GROUPS_AT_ONCE):
            batch = {f"G{number}": group for number, group in enumerate(groups[start : start + GROUPS_AT_ONCE], 1)}
            data = {label: [show_note(note) for note, _ in group[:NOTES_OF_A_GROUP]] for label, group in batch.items()}
            for decision in self._decide("distil", data, labels=batch, choices=("new", "keep"), example="G"):
                # A lesson from several groups could not be traced to its runs.
                if decision.decision == "new" and len(decision.labels) == 1:
                    named = with_names(decision, dict.fromkeys(batch, "the notes"))
                    drafts += self._as_new(named, batch[decision.labels[0]])
                elif decision.decision == "new":
                    self._drop(decision.trigger, "it is drawn from several groups of notes.")
        return drafts

    def compare(self, lessons: Sequence[Lesson]) -> list[Draft]:
        """Return what to do with lessons that are close in meaning."""
        compared = [lesson for lesson in lessons if lesson.vector is not None]
        if len(compared) < 2:
            return []
        groups = group_similar(compared, stack(lesson.vector for lesson in compared), at_least=COMPARED_SIMILARITY)
        drafts: list[Draft] = []
        batch: list[list[Lesson]] = []
        for group in [[compared[index] for index, _ in group] for group in groups if len(group) > 1]:
            # Of a group that is too large for one question, each part is compared with the lesson that leads it.
            for start in range(1, len(group), LESSONS_AT_ONCE - 1):
                part = [group[0], *group[start : start + LESSONS_AT_ONCE - 1]]
                if batch and sum(map(len, batch)) + len(part) > LESSONS_AT_ONCE:
                    drafts += self._compare_in_time(batch)
                    batch = []
                batch.append(part)
        return [*drafts, *(self._compare_in_time(batch) if batch else [])]

    def maintain(self, use: FailedUse) -> list[Draft]:
        """Return what to do with a lesson that runs followed and failed."""
        data = {
            "LESSON": [show_lesson("L1", use.lesson)],
            "FAILED RUNS": [show_run(run) for run in use.failed[:RUNS_SHOWN]],
            "SUCCEEDED RUNS": [show_run(run) for run in use.succeeded[:RUNS_SHOWN]],
        }
        decisions = self._decide("maintain", data, labels=["L1"], choices=("narrow", "retire", "keep"), example="L")
        drafts = [
            self._as_advice(with_names(decision, {"L1": "this lesson"}), {"L1": use.lesson}, data)
            for decision in decisions[:1]
        ]
        return [replace(advice, support=use.support, occasion=use.occasion) for advice in drafts if advice is not None]

    def _compare_in_time(self, groups: Sequence[Sequence[Lesson]]) -> list[Draft]:
        """Ask about half as many lessons at a time where the answer to all of them takes too long."""
        try:
            return self._compare(groups)
        except ReflectionError as error:
            halves = halve(groups)
            if error.code not in TOO_LONG or not halves:
                raise
        return [draft for half in halves for draft in self._compare_in_time(half)]

    def _compare(self, groups: Sequence[Sequence[Lesson]]) -> list[Draft]:
        shown: dict[str, Lesson] = {}
        lines = []
        for group in groups:
            labels = [f"L{len(shown) + number}" for number in range(1, len(group) + 1)]
            shown |= dict(zip(labels, group, strict=True))
            lines += [
                show_lesson(label, lesson) | {"near": [near_label for near_label in labels if near_label != label]}
                for label, lesson in zip(labels, group, strict=True)
            ]
        data = {"LESSONS": lines}
        choices = ("merge", "generalise", "contradiction", "narrow", "keep")
        drafts: list[Draft] = []
        for answer in self._decide("compare", data, labels=shown, choices=choices, example="L"):
            decision = with_names(answer, {label: _name(lesson) for label, lesson in shown.items()})
            if decision.decision == "merge":
                drafts += self._as_merges(decision, shown, data)
            elif (advice := self._as_advice(decision, shown, data)) is not None:
                drafts.append(advice)
        return drafts

    def _decide(
        self, step: str, data: dict[str, list[Any]], *, labels: Iterable[str], choices: tuple[str, ...], example: str
    ) -> list[ModelDecision]:
        most = MAX_QUESTIONS
        if self._asked >= most:
            raise TooManyQuestions(f"One consolidation asks at most {most} questions. The rules did the rest.")
        self._asked += 1
        system = read_prompt("consolidate").fill(
            assignment=read_prompt(f"consolidate-{step}").fill(),
            choices=", ".join(f'"{choice}"' for choice in choices),
            example=example,
        )
        frame = Frame.of(data)
        user = read_prompt("consolidate-data").fill(
            boundary=frame.boundary, mark=frame.mark, blocks=frame.blocks(data.items())
        )
        request = ChatRequest.single(
            system=system,
            user=user,
            json_schema=decisions_schema(choices),
            max_output_tokens=settings.ERL_LLM_MAX_OUTPUT_TOKENS,
        )
        answer = self._ask(f"consolidate:{step}", request)
        # A server that has one model is asked without its name, so only the answer says what wrote it.
        self._author = replace(self._author, model=answer.model)
        return parse_decisions(
            answer.text, finish_reason=answer.finish_reason, labels=frozenset(labels), choices=choices
        )

    def _as_new(self, decision: ModelDecision, group: Sequence[tuple[RecordedNote, float]]) -> list[Draft]:
        notes = [note for note, _ in group]
        families = list(dict.fromkeys(note.family for note in notes))
        across = len(families) > 1 or not families[0]
        text = HeuristicText(
            trigger=decision.trigger.strip(),
            guideline=decision.action.strip(),
            avoid=decision.avoid.strip(),
            not_when=decision.not_when.strip(),
            rationale=decision.reason.strip(),
            polarity=decision.polarity,
            scope="project" if across else "task_family",
            task_id="" if across else families[0],
            tags=("consolidated", RULE_TAG),
            source_task=notes[0].task[:MAX_SOURCE_TASK_CHARS],
        )
        findings = self._check(text, [note.text for note in notes])
        if findings is None:
            return []
        runs = {note.trajectory_id: note for note in notes}
        return [
            NewLesson(
                text=text,
                support=tuple(
                    Support(trajectory_id=note.trajectory_id, citation=Citation(quote=note.text[:200]))
                    for note in runs.values()
                ),
                reason=decision.reason.strip() or f"{len(runs)} runs noted it.",
                confidence=decision.confidence,
                author=self._author,
                findings=findings,
            )
        ]

    def _as_merges(self, decision: ModelDecision, shown: dict[str, Lesson], data: dict[str, list[Any]]) -> list[Draft]:
        """Return one merge for each lesson that goes; the first brings the better wording, if there is one."""
        lessons = [shown[label] for label in dict.fromkeys(decision.labels)]
        into = shown[decision.keep] if decision.keep else min(lessons, key=lambda lesson: lesson.rank)
        text, findings = self._new_words(decision, into, data)
        drafts: list[Draft] = []
        for lesson in lessons:
            # "Do" and "avoid" cannot be one lesson, whatever the model says.
            if lesson.id == into.id:
                continue
            if lesson.revision.polarity != into.revision.polarity:
                self._drop(lesson.revision.trigger, "one lesson says what works, the other what to avoid.")
                continue
            comparison = compare(into, lesson, anywhere=True)
            if comparison.is_opposite:
                against = self._about(
                    lesson, Suggestion.Kind.CONTRADICTION, f"{decision.reason.strip()} But {comparison.reason}."
                )
                drafts.append(replace(against, other_id=into.id, other_sha256=into.revision.content_sha256))
                continue
            doubt = ({"code": "may_differ", "message": f"Before you merge, look again: {comparison.reason}."},)
            merge = suggest_merge(
                lesson,
                into,
                similarity=round(min(float(lesson.vector @ into.vector), 1.0), 4),
                author=self._author,
                reason=decision.reason.strip(),
                text=text,
            )
            drafts.append(replace(merge, findings=findings + (doubt if comparison.is_sure else ())))
            # The better wording is proposed once, with the first merge.
            text, findings = None, ()
        return drafts

    def _as_advice(
        self, decision: ModelDecision, shown: dict[str, Lesson], data: dict[str, list[Any]]
    ) -> Advice | None:
        labels = list(dict.fromkeys(decision.labels))
        lesson = shown[labels[0]]
        reason = decision.reason.strip()
        text, findings = self._new_words(decision, lesson, data)
        advice: Advice | None = None
        match decision.decision:
            case "generalise" if lesson.place:
                advice = suggest_generalisation(lesson, [lesson.place], author=self._author, reason=reason, text=text)
            case "narrow" if text is not None:
                advice = self._about(lesson, Suggestion.Kind.NARROW, reason, text=text)
            case "retire":
                advice = replace(self._about(lesson, Suggestion.Kind.RETIRE, reason), tokens_saved=lesson.tokens)
            case "contradiction" if len(labels) == 2:
                other = shown[labels[1]]
                advice = replace(
                    self._about(lesson, Suggestion.Kind.CONTRADICTION, reason),
                    other_id=other.id,
                    other_sha256=other.revision.content_sha256,
                )
        return advice and replace(advice, findings=findings)

    def _about(self, lesson: Lesson, kind: str, reason: str, *, text: HeuristicText | None = None) -> Advice:
        return Advice(
            kind=kind,
            heuristic_id=lesson.id,
            content_sha256=lesson.revision.content_sha256,
            text=text,
            reason=reason or "The model gave no reason.",
            author=self._author,
        )

    def _new_words(
        self, decision: ModelDecision, lesson: Lesson, data: dict[str, list[Any]]
    ) -> tuple[HeuristicText | None, tuple[dict[str, Any], ...]]:
        """Return the wording a decision proposes for a lesson, if it proposes one that passes the checks."""
        if not (decision.trigger.strip() and decision.action.strip()):
            return None, ()
        text = replace(
            lesson.revision.as_text(),
            trigger=decision.trigger.strip(),
            guideline=decision.action.strip(),
            avoid=decision.avoid.strip(),
            not_when=decision.not_when.strip(),
        )
        findings = self._check(text, [repr(value) for values in data.values() for value in values])
        return (None, ()) if findings is None or text == lesson.revision.as_text() else (text, findings)

    def _check(self, text: HeuristicText, read: Iterable[str]) -> tuple[dict[str, Any], ...] | None:
        """Check a wording against what the model read; return what a reviewer is to know, or None where it fails."""
        # The checks compare with a run, so what the model read is shown to them as one.
        steps = tuple(EpisodeStep(index=number, observation=item) for number, item in enumerate(read, 1))
        episode = Episode(task=text.source_task, steps=steps, task_id=text.task_id)
        findings = verify(ProposedLesson(text=text, citations=(Citation(),)), episode)
        if is_rejected(findings):
            self._drop(text.trigger, " ".join(item.message for item in findings if item.severity == Severity.REJECT))
            return None
        return tuple(item.as_json() for item in findings)

    def _drop(self, trigger: str, reason: str) -> None:
        self.dropped.append(f"“{Truncator(redact_text(trigger)).chars(MAX_NAME_CHARACTERS)}” was left out: {reason}")


def _name(lesson: Lesson) -> str:
    """Return what a reviewer recognises a lesson by."""
    return f"“{Truncator(lesson.revision.trigger).chars(MAX_NAME_CHARACTERS)}”"
