"""The offline reflector: runs a fixed set of detectors over a run and proposes what they find."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import replace

from memory.heuristics.text import RULE_TAG, HeuristicText
from memory.meaning.comparison import MeaningVerdict, has_same_words
from memory.runs.episode import Episode
from reflection.reflectors.base import NearHeuristic, ProposedLesson, ReflectionResult
from reflection.reflectors.repetition import ALREADY_SERVED, find_given
from reflection.reflectors.rules.detectors import (
    RuleMatch,
    blind_edits,
    changed_argument,
    changed_command,
    claimed_success,
    empty_answer,
    fatal_call,
    gave_up,
    guessed_name,
    idle_edit,
    incomplete_sweep,
    joined_arguments,
    lost_object,
    missing_identifier,
    missing_prerequisite,
    named_alternative,
    omitted_action,
    quoted_rule,
    recorded_notes,
    refused_edit,
    refused_parameter,
    refused_part,
    repaired_code,
    repeated_call,
    same_error,
    sibling_repair,
    sibling_success,
    spent_tries,
    unanswered_question,
    unasked_action,
    unfounded_id,
    unknown_name,
    unmade_call,
    unreadable_answer,
    unshown_label,
    unverified_change,
)
from reflection.reflectors.rules.detectors.recorded_notes import describe_tasks
from reflection.reflectors.rules.language import ENGLISH_ONLY, is_english
from reflection.reflectors.rules.relevance import bears_on_the_end
from reflection.reflectors.rules.run_view import ReadRun
from reflection.reflectors.rules.wording import (
    MAX_GUIDELINE_CHARS,
    MAX_TRIGGER_CHARS,
    cut,
    is_general,
)

NOTES = "recorded_notes"
_NAMES = re.compile(r"`([^`\n]{1,160})`|\"([^\"\n]{1,160})\"")
MAX_SOURCE_TASK_CHARS = 500

DETECTORS: tuple[Callable[[ReadRun], list[RuleMatch]], ...] = (
    named_alternative.find,
    guessed_name.find,
    repaired_code.find,
    refused_parameter.find,
    refused_part.find,
    missing_prerequisite.find,
    changed_argument.find,
    sibling_repair.find,
    sibling_success.find,
    refused_edit.find,
    idle_edit.find,
    blind_edits.find,
    unknown_name.find,
    unreadable_answer.find,
    unfounded_id.find,
    joined_arguments.find,
    unmade_call.find,
    unasked_action.find,
    lost_object.find,
    changed_command.find,
    unverified_change.find,
    quoted_rule.find,
    unshown_label.find,
    omitted_action.find,
    unanswered_question.find,
    fatal_call.find,
    gave_up.find,
    spent_tries.find,
    claimed_success.find,
    missing_identifier.find,
    incomplete_sweep.find,
    empty_answer.find,
    same_error.find,
    repeated_call.find,
    recorded_notes.find,
)


class RulesReflector:
    """Proposes lessons by fixed rules, without a model or network.

    The same run always gives the same lessons. Their text is the detector's wording with the tool and parameter names
    of the run, so that two runs with the same lesson give the same text.
    """

    name = "rules"
    version = "15"
    reads_near = True
    reads_family = True
    reads_tries = False

    def __init__(self, *, max_lessons: int = 1, max_notes: int = 5) -> None:
        """Propose at most `max_lessons` observed lessons per run, most certain first, and `max_notes` of its notes."""
        self.max_lessons = max_lessons
        self.max_notes = max_notes

    def reflect(self, episode: Episode, *, near: tuple[NearHeuristic, ...] = ()) -> ReflectionResult:
        """Return the best lessons of a run, or the reason why there are none."""
        if not episode.steps and not (episode.mistakes or episode.successes):
            return ReflectionResult(
                skip_reason="The run has no steps and no recorded notes, so there is nothing to read.", patterns=()
            )
        run = ReadRun(episode, injected=episode.injected)
        matches = _detect(run)
        patterns = _find_patterns(run, matches)
        fit = [match for match in matches if _is_fit(match, run) and bears_on_the_end(match, run)]
        # A stable sort: of equally certain findings, the earlier detector goes first.
        ranked = _distinct(sorted(fit, key=lambda match: -match.confidence))
        # Notes have a number of their own, or they would crowd out what was seen in the calls.
        noted = [match for match in ranked if match.rule == NOTES][: max(self.max_notes, self.max_lessons)]
        seen = [match for match in ranked if match.rule != NOTES][: self.max_lessons]
        best = [match for match in ranked if match in noted or match in seen]
        if not best:
            reason = _why_none(run, matches)
            return ReflectionResult(
                skip_reason=reason if is_english(episode) else f"{reason} {ENGLISH_ONLY}", patterns=patterns
            )
        lessons = tuple(_propose(match, episode, near) for match in best)
        return ReflectionResult(lessons=lessons, patterns=patterns)


def pattern_of(match: RuleMatch) -> str:
    """Return the key of a finding: the detector and a hash of the trigger, which names tools but no values of a run.

    Notes have none: what an agent wrote about one run shows nothing in another.
    """
    if match.rule == NOTES:
        return ""
    return f"{match.rule}:{hashlib.sha256(match.trigger.encode()).hexdigest()[:16]}"


def _detect(run: ReadRun) -> list[RuleMatch]:
    return [match for detect in DETECTORS for match in detect(run)]


def _find_patterns(run: ReadRun, found: list[RuleMatch]) -> tuple[str, ...]:
    """Return the keys of what a run shows, a pattern of failure included where the run did not fail."""
    as_failure = found
    if not run.failed:
        failed = ReadRun(replace(run.episode, outcome="failure", score=None), injected=run.injected)
        as_failure = [match for match in _detect(failed) if match.polarity == "avoid"]
    return tuple(sorted({key for match in (*found, *as_failure) if (key := pattern_of(match))}))


def _is_fit(match: RuleMatch, run: ReadRun) -> bool:
    """Return whether a match applies beyond its run, fits the fields and is not a lesson the run was given."""
    return (
        len(match.trigger) <= MAX_TRIGGER_CHARS
        and len(match.guideline) <= MAX_GUIDELINE_CHARS
        and (is_general(match.trigger) or match.trigger == describe_tasks([run.episode.task_id], [run.episode.task]))
        and is_general(match.guideline)
        and is_general(match.avoid)
        and not _is_given(match, run)
    )


def _is_given(match: RuleMatch, run: ReadRun) -> bool:
    """Return whether a match says what a lesson says that the run was given."""
    given = find_given(match.trigger, match.guideline, run.injected)
    return given is not None and given.verdict is MeaningVerdict.SAME


def _distinct(matches: list[RuleMatch]) -> list[RuleMatch]:
    """Drop matches with the same trigger as a better one, except notes, which differ in their guidelines."""
    kept: dict[tuple[str, str], RuleMatch] = {}
    for match in matches:
        kept.setdefault((match.trigger, match.guideline if match.rule == NOTES else ""), match)
    return list(kept.values())


def _propose(match: RuleMatch, episode: Episode, near: tuple[NearHeuristic, ...]) -> ProposedLesson:
    # A note is quoted in its own language; all other words are those of the rules.
    is_foreign = match.rule != NOTES and not is_english(episode)
    covers = next((neighbour.id for neighbour in near if _says_the_same(match, neighbour)), None)
    return ProposedLesson(
        text=HeuristicText(
            trigger=match.trigger,
            guideline=match.guideline,
            avoid=match.avoid,
            not_when=match.not_when,
            rationale=f"{match.rationale} {ENGLISH_ONLY}" if is_foreign else match.rationale,
            polarity=match.polarity,
            scope="task_family" if match.family_only and episode.task_id else "project",
            task_id=episode.task_id if match.family_only else "",
            tags=(match.rule, RULE_TAG) if match.rule == NOTES else (match.rule,),
            source_task=episode.task[:MAX_SOURCE_TASK_CHARS],
        ),
        citations=match.citations,
        confidence=round(match.confidence, 2),
        covers_existing=covers,
        tools=match.tools,
        pattern=pattern_of(match),
        family_runs=_find_origins(match, episode),
    )


def _find_origins(match: RuleMatch, episode: Episode) -> tuple[int, ...]:
    """Return which runs of the family have names in a lesson that its own run does not have."""
    if not episode.family:
        return ()
    texts = f"{match.trigger}\n{match.guideline}\n{match.avoid}\n{match.not_when}"
    own = _words_of(episode)
    borrowed = {name for group in _NAMES.findall(texts) for name in group if name and name not in own}
    return tuple(
        number for number, other in enumerate(episode.family) if any(name in _words_of(other) for name in borrowed)
    )


def _words_of(episode: Episode) -> str:
    """Return all texts of a run that a detector may take a name from."""
    actions = (f"{step.action.name} {step.action.arguments}" for step in episode.steps if step.action)
    answers = (f"{step.observation}\n{step.error}" for step in episode.steps)
    return "\n".join((episode.task, *episode.tools, *actions, *answers))


def _says_the_same(match: RuleMatch, near: NearHeuristic) -> bool:
    """Return whether an existing heuristic has the same words, for whichever family; other words are compared later."""
    return has_same_words(match.trigger, near.trigger) and has_same_words(match.guideline, near.guideline)


def _why_none(run: ReadRun, found: list[RuleMatch]) -> str:
    if any(_is_given(match, run) for match in found):
        return ALREADY_SERVED
    if found and not any(bears_on_the_end(match, run) for match in found):
        return "The run failed, and what the rules found is about errors that it got over or could do without."
    if found:
        return (
            "What the rules found cannot be expressed without ids, names or values of this run, so nothing is proposed."
        )
    if not run.calls and not run.turns:
        return "The run has no tool call or conversation that a rule could read."
    red = next((call.index for call in run.calls if call.is_red), None)
    if red is not None and any(call.is_green and call.index > red for call in run.calls):
        return (
            "Tests or a build failed and passed after the code was changed. That is a fact of this change, not a "
            "lesson for other tasks."
        )
    end = {"success": "why it succeeded", "failure": "why it failed"}.get(run.verdict, "how it ended")
    episode = run.episode
    has_notes = bool(episode.mistakes or episode.successes)
    noted = "no recorded note fits how the run ended and says what to do" if has_notes else "no note was recorded"
    quoted = "; ".join(f"“{cut(' '.join(note.split()), 160)}”" for note in (*episode.mistakes, *episode.successes)[:3])
    return (
        f"No failed call was corrected, none was repeated in vain, {noted}, and no step shows in a way the rules know "
        f"{end}. A person or a language model may see more." + (f" The run noted: {quoted}." if quoted else "")
    )
