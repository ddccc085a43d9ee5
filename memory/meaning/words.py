"""Single words: their stems, units, what several stand for, and the language they are of."""

from collections.abc import Sequence
from functools import lru_cache

from memory.meaning.vocabulary import FOREIGN, NUMBERS, OPPOSITES, PHRASES, STOP, SYNONYMS, UNITS

COMPARISONS = {">": ">", "<": "<", ">=": "≥", "<=": "≤", "≥": "≥", "≤": "≤", "=": "=", "==": "=", "!=": "≠", "<>": "≠"}
_LONGEST_PHRASE = max(len(said.split()) for said in PHRASES)
_IRREGULAR = """
    ran=run written=write wrote=write took=take taken=take gave=give given=give sent=send made=make done=do went=go
    gone=go saw=see seen=see kept=keep lost=lose found=find bought=buy sold=sell paid=pay chose=choose chosen=choose
    broke=break broken=break forgot=forget forgotten=forget told=tell said=say held=hold left=leave built=build put=put
    got=get began=begin begun=begin thought=think caught=catch shown=show indices=index indexes=index people=person
    children=child criteria=criterion queries=query flew=fly flown=fly hid=hide used=use using=use hidden=hide grew=grow
"""
_FORMS = dict(pair.split("=") for pair in _IRREGULAR.split())


@lru_cache(maxsize=16384)
def stem(word: str) -> str:
    """Return a word without its ending, and the word that stands for all those that say the same."""
    word = _FORMS.get(word, word)
    if word in SYNONYMS:
        return SYNONYMS[word]
    bare = _bare(word)
    return _SYNONYM_STEMS.get(bare, bare)


def _bare(word: str) -> str:
    for ending, instead in _ENDINGS:
        rest = word[: -len(ending)]
        if word.endswith(ending) and len(rest) >= 3 and not _VOWELS.isdisjoint(rest):
            word = rest + instead
            break
    # "planning" leaves "plann", where "plan" is meant.
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeious":
        word = word[:-1]
    if word.endswith("e") and len(word) > 3:
        word = word[:-1]
    return word[:-1] + "i" if word.endswith("y") and len(word) > 3 else word


_VOWELS = frozenset("aeiouy")
_ENDINGS = (
    ("ications", "y"), ("ication", "y"), ("ations", "e"), ("ation", "e"), ("itions", ""), ("ition", ""), ("ions", ""),
    ("ion", ""), ("ments", ""), ("ment", ""), ("ises", "ize"), ("ised", "ize"), ("ising", "ize"), ("ise", "ize"),
    ("ies", "y"), ("ied", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("ing", ""),
    ("eed", "eed"), ("ed", ""), ("ss", "ss"), ("us", "us"), ("is", "is"), ("s", ""),
)  # fmt: skip
_SYNONYM_STEMS = {_bare(word): first for word, first in SYNONYMS.items()}


def find_unit(word: str) -> tuple[str, float] | None:
    return UNITS.get(word) or UNITS.get(word.removesuffix("s"))


def guess_language(words: Sequence[str]) -> str:
    """Return the language most of whose small words occur, English where as many of its words do, or ""."""
    counted = {"en": sum(word in _ENGLISH or stem(word) in SYNONYMS for word in words)}
    counted |= {language: sum(word in small_words for word in words) for language, small_words in FOREIGN.items()}
    best = max(counted, key=lambda language: counted[language])
    return best if counted[best] else ""


_ENGLISH = STOP | frozenset(SYNONYMS) | frozenset(word for group in OPPOSITES for word in group)


def say_in_few_words(tokens: Sequence[tuple[str, str]], language: str) -> list[tuple[str, str]]:
    """Say in one word what takes several, and the small words of other languages in English."""
    foreign = FOREIGN.get(language, {})
    translated = ((kind, foreign.get(text, text) if kind == "word" else text) for kind, text in tokens)
    read = [(kind, text) for kind, text in translated if text]
    short: list[tuple[str, str]] = []
    position = 0
    while position < len(read):
        length, phrase = _find_phrase(read, position)
        if phrase == "or-equal" and short and short[-1][1] in ("<", ">"):
            phrase = {"<": "≤", ">": "≥"}[short.pop()[1]]
        short += [_as_token(word) for word in phrase.split()] if length else [_read_alone(read, position)]
        position += length or 1
    return short


def _find_phrase(read: Sequence[tuple[str, str]], place: int) -> tuple[int, str]:
    """Return the length of the longest phrase that begins at a place, 0 where none does, and what it stands for."""
    for length in range(min(_LONGEST_PHRASE, len(read) - place), 0, -1):
        span = read[place : place + length]
        phrase = " ".join(text for _, text in span)
        if phrase in PHRASES and all(kind == "word" for kind, _ in span):
            return length, PHRASES[phrase]
    return 0, ""


def _as_token(word: str) -> tuple[str, str]:
    if word in COMPARISONS:
        return "operator", word
    return ("number", word) if word[0].isdigit() else ("word", word)


def _read_alone(read: Sequence[tuple[str, str]], place: int) -> tuple[str, str]:
    kind, text = read[place]
    after = read[place + 1] if place + 1 < len(read) else ("break", ".")
    is_amount = after[0] in ("number", "money") or after[1] in NUMBERS
    if kind != "word":
        return kind, text
    if text in _BOUNDS and is_amount:
        return "operator", _BOUNDS[text]
    if text in ("exceed", "exceeds", "exceeding"):
        return "operator", ">"
    before = read[place - 1][1] if place else ""
    counts = text != "one" or (
        after[0] == "word"
        and after[1] not in STOP
        and before not in ("the", "this", "that", "each", "every", "another")
    )
    if text in NUMBERS and counts:
        return "number", NUMBERS[text]
    return kind, text


_BOUNDS = {
    "over": ">",
    "above": ">",
    "under": "<",
    "below": "<",
    "maximum": "≤",
    "max": "≤",
    "minimum": "≥",
    "min": "≥",
}
