"""In a successful run, the agent refused because of a rule, was asked again, and kept to the rule."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import RunView, Turn
from reflection.reflectors.rules.tools import is_handover
from reflection.reflectors.rules.wording import code, is_general

MIN_RULE_CHARS = 35
MAX_RULE_CHARS = 190

_SENTENCE = re.compile(r"[^.!?\n]+")
_REFUSAL = re.compile(
    r"\b(?:cannot|can't|can not|can only|not (?:allowed|possible|permitted|eligible|covered|refundable)|"
    r"does not (?:allow|cover|waive|include)|do not (?:allow|cover)|not (?:waive|cover))\b",
    re.I,
)
_LEAD = re.compile(
    r"^(?:[-*•]\s+|(?:unfortunately|however|but|i'm sorry|sorry|(?:please )?note that|and|so|therefore|also),?\s+)+",
    re.I,
)
_PERSONAL = re.compile(
    r"\b(?:i|i'm|we|you|your|you're|my|this|that|these|it|its|here|there|another|let me|would|if you)\b", re.I
)
_PUSH = re.compile(
    r"\b(?:again|still|double-check|are you sure|any way|possible|willing|really|exception|try|but)\b", re.I
)


def find(run: RunView) -> list[RuleMatch]:
    """Look for a rule that the agent gave as its reason, in words that apply beyond this run."""
    if not run.succeeded:
        return []
    stated = [(turn, rule) for turn in run.turns if (rule := rule_in(turn.said))]
    if not stated:
        return []
    turn, rule = stated[0]
    pushed = [each for each in run.turns if each.index > turn.index - 1 and _PUSH.search(each.heard)]
    handed = next((c for c in run.calls if is_handover(c.name) and c.index > turn.index), None)
    if not pushed:
        return []
    return [_make_match(run, turn, rule, pushed=pushed, handover=handed.name if handed else "")]


def rule_in(text: str) -> str:
    """Return the first refusal that is not about a single person or case, or ""."""
    for match in _SENTENCE.finditer(text.replace("**", "").replace("’", "'")):
        sentence = _LEAD.sub("", match[0].strip())
        if not (MIN_RULE_CHARS <= len(sentence) <= MAX_RULE_CHARS) or not _REFUSAL.search(sentence):
            continue
        general = sentence[0].lower() + sentence[1:]
        if not _PERSONAL.search(general) and is_general(general) and '"' not in general:
            return general
    return ""


def _make_match(run: RunView, turn: Turn, rule: str, *, pushed: list[Turn], handover: str) -> RuleMatch:
    guideline = (
        "Say which rule it is and what is possible instead, and keep to it when the user asks again; do not call a "
        "tool that makes the change."
    )
    if handover:
        guideline += f" Offer {code(handover)} only when the user still wants more after that."
    return RuleMatch(
        rule="held_rule",
        trigger=f'When a request goes against this rule: "{rule}"',
        guideline=guideline,
        rationale=(
            f"At step {turn.index} the agent refused by this rule, which it stated itself; the user asked further "
            f"and the agent kept to it. {run.ending}"
        ),
        polarity="works",
        confidence=0.6,
        citations=(run.cite(turn.step, _exact(turn.said, rule)), run.cite(pushed[0].step, pushed[0].heard)),
        tools=(handover,) if handover else (),
    )


def _exact(said: str, rule: str) -> str:
    """Return the rule exactly as said, or "" if more than the case of its first letter differs."""
    plain = rule if rule in said else rule[0].upper() + rule[1:]
    return plain if plain in said else ""
