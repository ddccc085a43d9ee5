"""Whether two texts say the same. Similarity finds what is worth comparing; it never decides alone."""

import re
from collections import Counter
from collections.abc import Iterator, Set
from dataclasses import dataclass
from enum import StrEnum

from memory.meaning.reading import Reading, read
from memory.meaning.vocabulary import LIGHT, LIGHTER, OPPOSED, OPPOSITES, WHOLE
from memory.meaning.words import stem

_KIND = re.compile(
    r"(?:when |if )?(?:the task is (?:of the kind|like this)|the same task comes|starting a task|any task"
    r"|a task of the family)\b",
    re.I,
)
_PREFIXES = ("un", "in", "im", "non", "dis", "ir")
_PLAIN = re.compile(r"[\w\s.-]*")
_Pairs = tuple[tuple[frozenset[str], frozenset[str]], ...]
LONG_WORDS = 12  # above this, opposed words may be about different things
NEAR = 0.6  # the lowest cosine of two texts that may say the same in other words


class MeaningVerdict(StrEnum):
    SAME = "same"
    DIFFERENT = "different"
    DOUBTFUL = "doubtful"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What comparing two texts gave. `reason` completes "The two differ: …"; `is_opposite` where both cannot hold."""

    verdict: MeaningVerdict
    reason: str = ""
    is_opposite: bool = False
    is_sure: bool = False  # a word, name or number that differs, not just too little in common


@dataclass(frozen=True, slots=True)
class _Difference:
    reason: str
    is_opposite: bool = False
    is_sure: bool = True


def has_same_words(one: str, other: str) -> bool:
    """Tell whether two texts are the same but for case, spaces and the punctuation of sentences."""
    return read(one).words == read(other).words


def compare_texts(one: str, other: str, *, similarity: float | None = None) -> Comparison:
    """Tell whether two texts say the same; `similarity` is the cosine of their vectors, None where there are none."""
    first, second = read(one), read(other)
    if first.words == second.words:
        return Comparison(MeaningVerdict.SAME)
    shared, left, right = _match(first, second)
    # Dice's coefficient: words in common, twice, over the words of both.
    overlap = 2 * len(shared) / max(1, len(first.stems) + len(second.stems))
    differences = list(_differences(first, second, shared, left, right))
    sure = [difference for difference in differences if difference.is_sure]
    is_near = overlap >= 0.5 or (similarity is not None and similarity >= NEAR)
    if sure:
        opposite = next((difference for difference in sure if difference.is_opposite), None)
        only_opposite = opposite is not None and overlap >= 0.5 and all(difference.is_opposite for difference in sure)
        return Comparison(
            MeaningVerdict.DIFFERENT, (opposite or sure[0]).reason, is_opposite=only_opposite, is_sure=True
        )
    if not is_near:
        return Comparison(MeaningVerdict.DIFFERENT, "they speak of different things")
    if differences:
        return Comparison(MeaningVerdict.DOUBTFUL, differences[0].reason)
    if overlap >= 0.75 or (similarity is not None and similarity >= 0.8 and overlap >= 0.4):
        return Comparison(MeaningVerdict.SAME)
    return Comparison(MeaningVerdict.DOUBTFUL, "they share few words")


def compare_advice(
    condition: str, advice: str, other_condition: str, other_advice: str, *, similarity: float | None = None
) -> Comparison:
    """Tell whether two pieces of advice say the same, each with the condition under which it holds.

    A condition that is "" or names only a kind of task says nothing more. What one says in its condition, another may
    say in its advice.
    """
    when, other_when = (_without_kind(part) for part in (condition, other_condition))
    advised = compare_texts(advice, other_advice, similarity=similarity)
    if advised.verdict is MeaningVerdict.DIFFERENT and not (when or other_when):
        return advised
    held = (
        compare_texts(when, other_when, similarity=similarity)
        if when and other_when
        else Comparison(MeaningVerdict.SAME)
    )
    if MeaningVerdict.SAME is advised.verdict is held.verdict:
        return advised
    whole = compare_texts(
        f"{when}: {advice}" if when else advice,
        f"{other_when}: {other_advice}" if other_when else other_advice,
        similarity=similarity,
    )
    if whole.verdict is MeaningVerdict.SAME and not (advised.is_sure or held.is_sure):
        return whole
    # Other advice under another condition is no contradiction
    if advised.is_sure and (not advised.is_opposite or held.verdict is MeaningVerdict.SAME):
        return advised
    if advised.is_sure or held.is_sure or whole.is_sure:
        reason = next(part.reason for part in (held, advised, whole) if part.is_sure)
        return Comparison(MeaningVerdict.DIFFERENT, reason, is_sure=True)
    return Comparison(MeaningVerdict.DOUBTFUL, next(part.reason for part in (advised, held, whole) if part.reason))


def _without_kind(condition: str) -> str:
    """Return a condition, "" where it names nothing but the kind of task."""
    condition = condition.strip().rstrip(".:")
    return "" if _KIND.match(condition) else condition


def _match(one: Reading, other: Reading) -> tuple[dict[str, str], set[str], set[str]]:
    """Return which words of one text are which of the other, and those left over on both sides."""
    shared = {word: word for word in one.stems & other.stems}
    left, right = set(one.stems - other.stems), set(other.stems - one.stems)
    # Sorted: which twin a word gets must not depend on the order of a set.
    for word in sorted(left):
        twin = next((candidate for candidate in sorted(right) if _is_form(word, candidate)), None)
        if twin is not None:
            shared[word] = twin
            left.discard(word)
            right.discard(twin)
    return shared, left, right


def _is_form(word: str, other: str) -> bool:
    """Tell whether two words share a beginning so long that one is a form of the other."""
    # Names are the same or not; a shared beginning means nothing.
    if "`" in word or "`" in other:
        return False
    most = max(len(word), len(other))
    same = next(
        (index for index, (a, b) in enumerate(zip(word, other, strict=False)) if a != b), min(len(word), len(other))
    )
    return same >= 5 and same >= 0.8 * most


def _differences(
    one: Reading, other: Reading, shared: dict[str, str], left: set[str], right: set[str]
) -> Iterator[_Difference]:
    if (one.language != other.language and (one.language or other.language) not in ("", "en")) or not (
        one.language or other.language
    ):
        yield _Difference("they are in different languages, or in one that is not read", is_sure=False)
    yield from _compare_names(one, other)
    yield from _compare_numbers(one, other)
    yield from _compare_orders(one, other)
    yield from _cross(one.conditions, other.conditions, "the condition of one is what the other says to do")
    yield from _compare_signs(one, other, shared)
    yield from _compare_small(one, other)
    if {(joint, b, a) for joint, a, b in one.joined if a != b} & other.joined:
        yield _Difference("two words have changed places", is_sure=False)
    yield from _compare_conditions(one, other, shared)
    yield from _compare_rest(one, other, left, right, shared=len(shared))
    is_bound = any(reading.is_conditional or reading.orders for reading in (one, other))
    if one.only and other.only and not one.only & other.only and not is_bound:
        yield _Difference("“only” is about other words", is_sure=False)
    if not is_bound and sorted(one.sequence) == sorted(other.sequence) and one.sequence != other.sequence:
        yield _Difference("names or numbers stand in another order", is_sure=False)
    if any(other.roles.get(shared.get(word, word), role) != role for word, role in one.roles.items()):
        yield _Difference("what something goes to in one, it comes from in the other", is_sure=False)
    if _is_reordered(one, other):
        yield _Difference("the same words stand in another order", is_sure=False)


def _compare_names(one: Reading, other: Reading) -> Iterator[_Difference]:
    only = [_only_named(one, other), _only_named(other, one)]
    if all(only):
        yield _Difference(f"one names “{only[0][0]}”, the other “{only[1][0]}”")
    elif any(only):
        yield _Difference(f"only one names “{(only[0] or only[1])[0]}”", is_sure=False)


def _only_named(one: Reading, other: Reading) -> list[str]:
    other_text = " ".join(other.words)
    return sorted(
        name
        for name, parts in one.names.items()
        if name not in other.names
        and f" {name} " not in f" {other_text} "
        and not (parts and parts <= other.plain and _PLAIN.fullmatch(name))
    )


def _compare_numbers(one: Reading, other: Reading) -> Iterator[_Difference]:
    left, right = one.numbers - other.numbers, other.numbers - one.numbers
    if not left and not right:
        return
    values = [{(value, unit) for _, value, unit in numbers} for numbers in (one.numbers, other.numbers)]
    if values[0] != values[1]:
        # A number that only one text has may be left out by the other; two different ones contradict.
        sure = bool(values[0] - values[1]) and bool(values[1] - values[0])
        yield _Difference("the numbers or their units are others", is_opposite=True, is_sure=sure)
        return
    signs = [{sign for sign, _, _ in numbers} for numbers in (left, right)]
    loose = all("=" in side for side in signs) or any(side == {"="} for side in signs)
    yield _Difference("the limits are others", is_opposite=True, is_sure=not loose)


def _compare_orders(one: Reading, other: Reading) -> Iterator[_Difference]:
    yield from _cross(one.orders, other.orders, "what comes first in one comes last in the other")
    if bool(one.orders) != bool(other.orders) and not (_follows(one, other) or _follows(other, one)):
        yield _Difference("only one says what comes first", is_sure=False)


def _compare_conditions(one: Reading, other: Reading, shared: dict[str, str]) -> Iterator[_Difference]:
    """Find a condition of which the other text has not even the words."""
    if one.is_conditional == other.is_conditional or (one.orders and other.orders):
        return
    conditional, common = (one, set(shared)) if one.is_conditional else (other, set(shared.values()))
    conditions = [words for words, _ in conditional.conditions]
    if not conditions or any(words - common - _LIGHT for words in conditions):
        yield _Difference("only one names a condition", is_sure=False)


def _follows(one: Reading, other: Reading) -> bool:
    """Tell whether a text says in turn, without "then", what another says first and then."""
    places = [
        [
            next((index for index, clause in enumerate(one.clauses) if not words.isdisjoint(clause)), -1)
            for words in pair
        ]
        for pair in other.orders
    ]
    if other.in_turn and places and all(0 <= first < then for first, then in places):
        return True
    # "As soon as it fails, retry" is "retry when it fails"
    return bool(other.orders) and all(
        any(first & condition and then & main for condition, main in one.conditions) for first, then in other.orders
    )


def _cross(pairs: _Pairs, others: _Pairs, reason: str) -> Iterator[_Difference]:
    """Find pairs whose two sides have changed places."""
    for first, then in pairs:
        for other_first, other_then in others:
            straight = len(first & other_first) + len(then & other_then)
            back, forth = len(first & other_then), len(then & other_first)
            if back and forth and back + forth >= straight:
                crossed = back + forth > straight
                yield _Difference(reason, is_opposite=crossed, is_sure=crossed)


def _compare_rest(
    one: Reading, other: Reading, left: set[str], right: set[str], *, shared: int
) -> Iterator[_Difference]:
    """Find what only one says. Words in place of others may be synonyms or not: that is left to people."""
    telling = [{word for word in words if "`" not in word} - _LIGHT for words in (left, right)]
    written = [
        reading.said.get(min(words), min(words)) if words else ""
        for reading, words in zip((one, other), telling, strict=True)
    ]
    if all(telling):
        yield _Difference(f"one speaks of “{written[0]}”, the other of “{written[1]}”", is_sure=False)
        return
    rest = telling[0] | telling[1]
    if rest and (rest - _LIGHTER or shared < 3):
        yield _Difference(f"only one speaks of “{(written[0] or written[1])}”", is_sure=False)


_LIGHT, _LIGHTER = frozenset(map(stem, LIGHT)), frozenset(map(stem, LIGHTER))


def _compare_signs(one: Reading, other: Reading, shared: dict[str, str]) -> Iterator[_Difference]:
    numbers = {number: number for number in one.signs.keys() & other.signs.keys() - one.stems}
    for word, twin in sorted((shared | numbers).items()):
        signs, others = one.signs[word], other.signs[twin]
        # "Search by number, not by name" says and denies a search: only what has no sign in common differs.
        sure = not signs & others and 0 not in signs | others
        if sure or 0 in signs ^ others:
            yield _Difference(
                f"one says what the other denies of “{one.said.get(word, word).strip('`')}”",
                is_opposite=sure,
                is_sure=sure,
            )


def _compare_small(one: Reading, other: Reading) -> Iterator[_Difference]:
    apart = one.small ^ other.small
    for group in {OPPOSITES[index] for word in apart for index in OPPOSED.get(word, ())}:
        own, others = group & one.small, group & other.small
        if own - others and others - own:
            pair = f"one says “{min(own - others)}”, the other “{min(others - own)}”"
            sure = _say_of_the_same(one, own - others, other, others - own)
            yield _Difference(pair, is_opposite=sure, is_sure=sure)
    for word in apart:
        bases = {word.removeprefix(each) for each in _PREFIXES if word.startswith(each)} & (one.small | other.small)
        if any(len(base) > 3 for base in bases):
            is_of_one = word in one.small
            sure = _say_of_the_same(one, {word} if is_of_one else bases, other, bases if is_of_one else {word})
            yield _Difference(f"one says “{word}”, the other the opposite", is_opposite=sure, is_sure=sure)
    joins = [each.small & {"and", "or"} for each in (one, other)]
    if all(joins) and not joins[0] & joins[1]:
        yield _Difference("one says “and”, the other “or”", is_sure=False)
    differ = (one.quantifiers ^ other.quantifiers) - WHOLE
    if any(sign in "≤≥" for sign, _, _ in one.numbers | other.numbers):
        # "May take up to five" and "takes up to five" set the same limit.
        differ -= {"may"}
    if differ:
        yield _Difference(f"only one says “{min(differ)}”", is_sure=False)


def _say_of_the_same(one: Reading, own: Set[str], other: Reading, others: Set[str]) -> bool:
    """Tell whether opposed words stand beside the same words; in long texts, each may speak of something else."""
    if min(len(one.words), len(other.words)) <= LONG_WORDS:
        return True
    beside = [
        {
            near
            for place, word in enumerate(reading.words)
            if word in words
            for near in map(stem, reading.words[max(0, place - 2) : place] + reading.words[place + 1 : place + 3])
            if near in reading.stems
        }
        for reading, words in ((one, own), (other, others))
    ]
    return not beside[0].isdisjoint(beside[1])


def _is_reordered(one: Reading, other: Reading) -> bool:
    """Tell whether words have changed places: "the client calls the server" and the reverse."""
    if _is_regrouped(one, other):
        return True
    passive = [reading.small & {"be", "been", "being", "is", "are", "was", "were"} for reading in (one, other)]
    for clause in one.clauses:
        for twin in other.clauses:
            if len(clause) != len(twin) or sorted(clause) != sorted(twin) or clause == twin:
                continue
            swapped = len(clause) >= 3 and sum(a != b for a, b in zip(clause, twin, strict=True)) == 2
            repeats = len(clause) >= 6 and len(set(clause)) < len(clause)
            if (swapped and bool(passive[0]) == bool(passive[1])) or repeats:
                return True
    return False


def _is_regrouped(one: Reading, other: Reading) -> bool:
    """Tell whether two parts have exchanged words: "true for odd, false for others" and the reverse."""
    places = [
        {word: {index for index, clause in enumerate(reading.clauses) if word in clause} for word in reading.stems}
        for reading in (one, other)
    ]
    moves = {
        (first, second)
        for word in one.stems & other.stems
        for first in places[0][word]
        for second in places[1][word]
        if len(places[0][word]) == len(places[1][word]) == 1
    }
    rows, columns = Counter(first for first, _ in moves), Counter(second for _, second in moves)
    return any(
        rows[first] > 1 and columns[second] > 1 and {(first, other_second), (other_first, second)} <= moves
        for first, second in moves
        for other_first, other_second in moves
        if first != other_first and second != other_second
    )
