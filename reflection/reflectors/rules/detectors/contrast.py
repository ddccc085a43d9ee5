"""A step that every successful run of a family took, and those that failed did not."""

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.detectors.recorded_notes import describe_tasks
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.tools import is_handover, is_harmful, words_of
from reflection.reflectors.rules.wording import code

MIN_SUCCESSES = 3
MIN_FAILURES = 2
MAX_ACTION_CHARS = 60


def find(run: ReadRun) -> list[RuleMatch]:
    """Compare a failed run with the other runs of the same task, or else with those of its family."""
    if not run.failed or not run.calls:
        return []
    same_task = [other for other in run.family if other.episode.task == run.episode.task]
    for others in (same_task, list(run.family)):
        successes = [other for other in others if other.succeeded and other.calls]
        failures = [run, *(other for other in others if other.failed and other.calls)]
        if len(successes) >= MIN_SUCCESSES and len(failures) >= MIN_FAILURES:
            return _compare(run, successes, failures)
    return []


def _compare(run: ReadRun, successes: list[ReadRun], failures: list[ReadRun]) -> list[RuleMatch]:
    good = [_steps_of(other) for other in successes]
    bad = [_steps_of(other) for other in failures]
    # What the failed runs tried in vain, and what only ends a run that went well, is an effect and not a reason.
    tried = frozenset(call.label for other in failures for call in other.calls)
    always = frozenset.intersection(*good) - tried - frozenset.union(*(_last_steps(other) for other in successes))
    helpful = sorted(name for name in always if not is_harmful(name))
    fatal = sorted(name for name in frozenset.intersection(*bad) - frozenset.union(*good) if is_handover(name))
    helpful = [name for name in helpful if not any(_mentions(other, name) for other in failures)]
    trigger = describe_tasks([run.episode.task_id], [run.episode.task])
    if not trigger or len(helpful) + len(fatal) != 1:
        # With several differences, any of them may be the reason.
        return []
    return [_make_match(run, successes, failures, trigger=trigger, step=(helpful or fatal)[0], is_done=bool(helpful))]


def _mentions(run: ReadRun, name: str) -> bool:
    """Return whether a run tried a step in another spelling: its words in the first words of an action."""
    words = words_of(name)
    actions = (step.action for step in run.episode.steps if step.action)
    tried = (words_of(f"{a.name} {next(iter(a.arguments.values()), '')}"[:MAX_ACTION_CHARS]) for a in actions)
    return any(words == text[start : start + len(words)] for text in tried for start in range(len(text)))


def _steps_of(run: ReadRun) -> frozenset[str]:
    return frozenset(call.label for call in run.calls if not call.error)


def _last_steps(run: ReadRun) -> frozenset[str]:
    """Return what the run first did in its last fifth: the end of its work rather than the reason for its success."""
    start = len(run.calls) - 1 - len(run.calls) // 5
    return frozenset(call.label for call in run.calls[start:]) - {call.label for call in run.calls[:start]}


def _make_match(
    run: ReadRun, successes: list[ReadRun], failures: list[ReadRun], *, trigger: str, step: str, is_done: bool
) -> RuleMatch:
    tool = code(step)
    if is_done:
        guideline = f"Call {tool} before you finish; read its answer and act on it."
        avoid = f"Finishing without {tool}."
    else:
        guideline = f"Look for another way to do what is asked, with the tools on offer, before you call {tool}."
        avoid = f"Calling {tool} while a tool on offer could still do the work."
    last: RunCall = next((c for c in reversed(run.calls) if c.label == step), run.calls[-1])
    return RuleMatch(
        rule="contrast",
        trigger=trigger,
        guideline=guideline,
        avoid=avoid,
        rationale=(
            f"Of the runs of this kind that were compared, {'all' if is_done else 'none'} of the {len(successes)} that "
            f"succeeded called {tool}, and {'none' if is_done else 'all'} of the {len(failures)} that failed did. "
            f"{run.ending}"
        ),
        polarity="avoid",
        confidence=0.65,
        citations=(run.cite(last.step, last.quotable),),
        tools=(step,),
        family_only=True,
    )
