"""A person named something by its last digits, and the agent used an id not linked to them."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import Call, RunView, is_reference, occurs
from reflection.reflectors.rules.tools import is_change
from reflection.reflectors.rules.wording import code, is_general, parameter_name

_ENDING = re.compile(r"\b(\w+)\s+(?:ending|ends|that ends)\s+(?:in|with)\s+(\d{2,6})\b", re.I)


def find(run: RunView) -> list[RuleMatch]:
    """Look for a change made before any answer contained the digits that a person gave."""
    if not run.failed:
        return []
    for call in run.calls:
        if call.error or not is_change(call.name):
            continue
        named = _ENDING.search(run.heard_before(call.index))
        if named is None or any(occurs(named[2], c.answer) for c in run.calls if c.index < call.index):
            continue
        for path, values in call.leaves.items():
            value = values[-1]
            if named[1].lower() in str(value).lower() and is_reference(value) and is_general(path):
                return [_make_match(run, call, path=path, said=named[0])]
    return []


def _make_match(run: RunView, call: Call, *, path: str, said: str) -> RuleMatch:
    tool, parameter = code(call.name), parameter_name(path)
    value = call.leaves[path][-1]
    source = run.source_of(value, before=call.index)
    turn = next((turn for turn in run.turns if said in turn.heard), None)
    return RuleMatch(
        rule="unresolved_reference",
        trigger=f"When about to call {tool} and the user names the {parameter} only by its last digits",
        guideline=(
            "Look up the user's records with a tool that shows those digits, and pass the id of the record that has "
            f"them as {parameter}. If none has them, ask."
        ),
        avoid=(
            f"Passing the {parameter} that happens to stand in the answer of {code(source.name)}."
            if source
            else f"Guessing {parameter}."
        ),
        rationale=(
            f"The digits the user gave stood in no answer before {tool} at step {call.index}; its {parameter} was "
            f"{'taken from ' + code(source.name) + ' at step ' + str(source.index) if source else 'made up'}, where "
            f"nothing links it to them. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.85,
        citations=(
            *((run.cite(turn.step, said),) if turn else ()),
            *((run.cite(source.step, str(value)),) if source else ()),
            run.cite(call.step, str(value)),
        ),
        tools=(call.name,),
    )
