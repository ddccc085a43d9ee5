"""A change was made, a person objected to one of its parameters, and it was made again."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import Call, RunView, Turn, is_reference
from reflection.reflectors.rules.tools import is_change, words_of
from reflection.reflectors.rules.wording import code, is_general, parameter_name, with_article

MAX_CHANGES = 200


def find(run: RunView) -> list[RuleMatch]:
    """Look for two changes by the same tool that differ in one parameter, mentioned by a person in between."""
    if run.succeeded:
        return []
    changes = [call for call in run.calls if is_change(call.name) and not call.error][:MAX_CHANGES]
    for first in changes:
        for second in changes:
            if second.index <= first.index or second.name != first.name:
                continue
            if found := _objection(run, first, second):
                return [_make_match(run, first, second, path=found[0], turn=found[1])]
    return []


def _objection(run: RunView, first: Call, second: Call) -> tuple[str, Turn] | None:
    before, after = first.leaves, second.leaves
    if before.keys() != after.keys():
        return None
    changed = [path for path in before if before[path] != after[path]]
    if len(changed) != 1 or not is_reference(after[changed[0]][0]) or not is_general(changed[0]):
        return None
    if not any(is_reference(value) for path in before if path != changed[0] for value in before[path]):
        return None  # the calls may be about different records
    words = set(words_of(changed[0])) - {"id"}
    for turn in run.turns:
        if first.index < turn.index < second.index and words & set(re.findall(r"\w+", turn.heard.lower())):
            return changed[0], turn
    return None


def _make_match(run: RunView, first: Call, second: Call, *, path: str, turn: Turn) -> RuleMatch:
    tool, parameter = code(first.name), parameter_name(path)
    return RuleMatch(
        rule="redone_change",
        trigger=f"When about to call {tool} and the user has not said which {parameter} to use",
        guideline=f"Name the choices for {parameter}, wait for the user's answer, and call {tool} once with it.",
        avoid=f"Choosing {parameter} for the user, and calling {tool} again when they object.",
        rationale=(
            f"{tool} ran at step {first.index} with {with_article(parameter)} the user had not been asked about; at "
            f"step {turn.index} the user wanted another one and {tool} ran again at step {second.index}. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.85,
        citations=(run.cite(first.step), run.cite(turn.step, turn.heard), run.cite(second.step)),
        tools=(first.name,),
    )
