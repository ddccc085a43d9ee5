"""What occurs in a run: its tools, parameters and people, and which words of a lesson are values of that one task."""

import json
import re
from collections.abc import Iterator

from memory.runs.episode import Episode
from reflection.reflectors.rules.wording import PROGRAMS_WITH_DIGITS
from reflection.reflectors.standards import without_standards

_REDACTED = re.compile(r"\[REDACTED:[a-z0-9_]+:[0-9a-f]{8}\]")
_DATE = re.compile(
    r"\b\d{4}-\d{2}-\d{2}\b|\b\d{1,2}/\d{1,2}/\d{2,4}\b"
    r"|\b(?:0?[1-9]|[12]\d|3[01])\.(?:0?[1-9]|1[0-2])\.\d{4}\b|\b(?:0[1-9]|[12]\d|3[01])\.(?:0[1-9]|1[0-2])\.\d{2}\b"
    r"|\b(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\.? \d{1,2}(?:st|nd|rd|th)?\b"
    r"|\b\d{1,2}(?:st|nd|rd|th)? (?:january|february|march|april|may|june|july|august|september|october|november"
    r"|december)\b",
    re.I,
)
_UUID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.I)
_IDENTIFIER = re.compile(r"\b(?=[\w-]{0,127}\d)(?=[\w-]{0,127}[A-Za-z])[A-Za-z0-9][\w-]{4,127}\b|\b\d{5,}\b")
_QUOTED = re.compile(r"\"[^\"\n]{1,80}\"|`[^`\n]{1,80}`|“[^”\n]{1,80}”")
_MARKS = re.compile(r"[\"'`“”]")
_FULL_NAME = re.compile(r"\b[A-Z][a-z]+ [A-Z][a-z]+\b")
_NAME_PARAMETER = re.compile(r"(?:first|last|full|user|passenger|customer)?_?name$", re.I)
_SENTENCE_STARTS = frozenset({"when", "if", "before", "after", "always", "never", "use", "call", "do", "the", "a"})


class RunWords:
    """Names of tools and parameters of a run and its family, names of people, and all text of the run."""

    def __init__(self, episode: Episode) -> None:
        on_offer = (name.lower() for name in episode.tools)
        self.names: set[str] = {*PROGRAMS_WITH_DIGITS, *on_offer, *(name.lower() for name in episode.family_names)}
        self.people: set[str] = set()
        # Only what tools answered, since that may come from anyone.
        self.answered = plain("\n".join(f"{step.observation}\n{step.error}" for step in episode.steps if step.action))
        called: list[str] = []
        given = [episode.task, episode.summary, *episode.mistakes, *episode.successes]
        given += [json.dumps(card, ensure_ascii=False) for card in episode.mistake_cards]
        given += [text for turn in episode.earlier for text in (turn.task, turn.answer)]
        given += [text for step in episode.steps for text in (step.observation, step.error)]
        for step in episode.steps:
            if step.action:
                self.names.add(step.action.name.lower())
                arguments = json.dumps(step.action.arguments, ensure_ascii=False)
                called += [step.action.name, arguments.replace("\\n", "\n")]
                self._read_arguments(step.action.arguments)
        self.called = "\n".join(called).lower()
        self.text = "\n".join([*given, *(step.thought for step in episode.steps), *called])
        self.lower = self.text.lower()
        self.given = "\n".join(given).lower()  # to the agent

    def _read_arguments(self, arguments: dict[str, object]) -> None:
        # A stack instead of recursion: arguments of models can be nested deeply.
        stack: list[tuple[str, object]] = [("", arguments)]
        while stack:
            name, value = stack.pop()
            if isinstance(value, dict):
                self.names |= {str(key).lower() for key in value}
                stack += [(str(key), item) for key, item in value.items()]
            elif isinstance(value, list):
                stack += [(name, item) for item in value]
            elif isinstance(value, str) and _NAME_PARAMETER.match(name) and 3 <= len(value) <= 60:
                self.people.add(value)

    def has_name(self, name: str) -> bool:
        """Say whether a tool, parameter or command is used in the run or its family, or at least named in the run."""
        bare = name.strip().strip("`()[]").lower()
        # Two letters occur in any text by chance.
        return bare in self.names or (len(bare) > 2 and has_word(self.lower, bare))

    def find_ids(self, text: str) -> Iterator[str]:
        """Find ids and numbers of this task, and what was redacted.

        They come from the task or from an answer: what the agent alone wrote is a value that its tools take. Standards
        and codes do not count.
        """
        yield from _REDACTED.findall(text)
        rest = without_standards(text)
        candidates = dict.fromkeys(match[0] for pattern in (_UUID, _IDENTIFIER) for match in pattern.finditer(rest))
        for candidate in candidates:
            is_value = candidate.lower() not in self.names and not _DATE.search(candidate)
            if is_value and has_word(self.given, candidate.lower()):
                yield candidate

    def find_people(self, text: str) -> Iterator[str]:
        """Find names of people or things that stand in the run."""
        # What is quoted is a label or a tool, such as "Buy Now"
        for name in dict.fromkeys(_FULL_NAME.findall(without_standards(_QUOTED.sub(" ", text)))):
            # "When Booking" at the start of a sentence is no person.
            is_name = name.split()[0].lower() not in _SENTENCE_STARTS and name in self.text
            # A page shows its buttons in brackets.
            if is_name and f"[{name}]" not in self.text:
                yield name
        yield from (name for name in sorted(self.people) if has_word(text, name))


def find_dates(text: str) -> list[str]:
    return [match[0] for match in _DATE.finditer(without_standards(text))]


def plain(text: str) -> str:
    """Return a text without case, quotation marks and line breaks."""
    return " ".join(_MARKS.sub("", text).lower().split())


def has_word(text: str, word: str) -> bool:
    """Say whether a text contains a word with no letter, digit or underscore on either side."""
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            return True
        start = text.find(word, start + 1)
    return False
