"""The offline reflector: reads a run with a fixed set of detectors and proposes what they can show."""

from collections.abc import Callable

from memory.heuristics.text import RULE_TAG, HeuristicText
from memory.runs.episode import Episode
from reflection.reflectors.base import NearHeuristic, ProposedLesson, ReflectionResult
from reflection.reflectors.rules.detection import Detection
from reflection.reflectors.rules.detectors import (
    amounts,
    corrected_call,
    empty_answer,
    held_rule,
    incomplete_sweep,
    missing_identifier,
    recorded_notes,
    redone_change,
    repeated_call,
    unresolved_reference,
)
from reflection.reflectors.rules.run_view import RunView
from reflection.reflectors.rules.wording import (
    MAX_GUIDELINE_CHARS,
    MAX_TRIGGER_CHARS,
    is_general,
    names_in,
    word_overlap,
)

NOTES = "recorded_notes"
SAME_LESSON = 0.8
MAX_SOURCE_TASK_CHARS = 500

DETECTORS: tuple[Callable[[RunView], list[Detection]], ...] = (
    amounts.find,
    corrected_call.find,
    repeated_call.find,
    missing_identifier.find,
    incomplete_sweep.find,
    unresolved_reference.find,
    redone_change.find,
    empty_answer.find,
    held_rule.find,
    recorded_notes.find,
)


class RulesReflector:
    """Proposes lessons by fixed rules, without a model and without a network.

    The same run gives the same lessons. A lesson's words are the detector's normal wording with the run's tool,
    and parameter names, so that two runs with the same lesson say it in the same words.
    """

    name = "rules"
    version = "3"
    reads_near = True

    def __init__(self, *, max_lessons: int = 1, max_notes: int = 5) -> None:
        """Propose at most `max_lessons` of what a run shows, the most telling first, and `max_notes` of its notes."""
        self.max_lessons = max_lessons
        self.max_notes = max_notes

    def reflect(self, episode: Episode, *, near: tuple[NearHeuristic, ...] = ()) -> ReflectionResult:
        """Return the best lessons of a run, or a sentence saying why there are none."""
        if not episode.steps and not (episode.mistakes or episode.successes or episode.mistake_cards):
            return ReflectionResult(
                skip_reason="The run has no steps and no recorded notes, so there is nothing to read."
            )
        run = RunView(episode, injected=episode.injected)
        found = [finding for detect in DETECTORS for finding in detect(run)]
        fit = [finding for finding in found if _is_fit(finding, run)]
        ranked = _distinct(sorted(fit, key=lambda finding: -finding.confidence))
        noted = [finding for finding in ranked if finding.rule == NOTES][: max(self.max_notes, self.max_lessons)]
        seen = [finding for finding in ranked if finding.rule != NOTES][: self.max_lessons]
        best = [finding for finding in ranked if finding in noted or finding in seen]
        if not best:
            return ReflectionResult(skip_reason=_why_none(run, found))
        return ReflectionResult(lessons=tuple(_propose(finding, episode, near) for finding in best))


def _is_fit(finding: Detection, run: RunView) -> bool:
    """Tell whether a finding holds beyond its run, fits its fields and is not what the run was given."""
    lesson = f"{finding.trigger} {finding.guideline}"
    return (
        len(finding.trigger) <= MAX_TRIGGER_CHARS
        and len(finding.guideline) <= MAX_GUIDELINE_CHARS
        and is_general(finding.trigger)
        and is_general(finding.guideline)
        and is_general(finding.avoid)
        and not any(word_overlap(lesson, given) >= SAME_LESSON for given in run.injected)
    )


def _distinct(findings: list[Detection]) -> list[Detection]:
    """Drop findings that speak of the same trigger as a better one; notes each say something else about their task."""
    kept: dict[tuple[str, str], Detection] = {}
    for finding in findings:
        kept.setdefault((finding.trigger, finding.guideline if finding.rule == NOTES else ""), finding)
    return list(kept.values())


def _propose(finding: Detection, episode: Episode, near: tuple[NearHeuristic, ...]) -> ProposedLesson:
    covers = next((each.id for each in near if _says_the_same(finding, each)), None)
    return ProposedLesson(
        text=HeuristicText(
            trigger=finding.trigger,
            guideline=finding.guideline,
            avoid=finding.avoid,
            not_when=finding.not_when,
            rationale=finding.rationale,
            polarity=finding.polarity,
            scope="task_family" if finding.family_only and episode.task_id else "project",
            task_id=episode.task_id if finding.family_only else "",
            tags=(finding.rule, RULE_TAG) if finding.rule == NOTES else (finding.rule,),
            source_task=episode.task[:MAX_SOURCE_TASK_CHARS],
        ),
        citations=finding.citations,
        confidence=round(finding.confidence, 2),
        covers_existing=covers,
        tools=finding.tools,
    )


def _says_the_same(finding: Detection, near: NearHeuristic) -> bool:
    """Tell whether an existing heuristic names the same things and says nearly the same of them."""
    return (
        names_in(f"{finding.trigger} {finding.guideline}") == names_in(f"{near.trigger} {near.guideline}")
        and word_overlap(finding.trigger, near.trigger) >= SAME_LESSON
        and word_overlap(finding.guideline, near.guideline) >= SAME_LESSON
    )


def _why_none(run: RunView, found: list[Detection]) -> str:
    if found:
        return (
            "What the rules found could not be said without ids, names or values of this run, so nothing is proposed."
        )
    if not run.calls and not run.turns:
        return "The run holds no tool call and no talk that a rule could read."
    end = {"success": "why it succeeded", "failure": "why it failed"}.get(run.verdict, "how it ended")
    return (
        "No call failed and was corrected, none was repeated in vain, no note was recorded, and no step decides "
        f"{end} in a way the rules know; a person or a language model may see more."
    )
