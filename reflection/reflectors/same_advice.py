"""Tell whether two lessons give the same advice in other words.

They do if all of these hold: the same polarity and place; the same names, quotations and numbers; the same words
that turn advice around or limit it ("not", "before", "at least", "second"); and nearly the same meaning. If the
guidelines are the same word for word, the meaning has to agree less, because only the triggers differ.

The order of words matters: "a before b" is not "b before a".

The words that turn advice around are known in English only. In another language, two texts give the same advice only if
they are the same word for word.

The bounds were chosen by reading pairs: joining two different pieces of advice is worse than missing a pair.
"""

import re
from collections import Counter
from difflib import SequenceMatcher
from itertools import pairwise

from memory.heuristics.text import HeuristicText

SAME_MEANING = 0.90
SAME_MEANING_OF_SAME_GUIDELINE = 0.85

_QUOTED = re.compile(r"`([^`]+)`|\"([^\"]+)\"|“([^“”]+)”")
_NAME = re.compile(r"\b(?:\w*_\w+|\w*[a-z][A-Z]\w*|\w*\d\w*)\b")
_NAMED = re.compile(rf"{_QUOTED.pattern}|{_NAME.pattern}")
_WORD = re.compile(r"[^\W\d_]+(?:'t\b)?")
# Two lessons that differ in one of these may say the opposite, or speak of something else.
_TURNING_WORDS = """
    not never no cannot without instead unless except only all any both either neither each every
    none another other before after first second third last next previous until twice more less fewer greater
    smaller larger higher lower most least maximum minimum highest lowest equal strictly exactly inclusive exclusive
    include including exclude excluding excluded included add remove increase decrease even odd positive negative left
    right true false empty above below start end ascending descending avoid skip accept reject allow deny enable disable
    two three four five six seven eight nine ten
"""
_TURNING = frozenset(_TURNING_WORDS.split())
_NEGATING = frozenset("not never no cannot without unless except".split())  # noqa: SIM905
_ENGLISH_WORDS = """
    the and of to is are be that this with for from it if when then before you your call use check read ask take
"""
_ENGLISH = frozenset(_ENGLISH_WORDS.split())
_AUXILIARY = frozenset({"be", "been", "to", "the"})
MOVED_WORDS = 0.15  # of the words two texts share, how many may stand in another order


def is_same_advice(one: HeuristicText, other: HeuristicText, *, similarity: float) -> bool:
    """Tell whether two lessons give the same advice; `similarity` is the cosine of their vectors."""
    if (one.polarity, _place(one)) != (other.polarity, _place(other)):
        return False
    said, other_said = _said(one), _said(other)
    if _names(said) != _names(other_said) or _in_order(one.guideline) != _in_order(other.guideline):
        return False
    if not (_is_readable(one.guideline, other.guideline) and _is_readable(_when(one), _when(other))):
        return False
    if _negates_other(said, other_said) or _negates_other(other_said, said):
        return False
    if _words(one.guideline) == _words(other.guideline):
        same_sense = _found_in(_when(one), _NEGATING) == _found_in(_when(other), _NEGATING)
        return same_sense and similarity >= SAME_MEANING_OF_SAME_GUIDELINE
    same_sense = _found_in(said, _TURNING) == _found_in(other_said, _TURNING) and not _is_reordered(said, other_said)
    return same_sense and similarity >= SAME_MEANING


def _place(text: HeuristicText) -> str | None:
    return None if text.scope == "project" else text.task_id


def _said(text: HeuristicText) -> str:
    return f"{text.trigger} {text.guideline} {text.avoid} {text.not_when}"


def _names(said: str) -> frozenset[str]:
    quoted = frozenset(" ".join(part.lower().split()) for match in _QUOTED.findall(said) for part in match if part)
    return quoted | frozenset(_NAME.findall(_QUOTED.sub(" ", said)))


def _in_order(guideline: str) -> list[str]:
    """Return the names and numbers of a guideline in the order in which it first says them: what comes before what."""
    return list(dict.fromkeys(match[0].strip('`"') for match in _NAMED.finditer(guideline)))


def _is_reordered(said: str, other: str) -> bool:
    """Tell whether two texts have many words in common in another order, such as "a, not b" and "b, not a"."""
    one, two = _words(said), _words(other)
    shared = 2 * (Counter(one) & Counter(two)).total() / max(1, len(one) + len(two))
    return shared - SequenceMatcher(None, one, two, autojunk=False).ratio() > MOVED_WORDS


def _found_in(said: str, words: frozenset[str]) -> list[str]:
    """Return which of these words a text has, in the order in which it first says them."""
    return [word for word in dict.fromkeys(_words(_QUOTED.sub(" ", said))) if word in words]


def _is_readable(one: str, other: str) -> bool:
    """Tell whether two texts are the same word for word, or in the language whose turning words are known."""
    words, other_words = _words(one), _words(other)
    return words == other_words or not (_ENGLISH.isdisjoint(words) or _ENGLISH.isdisjoint(other_words))


def _negates_other(one: str, other: str) -> bool:
    """Tell whether one text negates more than another does, or what the other says: "do not a, but b" of "a, not b"."""
    negated, also_negated = _negated(one), _negated(other)
    more = set(negated) - set(also_negated)
    return len(negated) != len(also_negated) or not more.isdisjoint(_words(_QUOTED.sub(" ", other)))


def _negated(said: str) -> list[str]:
    """Return the word behind each negation."""
    words = [word for word in _words(_QUOTED.sub(" ", said)) if word not in _AUXILIARY]
    return [after for word, after in pairwise([*words, ""]) if word in _NEGATING or word.endswith("n't")]


def _when(text: HeuristicText) -> str:
    return f"{text.trigger} {text.not_when}"


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower().replace("’", "'"))
