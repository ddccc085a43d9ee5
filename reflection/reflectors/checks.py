"""Deterministic checks of a proposed lesson against its run, before anything is stored (reference: ERL c.3 point 6).

A finding either rejects the lesson or flags it for the reviewer. The checks do not judge whether it is wise.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from memory.meaning.comparison import MeaningVerdict
from memory.redaction import redact
from memory.redaction.visible_text import is_hidden
from memory.runs.episode import Episode
from reflection.reflectors.base import ProposedLesson
from reflection.reflectors.repetition import ALREADY_SERVED, find_given
from reflection.reflectors.rules.wording import PROGRAMS_WITH_DIGITS

MAX_TRIGGER_CHARACTERS = 300
MAX_GUIDELINE_CHARACTERS = 600
MAX_OTHER_CHARACTERS = 4000
MIN_KNOWN_TOOLS = 0.5
MIN_QUOTED_WORDS = 3  # shorter quotations are labels and values
PERSONAL = frozenset({"email", "phone", "iban", "card", "national_id"})

_TOOL_LIKE = re.compile(
    r"`(?P<quoted>[^`\n]{1,60})`"
    r"|(?P<call>[A-Za-z_][\w.\-]{0,127})(?=\(|\[)"
    r"|\b(?P<snake>[a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b"
    r"|\b(?P<camel>[a-z]+(?:[A-Z][a-z0-9]+)+)\b"
)
_WORD = re.compile(r"[^\W_]+(?:['’_-][^\W_]+)*")
_URL = re.compile(r"https?://|\bwww\.|\b[\w-]{1,63}\.(?:com|net|org|io|dev|app|ru|cn)\b/", re.I)
_CODE_FENCE = re.compile(r"```|~~~|<script\b", re.I)
_INSTRUCTION = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,30}\b(?:previous|prior|above|earlier|all|other|instructions?|rules?)\b"
    r"|\bsystem prompt\b|\byou are now\b|\bdeveloper mode\b|\bjailbreak"
    r"|\bdo not (?:tell|inform|mention|reveal|ask)\b.{0,30}\b(?:user|human|reviewer|anyone|people)\b"
    r"|\bwithout (?:asking|telling|confirm\w*|approval|permission)\b"
    r"|\b(?:exfiltrate|curl|wget|base64|rm -rf)\b"
    r"|<\||\[/?INST\]|</?(?:system|assistant|user|data|tool)>|^[ \t]*(?:#+[ \t]*)?(?:system|assistant|human|user)\s*:",
    re.I | re.M,
)
_REDACTED = re.compile(r"\[REDACTED:[a-z0-9_]+:[0-9a-f]{8}\]")
_DATE = re.compile(
    r"\b\d{4}-\d{2}-\d{2}\b|\b\d{1,2}[./]\d{1,2}[./]\d{2,4}\b"
    r"|\b(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)[a-z]*\.? \d{1,2}(?:st|nd|rd|th)?\b"
    r"|\b\d{1,2}(?:st|nd|rd|th)? (?:january|february|march|april|may|june|july|august|september|october|november"
    r"|december)\b",
    re.I,
)
_UUID = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.I)
_IDENTIFIER = re.compile(r"\b(?=[\w-]{0,127}\d)(?=[\w-]{0,127}[A-Za-z])[A-Za-z0-9][\w-]{4,127}\b|\b\d{5,}\b")
_QUOTED = re.compile(r"\"[^\"\n]{1,80}\"|`[^`\n]{1,80}`|“[^”\n]{1,80}”")
_MARKS = re.compile(r"[\"'`“”]")
_SAID = re.compile(r"\"([^\"\n]+)\"|“([^“”\n]+)”")
_FOLLOWS = re.compile(
    r"\b(?:answers?|errors?|messages?|conditions?|schema|rules?)\b (?:it )?(?:says?|asks?|names?|lists?|gives?)\b", re.I
)
_FULL_NAME = re.compile(r"\b[A-Z][a-z]+ [A-Z][a-z]+\b")
_NAME_PARAMETER = re.compile(r"(?:first|last|full|user|passenger|customer)?_?name$", re.I)

_SENTENCE_STARTS = frozenset({"when", "if", "before", "after", "always", "never", "use", "call", "do", "the", "a"})


class Severity(StrEnum):
    """What follows from a finding: the lesson is dropped, or the reviewer is told."""

    REJECT = "reject"
    FLAG = "flag"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing a check found in a lesson. `message` is a sentence for a reviewer, and for the model's second try."""

    code: str
    message: str
    severity: Severity


def verify(lesson: ProposedLesson, episode: Episode) -> tuple[Finding, ...]:
    """Return what is wrong with a lesson, rejections first; empty where nothing is."""
    run = _RunWords(episode)
    findings = [
        *_check_lengths(lesson),
        *_check_evidence(lesson, episode),
        *_check_tools(lesson, run),
        *_check_repetition(lesson, episode),
        *_check_secrets(lesson),
        *_check_text(lesson),
        *_check_quotes(lesson, run),
        *_check_literals(lesson, run),
    ]
    return tuple(sorted(findings, key=lambda finding: finding.severity != Severity.REJECT))


def is_rejected(findings: Iterable[Finding]) -> bool:
    """Say whether any finding drops the lesson."""
    return any(finding.severity == Severity.REJECT for finding in findings)


class _RunWords:
    """What occurs in a run: names of tools and parameters, and all its text in lower case."""

    def __init__(self, episode: Episode) -> None:
        self.knows_tools = bool(episode.tools)
        self.names: set[str] = {*PROGRAMS_WITH_DIGITS, *(name.lower() for name in episode.tools)}
        self.people: set[str] = set()
        # Only what tools answered, since that may come from anyone.
        self.said = _plain("\n".join(f"{step.observation}\n{step.error}" for step in episode.steps if step.action))
        parts = [episode.task, episode.summary, *episode.mistakes, *episode.successes]
        parts += [json.dumps(card, ensure_ascii=False) for card in episode.mistake_cards]
        for step in episode.steps:
            parts += [step.thought, step.observation, step.error]
            if step.action:
                self.names.add(step.action.name.lower())
                parts += [step.action.name, json.dumps(step.action.arguments, ensure_ascii=False)]
                self._read_arguments(step.action.arguments)
        self.text = "\n".join(parts)
        self.lower = self.text.lower()

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
        """Say whether a tool, parameter or command is used in the run, or at least named in it."""
        plain = name.strip().strip("`()[]").lower()
        # Two letters occur in any text by chance.
        return plain in self.names or (len(plain) > 2 and _has_word(self.lower, plain))


def _check_lengths(lesson: ProposedLesson) -> Iterator[Finding]:
    text = lesson.text
    if not text.trigger.strip() or not text.guideline.strip():
        yield _reject("blank", "The lesson has no trigger or no action.")
    if len(text.trigger) >= MAX_TRIGGER_CHARACTERS:
        yield _reject(
            "trigger_too_long",
            f"The trigger has {len(text.trigger)} characters; it must have fewer than {MAX_TRIGGER_CHARACTERS}.",
        )
    if len(text.guideline) >= MAX_GUIDELINE_CHARACTERS:
        yield _reject(
            "guideline_too_long",
            f"The action has {len(text.guideline)} characters; it must have fewer than {MAX_GUIDELINE_CHARACTERS}.",
        )
    for name, value in (("avoid", text.avoid), ("not_when", text.not_when)):
        if len(value) >= MAX_GUIDELINE_CHARACTERS:
            yield _reject(f"{name}_too_long", f"{name} must have fewer than {MAX_GUIDELINE_CHARACTERS} characters.")
    if len(text.rationale) > MAX_OTHER_CHARACTERS:
        yield _reject("rationale_too_long", f"The analysis must have at most {MAX_OTHER_CHARACTERS} characters.")


def _check_evidence(lesson: ProposedLesson, episode: Episode) -> Iterator[Finding]:
    if not lesson.citations:
        yield _reject("no_evidence", "The lesson cites no step; cite the steps that prove it.")
    indexes = {step.index for step in episode.steps}
    for citation in lesson.citations:
        first, last = citation.first_step, citation.last_step
        if first is None and last is None:
            # The quotation names no steps, so it may stand anywhere in the run.
            continue
        if first is None or last is None or first > last or first not in indexes or last not in indexes:
            yield _reject(
                "no_such_step",
                f"The lesson cites steps {first} to {last}, but the run has {len(episode.steps)} steps.",
            )


def _check_tools(lesson: ProposedLesson, run: _RunWords) -> Iterator[Finding]:
    """Compare the tools a lesson names with those the run had or used.

    A run that does not say which tools it had may have failed because it did not call one: the reviewer decides.
    """
    named_tools = {match[match.lastgroup or 0] for match in _TOOL_LIKE.finditer(lesson.text.guideline)}
    names = sorted({name.strip().lower() for name in (*named_tools, *lesson.tools) if name.strip()})
    unknown = [name for name in names if not run.has_name(name)]
    if not unknown:
        return
    shown = ", ".join(name[:40] for name in unknown[:5])
    known_count = len(names) - len(unknown)
    message = (
        f"The run knows {known_count} of the {len(names)} tools and parameters that the action names; not {shown}."
    )
    if run.knows_tools and known_count / len(names) < MIN_KNOWN_TOOLS:
        yield _reject("unknown_tools", message)
    else:
        yield _flag("unknown_tools", message)


def _check_repetition(lesson: ProposedLesson, episode: Episode) -> Iterator[Finding]:
    """Refuse what the run was given, and tell the reviewer of what may be a repetition of it."""
    given = find_given(lesson.text.trigger, lesson.text.guideline, episode.injected)
    if given is None:
        return
    if given.verdict is MeaningVerdict.SAME:
        yield _reject("repeats_injected", ALREADY_SERVED)
    else:
        yield _flag("may_repeat_given", f"It may repeat a lesson that the run was given, but {given.reason}.")


def _check_secrets(lesson: ProposedLesson) -> Iterator[Finding]:
    counts = redact(list(_texts(lesson))).counts
    if secrets := sorted(counts.keys() - PERSONAL):
        yield _reject("secret", f"The lesson contains something that looks like a secret ({', '.join(secrets)}).")
    if personal := sorted(counts.keys() & PERSONAL):
        yield _reject("personal_data", f"The lesson contains personal data ({', '.join(personal)}).")


def _check_text(lesson: ProposedLesson) -> Iterator[Finding]:
    text = "\n".join(_texts(lesson))
    if any(is_hidden(character) for character in text):
        yield _reject("hidden_characters", "The lesson contains invisible characters.")
    if _URL.search(text):
        yield _flag("url", "The lesson contains a web address.")
    if _CODE_FENCE.search(text):
        yield _flag("code", "The lesson contains a block of code.")
    if _INSTRUCTION.search(text):
        yield _flag("instruction_like", "The lesson contains wording typical of attacks on agents; read it with care.")


def _check_quotes(lesson: ProposedLesson, run: _RunWords) -> Iterator[Finding]:
    """Flag advice in the words of a tool, which may come from anyone; in a trigger, only where the advice follows them.

    "…" in a quotation stands for what was left out.
    """
    text = lesson.text
    advice = f"{text.guideline}\n{text.avoid}\n{text.not_when}"
    quoting = f"{text.trigger}\n{advice}" if _FOLLOWS.search(advice) else advice
    quotes = ["".join(match) for match in _SAID.findall(quoting)]
    if any(len(_words(quote)) >= MIN_QUOTED_WORDS and _is_said(quote, run.said) for quote in quotes):
        yield _flag(
            "quotes_tool_output", "The advice repeats what a tool answered; read that as if a stranger said it."
        )


def _is_said(quote: str, said: str) -> bool:
    """Say whether the parts of a quotation stand in a text one after the other."""
    position = 0
    for part in filter(None, map(_plain, quote.split("…"))):
        start = said.find(part, position)
        if start < 0:
            return False
        position = start + len(part)
    return position > 0


def _plain(text: str) -> str:
    """Return a text without case, quotation marks and line breaks."""
    return " ".join(_MARKS.sub("", text).lower().split())


def _check_literals(lesson: ProposedLesson, run: _RunWords) -> Iterator[Finding]:
    """Flag values of this one task in what agents will be told; the rationale may name them."""
    text = f"{lesson.text.trigger}\n{lesson.text.guideline}\n{lesson.text.avoid}\n{lesson.text.not_when}"
    if _DATE.search(text):
        yield _flag("literal_date", "The lesson names a date specific to this task.")
    candidates = {match[0] for pattern in (_UUID, _IDENTIFIER) for match in pattern.finditer(text)}
    ids = [candidate for candidate in candidates if candidate.lower() not in run.names and not _DATE.search(candidate)]
    if _REDACTED.search(text) or any(_has_word(run.lower, candidate.lower()) for candidate in ids):
        yield _flag("literal_id", "The lesson names an id or a number specific to this task.")
    # What is quoted is a label or a tool, such as "Buy Now"
    full_names = {match[0] for match in _FULL_NAME.finditer(_QUOTED.sub(" ", text))}
    # "When Booking" at the start of a sentence is no person.
    full_names = {name for name in full_names if name.split()[0].lower() not in _SENTENCE_STARTS}
    if any(name in run.text for name in full_names) or any(_has_word(text, name) for name in run.people):
        yield _flag("literal_name", "The lesson seems to name a person or a thing specific to this task.")


def _texts(lesson: ProposedLesson) -> Iterator[str]:
    text = lesson.text
    yield from (text.trigger, text.guideline, text.avoid, text.not_when, text.rationale)
    yield from (*text.tags, *lesson.tools)


def _words(text: str) -> list[str]:
    return [match[0].lower() for match in _WORD.finditer(text)]


def _has_word(text: str, word: str) -> bool:
    """Say whether a text contains a word with no letter, digit or underscore on either side."""
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        before, after = text[start - 1 : start], text[end : end + 1]
        if not (before.isalnum() or before == "_" or after.isalnum() or after == "_"):
            return True
        start = text.find(word, start + 1)
    return False


def _reject(code: str, message: str) -> Finding:
    return Finding(code=code, message=message, severity=Severity.REJECT)


def _flag(code: str, message: str) -> Finding:
    return Finding(code=code, message=message, severity=Severity.FLAG)
