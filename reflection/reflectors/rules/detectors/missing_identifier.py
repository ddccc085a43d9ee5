"""A person did not know an identifier, and the agent looked it up or kept asking for it."""

import re
from dataclasses import dataclass, replace

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun, RunCall, SpokenTurn, is_reference, occurs
from reflection.reflectors.rules.tools import is_change, is_read, words_of
from reflection.reflectors.rules.wording import code, is_general, parameter_name

MIN_REPEATED_ASKS = 2

_HEADS = "ids?|numbers?|codes?|references?|keys?|e-?mail(?: address)?|username|account|details"
_IDENTIFIER = re.compile(rf"\b((?:[a-z]+ )?(?:{_HEADS}))\b", re.I)
_LACKING = re.compile(
    r"(?:don't|do not|didn't|can't|cannot|not|never|no longer|unsure|no idea|lost|forgot(?:ten)?|without|unable)\b"
    r"[^.?!]{0,60}",
    re.I,
)
_ASKING = re.compile(
    r"\b(?:need|provide|share|give|tell|once you have|without|locate|check your|confirm|let me know)\b", re.I
)
_NOISE = frozenset(
    "the your my a an this that any of and or no with for its their which what correct right".split()  # noqa: SIM905
)


@dataclass(frozen=True, kw_only=True)
class _Gap:
    """An identifier that a person did not know, in which turn, and what else the agent had asked for."""

    identifier: str
    turn: SpokenTurn
    other: str


def find(run: ReadRun) -> list[RuleMatch]:
    """Look at the first identifier that a person did not know."""
    gap = next((gap for turn in run.turns if (gap := _gap_in(run, turn))), None)
    if gap is None:
        return []
    if run.succeeded and (finding := _looked_up(run, gap)):
        return [finding]
    if run.failed and (finding := _insisted(run, gap)):
        return [_as_others_did(run, finding)]
    return []


def _as_others_did(run: ReadRun, finding: RuleMatch) -> RuleMatch:
    """Give a lesson the words of one that successful runs of the family show, which names the lookup."""
    shown = (match for other in run.family if other.succeeded for match in find(other))
    # Only for the same gap: the trigger names the identifier.
    better = next((match for match in shown if match.trigger == finding.trigger), None)
    if better is None:
        return finding
    return replace(
        finding, guideline=better.guideline, avoid=better.avoid, tools=better.tools, polarity=better.polarity
    )


def _gap_in(run: ReadRun, turn: SpokenTurn) -> _Gap | None:
    asked = _identifiers(turn.said)
    # People and models write both apostrophes.
    heard = turn.heard.replace("’", "'")
    for clause in _LACKING.findall(heard):
        for identifier in _identifiers(clause):
            if identifier in asked:
                other = next(
                    (candidate for candidate in asked if candidate != identifier and candidate.split()[-1] == "ID"), ""
                )
                return _Gap(identifier=identifier, turn=turn, other=other)
    return None


def _identifiers(text: str) -> list[str]:
    """Return the identifiers that a text mentions, in a uniform spelling: "reservation ID"."""
    identifiers = []
    for match in _IDENTIFIER.finditer(text.replace("’", "'")):
        words = [word for word in match[1].lower().split() if word not in _NOISE]
        head = re.sub(r"^(id|number|code|reference|key)s$", r"\1", words[-1]) if words else ""
        if len(words) > 1:
            identifiers.append(" ".join([*words[:-1], "ID" if head == "id" else head]))
    return list(dict.fromkeys(identifiers))


def _looked_up(run: ReadRun, gap: _Gap) -> RuleMatch | None:
    """Describe how another tool's answer gave the identifier."""
    first_use = _first_use(run, gap)
    if first_use is None:
        return None
    use, parameter, source = first_use
    key = next((path for path in source.leaves if is_general(path)), "")
    # A tool that needs the identifier cannot be where it comes from.
    if not key or source.name == use.name:
        return None
    name = gap.identifier
    opened = [c for c in run.calls if c.name == use.name and c.index >= use.index and parameter in c.leaves]
    tried = len({c.leaves[parameter] for c in opened}) if is_read(use.name) else 1
    guideline = (
        f"Ask for the {parameter_name(key)} instead, call {code(source.name)} with it, and take "
        f"{parameter_name(parameter)} for {code(use.name)} from its answer."
    )
    if is_read(use.name):
        guideline += (
            f" If it lists several, open them one by one with {code(use.name)} until one fits what the user says."
        )
    return RuleMatch(
        rule="missing_identifier",
        trigger=f"When the user does not know the {name} that the request needs",
        guideline=guideline,
        avoid=f"Making the user search for the {name}, or refusing to go on without it.",
        rationale=(
            f"At step {gap.turn.index} the user did not know the {name}. {code(source.name)} at step {source.index} "
            f"returned it, and {code(use.name)} took it at step "
            f"{use.index}{f'; {tried} candidates were opened' if tried > 1 else ''}. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.7,
        citations=(
            run.cite(gap.turn.step, gap.turn.heard),
            run.cite(source.step, _exact(use, parameter)),
            run.cite(use.step, _exact(use, parameter)),
        ),
        tools=(source.name, use.name),
    )


def _insisted(run: ReadRun, gap: _Gap) -> RuleMatch | None:
    """Describe an agent that kept asking and never called a tool that could have found the identifier."""
    if _first_use(run, gap) is not None or any(is_change(call.name) and not call.error for call in run.calls):
        return None
    again = [
        turn
        for turn in run.turns
        if turn.index > gap.turn.index and gap.identifier in _identifiers(turn.said) and _ASKING.search(turn.said)
    ]
    if len(again) < MIN_REPEATED_ASKS:
        return None
    name, other = gap.identifier, gap.other
    if other:
        guideline = (
            f"Ask for the {other} alone, look the person up with the tool that takes it, and find the {name} in the "
            f"answer. Do not ask for the {name} a second time."
        )
    else:
        guideline = (
            "Ask once for something else that a lookup tool takes, such as a name, an e-mail address or an account, "
            f"and find the {name} in its answer. Do not ask for the {name} a second time."
        )
    handed = run.handover()
    return RuleMatch(
        rule="missing_identifier",
        trigger=f"When the user does not know the {name} that the request needs",
        guideline=guideline,
        avoid=f"Telling the user that nothing can be done without the {name}.",
        rationale=(
            f"At step {gap.turn.index} the user did not know the {name}; the agent asked for it in {len(again)} more "
            "turns and called "
            f"{'no tool but ' + code(handed.name) if handed else 'no tool that could have found it'}. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.9,
        citations=(
            run.cite(gap.turn.step, gap.turn.heard),
            *(run.cite(turn.step, turn.said) for turn in (again[0], again[-1])),
        ),
        tools=(),
    )


def _first_use(run: ReadRun, gap: _Gap) -> tuple[RunCall, str, RunCall] | None:
    """Return the first call whose value for the missing identifier came from a tool's answer, not from a person."""
    wanted = set(words_of(gap.identifier))
    for call in run.calls:
        if call.index <= gap.turn.index or call.error:
            continue
        for path, values in call.leaves.items():
            if not wanted <= set(words_of(path)) or not is_reference(values[0]):
                continue
            source = run.source_of(values[0], before=call.index)
            if source and not occurs(values[0], run.heard_before(source.index)):
                return call, path, source
    return None


def _exact(call: RunCall, path: str) -> str:
    return str(call.leaves[path][0])
