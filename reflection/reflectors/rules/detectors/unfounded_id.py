"""An id was given that no one had named, or that is the id of something else, and the call never worked."""

from typing import Any

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import ErrorKind
from reflection.reflectors.rules.run_view import ReadRun, RunCall, occurs
from reflection.reflectors.rules.tools import is_harmful, words_of
from reflection.reflectors.rules.wording import code, is_general, parameter_name, with_article

MAX_FAILURES = 50
_ID_WORDS = frozenset(["id", "ids", "uuid", "slug", "handle"])
_LISTS = frozenset(["list", "search", "find", "get"])


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for such ids in failed runs."""
    if not run.failed:
        return []
    matches: dict[str, RuleMatch] = {}
    for failed in [call for call in run.calls if call.error and not call.command][:MAX_FAILURES]:
        # With another id it worked: what led to that one is another detector's lesson.
        if run.next_success(failed) or not _is_not_found(failed):
            continue
        for path, values in sorted(failed.leaves.items()):
            is_named = _is_id(path) and is_general(parameter_name(path)) and occurs(values[0], failed.output)
            if is_named and (match := _explain(run, failed, path, values[0])):
                matches.setdefault(match.trigger, match)
    return list(matches.values())


def _is_not_found(call: RunCall) -> bool:
    return call.error is not None and call.error.has(ErrorKind.NOT_FOUND)


def _is_id(path: str) -> bool:
    words = words_of(path.rpartition(".")[2])
    return len(words) > 1 and words[-1] in _ID_WORDS


def _explain(run: ReadRun, failed: RunCall, path: str, value: Any) -> RuleMatch | None:
    tool, parameter = code(failed.name), parameter_name(path)
    owner = _true_owner(run, failed, path, value)
    if owner:
        trigger = f"When about to call {tool} with the value of {parameter_name(owner)} as {parameter}"
        told = f"A value of {parameter_name(owner)} is not one."
        avoid = f"Passing the value of {parameter_name(owner)} as {parameter}."
        origin = f"which other calls take as {parameter_name(owner)}"
    elif not occurs(value, run.text_before(failed.index)) and not occurs(value, run.episode.system_prompt):
        trigger = f"When about to call {tool} with {with_article(parameter)} that neither the task nor an answer names"
        told = "If it shows none that fits, say so."
        avoid = f"Making up {with_article(parameter)} from a description."
        origin = "which nothing before had named"
    else:
        return None
    lister = _lister(run, failed, path)
    how = f"with {code(lister)}" if lister else "with a tool that lists or searches for them"
    return RuleMatch(
        rule="unfounded_id",
        trigger=trigger,
        guideline=f"First look for {parameter} {how}, and copy it from the answer. {told}",
        avoid=avoid,
        rationale=(
            f"At step {failed.index} {tool} was given a {parameter} {origin}, and did not find it. It never worked "
            f"in this run. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.75,
        citations=(run.cite(failed.step, failed.error.text if failed.error else ""),),
        tools=(failed.name, *((lister,) if lister else ())),
    )


def _true_owner(run: ReadRun, failed: RunCall, path: str, value: Any) -> str:
    """Return the other id parameter as which a value was given in the run, "" if it was none or taken as this one."""
    others = [call for call in run.calls if call is not failed]
    taken = [name for call in others for name, values in call.leaves.items() if value in values and _is_id(name)]
    if path in taken or any(other.leaves.get(path) == (value,) and not other.error for other in others):
        return ""
    return next((name for name in taken if is_general(parameter_name(name))), "")


def _lister(run: ReadRun, failed: RunCall, path: str) -> str:
    """Return a tool that lists what the id belongs to: `list_sensors` for `sensor_id`."""
    thing = "_".join(words_of(path.rpartition(".")[2])[:-1])
    names = dict.fromkeys((*run.episode.tools, *(call.name for call in run.calls)))
    for name in names:
        words = words_of(name)
        is_plural = "_".join(words[1:]) in (f"{thing}s", f"{thing}_records", f"{thing}es")
        if words and words[0] in _LISTS and is_plural and name != failed.name and not is_harmful(name):
            return name
    return ""
