"""A check was red, code was changed, and the run ended without running the check again; or while it was still red."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.wording import code

_CLAIM = re.compile(
    r"\b(?:pass(?:es|ed|ing)?|fix(?:ed|es)|works?|working|done|complete[ds]?|resolved|solved|implemented)\b",
    re.IGNORECASE,
)
_DENIAL = re.compile(r"\b(?:not|n't|cannot|fail(?:s|ed|ing|ure)?|wrong|error|unable|still|broken)\b", re.IGNORECASE)
_HAND_IN = re.compile(r"^(?:submit|finish|done|complete|end|attempt_completion|finish_task)", re.IGNORECASE)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for work that was handed in after the last check of it."""
    edits = [call for call in run.calls if call.is_edit and not call.error]
    checks = [call for call in run.calls if call.is_check and (call.is_red or call.is_green)]
    if run.succeeded or not edits or not checks:
        return []
    last = checks[-1]
    after = [edit for edit in edits if edit.index > last.index]
    claimed = _claim(run, after=max(last.index, edits[-1].index))
    if claimed is None:
        return []
    if after and not any(c.index > after[-1].index and _may_check(c) for c in run.calls):
        return [_unchecked(run, last, after, claimed)]
    if not after and last.is_red:
        return [_still_red(run, last, claimed)]
    return []


def _may_check(call: RunCall) -> bool:
    """Return whether a command may have tried the work out, which looking and committing do not."""
    return call.command is not None and not call.command.is_reader and call.command.program != "git"


def _claim(run: ReadRun, *, after: int) -> tuple[int, str] | None:
    """Return the step and the words with which the agent handed the work in as done."""
    for turn in reversed(run.turns):
        if turn.index > after and _CLAIM.search(turn.said) and not _DENIAL.search(turn.said):
            return turn.index, turn.said
    call = run.calls[-1]
    return (call.index, "") if call.index > after and _HAND_IN.match(call.name) else None


def _unchecked(run: ReadRun, check: RunCall, edits: list[RunCall], claimed: tuple[int, str]) -> RuleMatch:
    tool = code(check.label)
    result = "failed" if check.is_red else "passed"
    return RuleMatch(
        rule="unverified_change",
        trigger=f"When code has been changed since {tool} last ran",
        guideline=f"Run {tool} again and read its result before you say that the work is done or hand it in.",
        avoid="Saying that it works because the change looks right.",
        rationale=(
            f"{tool} {result} at step {check.index}. After that the run changed code, last at step {edits[-1].index}, "
            f"and ended at step {claimed[0]} without another check. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.75,
        citations=_cite(run, check, claimed, edits[-1]),
        tools=(check.name,),
    )


def _still_red(run: ReadRun, check: RunCall, claimed: tuple[int, str]) -> RuleMatch:
    tool = code(check.label)
    return RuleMatch(
        rule="unverified_change",
        trigger=f"When about to say that the work is done or to hand it in, and the last {tool} failed",
        guideline=f"Go on until {tool} passes, or name the failures that are left and say why they are left.",
        avoid="Handing the work in as done while its check fails.",
        rationale=(
            f"The last {tool}, at step {check.index}, failed, and the run ended at step {claimed[0]} as if it had "
            f"passed. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.8,
        citations=_cite(run, check, claimed),
        tools=(check.name,),
    )


def _cite(run: ReadRun, check: RunCall, claimed: tuple[int, str], *edits: RunCall) -> tuple:  # type: ignore[type-arg]
    step = run.episode.steps[claimed[0] - 1]
    return (run.cite(check.step, check.quotable), *(run.cite(e.step) for e in edits), run.cite(step, claimed[1]))
