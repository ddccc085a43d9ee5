"""Show the parts of a long text that bear on a run: those that share words with it, rather than its two ends."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reflection.prompts import cut_middle

GAP = " […] "
PIECE_CHARACTERS = 160
MOST_CHARACTERS = 30_000  # of a text that is searched; of a longer one only both ends are
FAULT, NAMED_FAULT = 2.0, 8.0  # what the words of a fault or a rule count for, and what the name of an error does
STEM_CHARACTERS = 6  # cancel, cancelled and cancellation share them; other languages are similar
_END = re.compile(r"(?<=[.!?;]) |\n|(?<=[}\]]), ?|(?<=[。！？])")
_FAULT = re.compile(r"error|exception|traceback|fail|invalid|denied|refused|cannot|can't|not found|must|only", re.I)
# The line that says what is wrong: KeyError: 'total', - F821 undefined name 'x', bash: jq: command not found
_NAMED_FAULT = re.compile(
    r"^[^\w\n]{0,9}(?:[\w.]{0,60}(?:Error|Exception|Warning): \S|[A-Z]{1,3}\d{3,4}\b:? )"
    r"|\b(?:command not found|No such file or directory|[Pp]ermission denied|is not defined|undefined name)\b",
    re.MULTILINE,
)
# A sentence that begins so means nothing without the one before it.
_LEANS = re.compile(r"\s*(?:This|That|These|Those|It|They|Otherwise|If (?:so|not)|In (?:this|that) case)\b")
# What stands above rules that belong together: ## Cancel a flight, <refunds>
_HEADING = re.compile(r"^(?:#{1,6} |<(?=\w))[^\n]{1,100}", re.MULTILINE)
OF_HEADING, OF_NEIGHBOUR = 3.0, 0.3  # of their words' weight goes to each rule under a heading, and beside another
_WORD = re.compile(r"[^\W_]{2,}")
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def stems_of(text: str) -> set[str]:
    """Return the stems of a text's words; where a script has no spaces between words, its pairs of characters."""
    stems = set()
    for word in _WORD.findall(text.lower()):
        if not word.isascii() and _UNSPACED.search(word):
            stems |= {word[at : at + 2] for at in range(len(word) - 1)}
        else:
            stems.add(word[:STEM_CHARACTERS])
    return stems


@dataclass(frozen=True, kw_only=True, slots=True)
class Focus:
    """How much each word matters, by its stem, and how often a line stands in the texts to choose from.

    In the choice of members of JSON, the words of the rules that the agent was told matter, too: `members`.
    Texts that were looked through are remembered: prompts are tried in several sizes.
    """

    weights: Mapping[str, float]
    lines: Mapping[str, int] = field(default_factory=dict)
    members: Mapping[str, float] = field(default_factory=dict)
    _ranked: dict[str, tuple[list[str], list[int]]] = field(default_factory=dict)

    def rank(self, text: str) -> tuple[list[str], list[int]]:
        """Return the pieces of a text, and the positions of those that matter, the most telling first."""
        if text not in self._ranked:
            pieces = _split(text if len(text) <= MOST_CHARACTERS else cut_middle(text, MOST_CHARACTERS))
            stems = [stems_of(piece) for piece in pieces]
            scores = self._score(pieces, stems, Counter(stem for of_piece in stems for stem in of_piece))
            telling = [at for at in range(1, len(pieces)) if scores[at] > 0]
            self._ranked[text] = pieces, sorted(telling, key=lambda at: (-scores[at], at))
        return self._ranked[text]

    def weigh(self, text: str) -> float:
        """Return how much the words of a text matter."""
        return sum(self.weights.get(stem, 0.0) for stem in stems_of(text))

    def _score(self, pieces: Sequence[str], stems: Sequence[set[str]], spread: Mapping[str, int]) -> list[float]:
        """Return how much each piece matters; `spread` is in how many of them a stem stands."""
        return [
            (
                math.fsum(self.weights[stem] / spread[stem] for stem in of_piece if stem in self.weights)
                + fault_in(piece)
            )
            / (1 + len(piece) / PIECE_CHARACTERS)
            / self._repeated(piece)
            for piece, of_piece in zip(pieces, stems, strict=True)
        ]

    def _repeated(self, piece: str) -> int:
        """Return in how many texts the rarest line of a piece stands: what each answer of a tool says tells little."""
        return min((self.lines.get(line.strip(), 1) for line in piece.splitlines() if line.strip()), default=1)


class RulesFocus(Focus):
    """What matters in rules: those about what was often said and done, under a heading about it, and their neighbours.

    The weight of a word is the number of steps with it. A rule alone shares few words with a run that broke it.
    """

    __slots__ = ()

    def _score(self, pieces: Sequence[str], stems: Sequence[set[str]], spread: Mapping[str, int]) -> list[float]:
        weights = {stem: self.weights.get(stem, 0.0) * math.log(len(pieces) / spread[stem]) for stem in spread}
        own = [
            math.fsum(weights[stem] for stem in of_piece) / (1 + len(piece) / PIECE_CHARACTERS)
            for piece, of_piece in zip(pieces, stems, strict=True)
        ]
        scores, heading = [], 0.0
        for piece, before, score, after in zip(pieces, [0.0, *own], own, [*own[1:], 0.0], strict=False):
            for line in _HEADING.findall(piece):
                heading = math.fsum(weights[stem] for stem in stems_of(line))
            scores.append(score + OF_NEIGHBOUR * (before + after) + OF_HEADING * heading)
        return scores


def excerpt(text: str, limit: int, focus: Focus) -> str:
    """Return a text of about `limit` characters at most: its first piece, and those whose words matter most.

    What is left out between two pieces is marked. Without a word that matters, the middle is cut.
    """
    if len(text) <= limit + len(GAP):
        return text
    pieces, telling = focus.rank(text)
    if len(pieces) < 3 or not telling:
        # A mark that is longer than what it stands for says less.
        return text if len(text) <= limit + 40 else cut_middle(text, limit)
    kept, room = {0}, limit - min(len(pieces[0]), limit // 3)
    for at in telling:
        cost = len(pieces[at]) + len(GAP)
        if cost <= room:
            kept.add(at)
            room -= cost
    return _join(pieces, kept, first=limit // 3)


def fault_in(piece: str) -> float:
    if _NAMED_FAULT.search(piece):
        return NAMED_FAULT
    return FAULT if _FAULT.search(piece) else 0.0


def _split(text: str) -> list[str]:
    """Return the sentences, lines or members of a text, the long ones in parts."""
    pieces: list[str] = []
    start = 0
    for end in [*(match.end() for match in _END.finditer(text)), len(text)]:
        # Short lines go together: one by one, the marks between them would be longer than they are.
        if end - start < PIECE_CHARACTERS // 4 and end < len(text) and not _NAMED_FAULT.search(text, start, end):
            continue
        if pieces and len(pieces[-1]) + end - start <= 2 * PIECE_CHARACTERS and _LEANS.match(text, start, end):
            pieces[-1] += text[start:end]
            start = end
            continue
        while end - start > 2 * PIECE_CHARACTERS:
            comma = text.rfind(", ", start + PIECE_CHARACTERS // 2, start + 2 * PIECE_CHARACTERS)
            cut = comma + 2 if comma > 0 else start + PIECE_CHARACTERS
            pieces.append(text[start:cut])
            start = cut
        pieces.append(text[start:end])
        start = end
    return pieces


def _join(pieces: list[str], kept: set[int], *, first: int) -> str:
    is_whole = len(pieces[0]) <= first + len(GAP)
    written = pieces[0] if is_whole else pieces[0][:first]
    before = 0 if is_whole else -1
    for at in sorted(kept - {0}):
        written += pieces[at] if at == before + 1 else GAP + pieces[at]
        before = at
    return written.strip() + ("" if before == len(pieces) - 1 else GAP.rstrip())
