"""One tool made something, and another one, which was to change it, did not find it."""

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind
from reflection.reflectors.rules.run_view import ReadRun, RunCall, is_reference, occurs
from reflection.reflectors.rules.tools import is_change
from reflection.reflectors.rules.wording import code, is_general, times


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for an id that a changing tool returned and that a second tool never found, in runs that did not succeed."""
    matches: dict[str, RuleMatch] = {}
    if run.succeeded:
        return []
    for failed in run.calls:
        if failed.error is None or failed.command or not failed.error.has(ErrorKind.NOT_FOUND):
            continue
        if not is_change(failed.name):
            continue
        made = _maker_of(run, failed)
        if made and is_general(code(made[0].name) + code(failed.name)) and not run.next_success(failed):
            match = _make_match(run, made[0], failed, value=made[1])
            matches.setdefault(match.trigger, match)
    return list(matches.values())


def _maker_of(run: ReadRun, failed: RunCall) -> tuple[RunCall, str] | None:
    """Return the call that made what a call did not find, as it was the first to name it, and the id."""
    values = [value for group in failed.leaves.values() for value in group]
    for value in values:
        if not is_reference(value) or not occurs(value, failed.output) or occurs(value, run.episode.task):
            continue
        source = run.source_of(value, before=failed.index)
        is_maker = source and not source.error and source.name != failed.name and is_change(source.name)
        # A name that the agent chose itself may be meant otherwise by the other tool.
        if source and is_maker and not occurs(value, repr(source.arguments)):
            return source, value
    return None


def _make_match(run: ReadRun, maker: RunCall, failed: RunCall, *, value: str) -> RuleMatch:
    assert failed.error is not None
    tries = sum(call.name == failed.name and bool(call.error) for call in run.calls)
    making, changing = code(maker.name), code(failed.name)
    return RuleMatch(
        rule="lost_object",
        trigger=f"When the request needs {changing} for what {making} is about to make",
        guideline=(
            f"Put all that is known into the arguments of {making} from the start: here {changing} does not find what "
            f"{making} has made. If the rest cannot be set, say so plainly in the answer."
        ),
        avoid=f"Calling {changing} again with the same id.",
        rationale=(
            f"{making} returned an id at step {maker.index}, and {changing} did not find it at step {failed.index}; "
            f"{changing} failed {times(tries)} and never worked. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.75,
        citations=(run.cite(maker.step, value), run.cite(failed.step, failed.error.text)),
        tools=(maker.name, failed.name),
    )
