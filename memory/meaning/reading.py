"""Read a short text into what decides its meaning: names, numbers, what it denies, what comes first, what limits it.

This is no grammar. A sentence is cut into clauses at commas and at the small words that begin one; a word is denied
where its clause is. Where the cut cannot tell, a word's sign is unclear (0), which is like no other.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from memory.meaning.vocabulary import COUNTERS, LINKS, NEGATIONS, ORDERS, QUANTIFIERS, STOP, UNITS
from memory.meaning.words import COMPARISONS, find_unit, guess_language, say_in_few_words, stem

MAX_CHARACTERS = 2000
_FLIPPED = {">": "≤", "<": "≥", "≥": "<", "≤": ">"}
_TOKEN = re.compile(
    r"`(?P<code>[^`\n]{1,200})`|\"(?P<quote>[^\"\n]{1,200})\"|“(?P<curly>[^”\n]{1,200})”|«(?P<guillemet>[^»\n]{1,200})»"
    r"|(?P<address>[\w.+-]{1,64}@[\w.-]{1,64}\w)"
    r"|(?P<flag>(?<!\w)--?[a-zA-Z][\w-]*)"
    r"|(?P<number>(?<![\w.])[-−]?\d[\d,]*(?:\.\d+)*)(?P<unit>\s?%|[a-zA-Z€$£]{1,5}\b)?"
    r"|(?P<operator>[<>=!]=|<>|[<>=≥≤])"
    r"|(?P<path>\w[\w-]*(?:[./]\w[\w-]*)+/?|/\w[\w./-]*)"
    r"|(?P<word>\w[\w'’]*(?:-\w+)*(?:\+\+|\#)?)"
    r"|(?P<money>[€$£])"
    r"|(?P<break>[.!?;\n,:()–—])|(?P<mark>[^\s\w])"
)
_WORDS = re.compile(r"[^\W\d_]{2,}/[^\W\d_]{2,}")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PART = re.compile(r"[^\W_]+")
_IDENTIFIER = re.compile(r"\w*_\w*|\w*[a-z][A-Z]\w*|[A-Za-z]+\d\w*|[A-Z][A-Z0-9]+")
_NAMED = frozenset(["code", "quote", "curly", "guillemet", "address", "flag"])
_NEXT_WORD = re.compile(r"\s+(\w+)")
_AFTER_A_LETTER = frozenset(["to", "from", "by", "with", "over", "and", "or", "is", "than", "before", "after"])
_CONTRACTED = {"won't": "will not", "can't": "can not", "cannot": "can not", "shan't": "shall not", "wont": "will not"}
_CONTRACTED |= {
    f"{verb}nt": f"{verb} not"
    for verb in ["do", "does", "did", "should", "would", "could", "must", "is", "are", "was", "were", "has", "have"]
}
_CONTRACTED |= {"cant": "can not", "i'll": "will", "i'd": "would", "let's": "", "it's": "is", "that's": "is"}


@dataclass(slots=True)
class _Clause:
    """A part of a sentence: the small word that begins it, its words in order, and how often it is denied."""

    link: str = ""
    stems: list[str] = field(default_factory=list)
    numbers: list[tuple[str, float, str]] = field(default_factory=list)
    denied: int = 0
    first: bool = False
    unclear: bool = False
    is_aside: bool = False  # "…, not by post"
    begins_denied: bool = False

    @property
    def sign(self) -> int:
        return 0 if self.unclear else -1 if self.denied % 2 else 1


@dataclass(frozen=True, slots=True)
class Reading:
    """What decides the meaning of a text.

    Attributes:
        words: all words and signs, without case and punctuation.
        names: what is named, with the words in each name.
        numbers: a comparison, a value (NaN where only words are compared) and a unit.
        small: the words that limit, and all others as they stand.
        stems: the words that say something, without endings and one for all synonyms; `plain` those of them that stand
            outside of names, and `said` each as it was written.
        signs: whether each of them, and each number, is said (1), denied (-1) or unclear (0).
        orders: pairs of what comes first and what comes then; `in_turn` where only "then" and "first" say so.
        only: the words that "only" stands before.
        sequence: names and numbers in the order in which they are first said.
        roles: whether something goes to a word, comes from it, or happens by it.
        conditions: pairs of a condition and what holds under it.
        joined: a small word such as "from" or "over" with a word before and a word after it.
        clauses: the words of each part in order.
    """

    words: tuple[str, ...]
    language: str
    names: dict[str, frozenset[str]]
    numbers: frozenset[tuple[str, float, str]]
    quantifiers: frozenset[str]
    small: frozenset[str]
    stems: frozenset[str]
    plain: frozenset[str]
    said: dict[str, str]
    signs: dict[str, frozenset[int]]
    orders: tuple[tuple[frozenset[str], frozenset[str]], ...]
    in_turn: bool
    only: frozenset[str]
    sequence: tuple[str, ...]
    roles: dict[str, str]
    conditions: tuple[tuple[frozenset[str], frozenset[str]], ...]
    joined: frozenset[tuple[str, str, str]]
    is_conditional: bool
    clauses: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=4096)
def read(text: str) -> Reading:
    """Read a text, at most its first 2,000 characters."""
    shown = "".join(character for character in text[:MAX_CHARACTERS] if unicodedata.category(character) != "Cf")
    return _MeaningReader(unicodedata.normalize("NFKC", shown).replace("’", "'")).read()


def _is_variable(text: str, match: re.Match[str]) -> bool:
    """Tell whether a word is a single letter that names something, other than "I" and the article."""
    letter = match[0]
    if len(letter) != 1 or letter == "I":
        return False
    follows = _NEXT_WORD.match(text, match.end())
    return letter.lower() != "a" or follows is None or follows[1].lower() in _AFTER_A_LETTER


class _MeaningReader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.names: dict[str, frozenset[str]] = {}
        self.quantifiers: set[str] = set()
        self.small: set[str] = set()
        self.orders: list[tuple[frozenset[str], frozenset[str]]] = []
        self.conditions: list[tuple[frozenset[str], frozenset[str]]] = []
        self.joined: set[tuple[str, str, str]] = set()
        self.is_conditional = False
        self.words: list[str] = []
        self._joint: list[str] = []
        self._joint_word = ""
        self._is_of = False
        self.only: set[str] = set()
        self.said: dict[str, str] = {}
        self.plain: set[str] = set()
        self.sequence: list[str] = []
        self.roles: dict[str, str] = {}
        self.in_turn = True

    def read(self) -> Reading:
        tokens = list(self._tokens())
        self.language = language = guess_language([text for kind, text in tokens if kind == "word"])
        sentences = self._sentences(say_in_few_words(tokens, language))
        clauses = [clause for sentence in sentences for clause in self._settle(sentence)]
        signs: dict[str, set[int]] = {}
        numbers: dict[str, set[int]] = {}
        for clause in clauses:
            for term in clause.stems:
                signs.setdefault(term, set()).add(clause.sign)
            for _, value, unit in clause.numbers:
                numbers.setdefault(f"{value:g} {unit}".strip(), set()).add(clause.sign)
        return Reading(
            words=tuple(self.words),
            language=language,
            names=self.names,
            numbers=frozenset(number for clause in clauses for number in clause.numbers),
            quantifiers=frozenset(self.quantifiers),
            small=frozenset(self.small),
            stems=frozenset(signs),
            plain=frozenset(self.plain),
            said=self.said,
            signs={term: frozenset(term_signs) for term, term_signs in (signs | numbers).items()},
            orders=tuple(self.orders),
            in_turn=self.in_turn,
            only=frozenset(self.only),
            sequence=tuple(dict.fromkeys(self.sequence)),
            roles=self.roles,
            conditions=tuple(self.conditions),
            joined=frozenset(self.joined),
            is_conditional=self.is_conditional,
            clauses=tuple(tuple(clause.stems) for clause in clauses if clause.stems),
        )

    def _tokens(self) -> Iterator[tuple[str, str]]:
        """Give the kind and the text of each part: word, name, number, operator or break."""
        starts = True
        for match in _TOKEN.finditer(self.text):
            kind, text = match.lastgroup or "", match[0]
            if kind == "unit":
                kind = "number"
            if kind in _NAMED:
                yield "name", self._name(match[kind])
            elif kind == "path" and (not _WORDS.fullmatch(text) or text.count("/") > 1):
                yield "name", self._name(text)
            elif kind == "path":
                yield from (("word", part.lower()) for part in _PART.findall(text))
            elif kind == "number":
                yield from self._number(match["number"], (match["unit"] or "").strip().lower())
            elif kind == "word" and (_is_variable(self.text, match) or "_" in text or _CAMEL.search(text)):
                yield "name", self._name(text)
            elif kind == "word":
                yield from self._word(text, starts=starts)
            elif kind == "break":
                yield "break", text
                starts = text in ".!?;\n:("
                continue
            elif kind != "mark":
                yield kind, text
            if kind != "break":
                self.words += self._last_name.split() if kind in _NAMED else [text.casefold()]
            starts = False

    def _name(self, name: str) -> str:
        key = self._last_name = " ".join(name.split()).casefold()
        self.names[key] = frozenset(
            stem(part.lower()) for part in _PART.findall(_CAMEL.sub(" ", name.replace("_", " ")))
        )
        return key

    def _number(self, digits: str, unit: str) -> Iterator[tuple[str, str]]:
        if unit in ("st", "nd", "rd", "th"):
            yield "word", {"1": "first", "2": "second", "3": "third"}.get(digits, digits + unit)
        elif (unit and unit not in UNITS) or digits.count(".") > 1:
            yield "name", self._name(digits + unit)
        else:
            yield "number", digits.replace(",", "").replace("−", "-").rstrip(".")
            if unit:
                yield "word", unit

    def _word(self, text: str, *, starts: bool) -> Iterator[tuple[str, str]]:
        lower = text.lower()
        if lower in _CONTRACTED or lower.endswith("n't"):
            spelled = _CONTRACTED.get(lower) or f"{lower[:-3]} not"
            yield from (("word", word) for word in spelled.split())
            return
        for part in lower.removesuffix("'s").replace("'", " ").replace("-", " ").split():
            yield "word", part
        plain = stem(lower)
        is_named = _IDENTIFIER.fullmatch(text) is not None or (text[:1].isupper() and not starts)
        if is_named and not {plain, lower} & STOP and len(text) > 1 and not find_unit(lower):
            self.names[plain] = frozenset((plain,))

    def _sentences(self, tokens: Sequence[tuple[str, str]]) -> list[list[_Clause]]:
        sentences, clauses, clause = [], [_Clause()], _Clause()
        clauses = [clause]
        comparison = ""
        for index, (kind, text) in enumerate(tokens):
            after = tokens[index + 1] if index + 1 < len(tokens) else ("break", ".")
            before = tokens[index - 1] if index else ("break", ".")
            if kind == "break" and text in ".!?;\n":
                sentences.append(clauses)
                clause = _Clause()
                clauses = [clause]
                comparison = ""
            elif kind == "break":
                # What stands in brackets after a denial may be denied or not
                unclear = text == "(" and clause.denied % 2 == 1
                clause = _Clause(link=clause.link if not clause.stems else "", unclear=unclear)
                self._joint = []
                clauses.append(clause)
            elif kind == "operator":
                self._is_of = False
                comparison = COMPARISONS.get(text, text)
                if before[0] == "number" and clause.numbers and clause.numbers[-1][0] == "=":
                    clause.numbers[-1] = (comparison, *clause.numbers[-1][1:])
                    comparison = ""
                elif after[0] not in ("number", "money") and after[1] not in ("a", "an", "one", "only"):
                    clause.numbers.append((comparison, 0.0, "words"))
                    self._joint, self._joint_word = clause.stems[-2:], "than"
                    comparison = ""
            elif kind == "number":
                if before[1] == "only" and not comparison:
                    comparison = "≤"
                    self.quantifiers.discard("only")
                unit = next((word for word in (after[1], before[1]) if find_unit(word)), "")
                name, factor = find_unit(unit) or ("", 1.0)
                if text == "1" and not name and not comparison:
                    comparison = "≤"  # one is at most one
                clause.numbers.append((comparison or "=", round(float(text) * factor, 6), name))
                self._place(text, index, tokens)
                comparison = ""
                self._is_of = False
            elif kind == "name":
                self._is_of = False
                self.joined |= {(self._joint_word, word, f"`{text}`") for word in self._joint}
                clause.stems += [*sorted(self.names[text]), f"`{text}`"]
                self._place(f"`{text}`", index, tokens)
            elif kind == "word":
                clause = self._add_word(text, clauses, clause, before=before, after=after)
        return [*sentences, clauses]

    def _place(self, said: str, place: int, tokens: Sequence[tuple[str, str]]) -> None:
        """Note where in the text a name or a number stands, and whether it is what something goes to or comes from."""
        self.sequence.append(said)
        before = [text for _, text in tokens[max(0, place - 2) : place] if text not in ("the", "a", "an")]
        if before and before[-1] in _ROLES:
            self.roles[said] = _ROLES[before[-1]]

    def _add_word(
        self,
        word: str,
        clauses: list[_Clause],
        clause: _Clause,
        *,
        before: tuple[str, str],
        after: tuple[str, str],
    ) -> _Clause:
        plain = stem(word)
        self.small.add(word)
        self.small.add(plain)
        if before[0] == "number" and find_unit(word):
            return clause
        if word == "to" and clause.link == "instead" and clause.stems and after[0] == "word":
            clause = _Clause()  # "instead of a name to search": what it is for is not denied
            clauses.append(clause)
        elif word in _JOINTS and clause.stems:
            self._joint, self._joint_word = clause.stems[-2:], _JOINTS[word]
        if word in ("before", "after") and (find_unit(before[1]) or before[0] == "number"):
            if word == "before":
                self.quantifiers.add("before")  # "24 hours before" is a time; "within 24 hours after" is within them
        elif word in LINKS or word in ("and", "evenif", "nor"):
            if word == "evenif":
                self.quantifiers.add(word)
            if word == "once" and (
                after[0] == "break" or after[1] in ("a", "an", "each", "every", "per", "more", "again")
            ):
                if after[0] == "break":
                    clause.numbers.append(("=", 1.0, ""))
                return clause
            if word == "nor" and clause.denied:
                return clause
            if word in ("if", "when", "unless", "while", "evenif"):
                self.is_conditional = True
            if word == "except":
                self.quantifiers.add(word)
            clause = _Clause(link=word, denied=int(word == "nor"))
            clauses.append(clause)
        elif word == "first" and (after[0] == "break" or after[1] in LINKS | {"and"} or not clause.stems):
            clause.first = True
        elif word in NEGATIONS or plain in NEGATIONS:
            clause.denied += 1
            clause.begins_denied = clause.begins_denied or not clause.stems
            clause.is_aside = clause.is_aside or (not clause.stems and not clause.link and before[1] == ",")
        elif plain in COUNTERS or word in COUNTERS:
            clause.denied += 1
            clause.stems.append(stem(COUNTERS.get(word) or COUNTERS[plain]))
        elif word == "only" and after[0] == "break" and clause.numbers:
            pass  # "one certificate only" is one
        elif word == "even" and "odd" in self.text.lower():
            clause.stems.append(word)
        elif word in QUANTIFIERS or plain in QUANTIFIERS:
            self.quantifiers.add(word if word in QUANTIFIERS else plain)
        elif word not in STOP and plain not in STOP:
            if before[1] in _ROLES:
                self.roles[plain] = _ROLES[before[1]]
            self.plain.add(plain)
            self.said.setdefault(plain, word)
            # "The class of the fare" is the fare class.
            clause.stems.insert(len(clause.stems) - int(self._is_of and bool(clause.stems)), plain)
            if before[1] == "only":
                self.only.add(plain)
            self.joined |= {
                (self._joint_word, neighbour, plain) for neighbour in self._joint
            }  # "the tool's answer over the page"
        self._is_of = word == "of" or (self._is_of and word in STOP)
        return clause

    def _settle(self, clauses: list[_Clause]) -> list[_Clause]:
        """Work out what the small words between the clauses of a sentence mean for their signs and their order."""
        for index, clause in enumerate(clauses):
            if clause.denied % 2 and not clause.stems:  # "Never, under any circumstances, …"
                for other in clauses[index + 1 :]:
                    other.denied += 1
                if not any(other.stems for other in clauses[index + 1 :]):
                    self.quantifiers.add("no")  # "Refund it? Never." denies what another sentence says
        if self.language != "en":  # "no … nunca", "ne … pas": two say no once
            for clause in clauses:
                clause.denied = min(clause.denied, 1)
        clauses = [clause for clause in clauses if clause.stems or clause.numbers]
        for index, clause in enumerate(clauses):
            leads = index == 0
            if clause.link == "because":
                clause.stems, clause.numbers = [], []  # the reason is no part of the advice
            elif clause.link == "and":
                _carry(clauses[index - 1] if index else None, clause)
            elif clause.link == "instead":
                clause.denied += 1
            elif clause.link in ORDERS or clause.link in ("unless", "if", "when", "while", "evenif"):
                if leads:
                    # What "and" joins to a condition is a part of it.
                    main = next((other for other in clauses[1:] if other.link in ("", "then")), None)
                else:
                    asides = [other for other in clauses[:index] if not other.is_aside and other.link != "instead"]
                    main = asides[-1] if asides else clauses[index - 1]
                self._relate(clause, main)
            elif clause.first and index + 1 < len(clauses) and clauses[index + 1].link in ("", "and"):
                self._order(clause, clauses[index + 1])
        for clause in clauses:  # "not more than five" is at most five
            if clause.denied % 2 and any(sign in _FLIPPED for sign, _, _ in clause.numbers):
                clause.numbers = [(_FLIPPED.get(sign, sign), value, unit) for sign, value, unit in clause.numbers]
                clause.denied -= 1
        return clauses

    def _relate(self, clause: _Clause, main: _Clause | None) -> None:
        link = clause.link
        if link in ("if", "when", "while", "evenif"):
            if main is not None:
                self.conditions.append((frozenset(clause.stems), frozenset(main.stems)))
        elif link == "without":
            if main is None or not main.denied % 2:
                clause.denied += 1
                return
            main.denied -= 1
            self._order(clause, main)
        elif link == "unless":
            if main is not None and main.denied % 2:
                main.denied -= 1
                self.quantifiers.add("only")
            else:
                clause.denied += 1
        elif main is None:
            self.quantifiers.add(link)
        elif link in ("before", "until") and main.denied % 2:
            main.denied -= 1
            self._order(clause, main)
        elif link == "before":
            self._order(main, clause)
        elif link == "until":
            self.quantifiers.add(link)
        elif link == "then":
            self._order(main, clause)
        else:
            self.quantifiers.discard("only")
            self._order(clause, main)

    def _order(self, first: _Clause, then: _Clause) -> None:
        self.in_turn = self.in_turn and (first.first or "then" in (first.link, then.link))
        self.orders.append((frozenset(first.stems), frozenset(then.stems)))


_JOINTS = {word: word for word in ("with", "by", "over", "than", "as", "against")}
_ROLES = {"to": "to", "into": "to", "onto": "to", "from": "from", "by": "by"}
_JOINTS |= dict.fromkeys(("from", "to", "into", "onto"), "to")


def _carry(one: _Clause | None, other: _Clause) -> None:
    """Mark as unclear what "and" joins to something denied: "do not ask and refund" may or may not mean both.

    "Ask and do not refund" is clear.
    """
    if one is None or one.denied % 2 == other.denied % 2 or (other.denied % 2 and other.begins_denied):
        return
    (other if one.denied % 2 else one).unclear = True
