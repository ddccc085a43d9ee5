"""Tell whether two lessons give the same advice in other words.

They do where all of these hold: the same polarity and place; the same names, quotations and numbers; the same words
that turn advice around or limit it ("not", "before", "at least", "second"); and nearly the same meaning. Where the
guidelines are the same word for word, less of the meaning has to agree, because only the triggers differ.

Words in another order are another matter: "a before b" is not "b before a".

The bounds were chosen by reading pairs: joining two different pieces of advice is worse than missing a pair.
"""

import re
from difflib import SequenceMatcher

from memory.heuristics.text import HeuristicText

SAME_MEANING = 0.90
SAME_MEANING_OF_SAME_GUIDELINE = 0.85

_QUOTED = re.compile(r"`([^`]+)`|\"([^\"]+)\"|“([^”]+)”")
_NAME = re.compile(r"\b(?:\w*_\w+|\w*[a-z][A-Z]\w*|\w*\d\w*)\b")
_WORD = re.compile(r"[a-z]+(?:'t)?")
# Two lessons that differ in one of these may say the opposite, or the same of something else.
_TURNING_WORDS = """
    not never no cannot can't don't doesn't without instead unless except only all any both either neither each every
    none another other before after first second third last next previous until again once twice more less fewer greater
    smaller larger higher lower most least maximum minimum highest lowest equal strictly exactly inclusive exclusive
    include including exclude excluding excluded included add remove increase decrease even odd positive negative left
    right true false empty above below start end ascending descending
"""
_TURNING = frozenset(_TURNING_WORDS.split())
_MOVED = 0.9  # of two texts of the same words, the share that must stand in the same order


def is_same_advice(one: HeuristicText, other: HeuristicText, *, similarity: float) -> bool:
    """Tell whether two lessons give the same advice; `similarity` is the cosine of their vectors."""
    if (one.polarity, _place(one)) != (other.polarity, _place(other)):
        return False
    said, other_said = _said(one), _said(other)
    if _names(said) != _names(other_said) or _turning_words(said) != _turning_words(other_said):
        return False
    if _in_order(one.guideline) != _in_order(other.guideline) or _is_reordered(said, other_said):
        return False
    bound = SAME_MEANING_OF_SAME_GUIDELINE if _same_words(one.guideline, other.guideline) else SAME_MEANING
    return similarity >= bound


def _place(text: HeuristicText) -> str | None:
    return None if text.scope == "project" else text.task_id


def _said(text: HeuristicText) -> str:
    return f"{text.trigger} {text.guideline} {text.avoid} {text.not_when}"


def _names(said: str) -> frozenset[str]:
    quoted = frozenset(" ".join(part.lower().split()) for match in _QUOTED.findall(said) for part in match if part)
    return quoted | frozenset(_NAME.findall(_QUOTED.sub(" ", said)))


def _in_order(guideline: str) -> list[str]:
    """Return the quoted names of a guideline in the order in which it first says them: what comes before what."""
    return list(dict.fromkeys(part for match in _QUOTED.findall(guideline.lower()) for part in match if part))


def _is_reordered(said: str, other: str) -> bool:
    """Tell whether two texts have the same words in another order, such as "a before b" and "b before a"."""
    one, two = _WORD.findall(said.lower()), _WORD.findall(other.lower())
    return set(one) == set(two) and SequenceMatcher(None, one, two, autojunk=False).ratio() < _MOVED


def _turning_words(said: str) -> frozenset[str]:
    return _TURNING & frozenset(_WORD.findall(_QUOTED.sub(" ", said.lower())))


def _same_words(one: str, other: str) -> bool:
    return _WORD.findall(one.lower()) == _WORD.findall(other.lower())
