"""A search found nothing, and another tool or a wider search with similar arguments found something."""

import json

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.tools import is_read
from reflection.reflectors.rules.wording import code, is_general, listed, parameter_name

_EMPTY_TEXTS = ("[]", "{}", "null", "none", "no results", "no results found", "no matches", "no matches found")


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for a read with an empty answer, directly followed by one that found something."""
    if run.failed:
        # What was found instead may be the reason for the failure.
        return []
    matches = []
    for empty, following in zip(run.calls, run.calls[1:], strict=False):
        if not is_empty(empty) or following.error or is_empty(following):
            continue
        if not (is_read(empty.name) and is_read(following.name)):
            continue
        if finding := _explain(run, empty, following):
            matches.append(finding)
    return matches


def is_empty(call: RunCall) -> bool:
    """Return whether a call succeeded with an empty answer."""
    answer = call.answer.strip().lower()
    if answer in _EMPTY_TEXTS:
        return True
    if not answer.startswith("{"):
        return False
    try:
        values = list(json.loads(answer).values())
    except (ValueError, RecursionError):
        return False
    return any(value == [] for value in values) and all(value in ([], 0, "", None) for value in values)


def _explain(run: ReadRun, empty: RunCall, following: RunCall) -> RuleMatch | None:
    shared = set(map(str, _scalars(empty))) & set(map(str, _scalars(following)))
    if empty.name != following.name:
        if not shared:
            return None
        guideline = f"Call {code(following.name)} with the same request before saying that there is nothing."
    else:
        dropped = [path for path in empty.leaves if path not in following.leaves and is_general(path)]
        if not dropped:
            return None
        guideline = f"Call {code(empty.name)} again without {listed([parameter_name(path) for path in dropped])}."
    return RuleMatch(
        rule="empty_answer",
        trigger=f"When {code(empty.name)} returns nothing",
        guideline=guideline,
        rationale=(
            f"At step {empty.index} {code(empty.name)} returned nothing; at step {following.index} "
            f"{code(following.name)} found something for the same request. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.6,
        citations=(run.cite(empty.step, empty.answer), run.cite(following.step)),
        tools=tuple(dict.fromkeys((empty.name, following.name))),
    )


def _scalars(call: RunCall) -> list[object]:
    return [value for values in call.leaves.values() for value in values]
