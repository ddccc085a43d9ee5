"""Deterministic checks of a proposed lesson against its run, before anything is stored (reference: ERL c.3 point 6).

A finding either rejects the lesson or flags it for the reviewer. The checks do not judge whether it is wise.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from memory.heuristics.text import Citation
from memory.limits import MAX_LESSON_TEXT_CHARS, MAX_TRIGGER_CHARS
from memory.meaning.comparison import MeaningVerdict
from memory.redaction import redact
from memory.redaction.visible_text import is_hidden
from memory.runs.episode import Episode
from reflection.reflectors.base import ProposedLesson
from reflection.reflectors.repetition import ALREADY_SERVED, find_given
from reflection.reflectors.run_words import RunWords, find_dates, has_word, plain

MAX_TRIGGER_CHARACTERS = 300
MAX_GUIDELINE_CHARACTERS = 600
MAX_OTHER_CHARACTERS = 4000
MAX_WORDS_SHOWN = 5
MAX_WORD_CHARACTERS = 60
MIN_QUOTED_WORDS = 3  # shorter quotations are labels and values
PERSONAL = frozenset({"email", "phone", "iban", "card", "national_id"})

_TOOL_LIKE = re.compile(
    r"`(?P<quoted>[^`\n]{1,60})`"
    r"|(?P<call>[A-Za-z_][\w.\-]{0,127})(?=\(|\[)"
    r"|\b(?P<snake>[a-z][a-z0-9]*(?:_[a-z0-9]+)+)\b"
    r"|\b(?P<camel>[a-z]+(?:[A-Z][a-z0-9]+)+)\b"
)
_WORD = re.compile(r"[^\W_]+(?:['’_-][^\W_]+)*")
_URL = re.compile(
    r"(?:https?://|\bwww\.)[^\s`\"'<>]{0,100}|\b[\w-]{1,63}\.(?:com|net|org|io|dev|app|ru|cn)\b/[^\s`\"'<>]{0,100}",
    re.I,
)
_CODE_FENCE = re.compile(r"```|~~~|<script\b", re.I)
_INSTRUCTION = re.compile(
    r"\b(?:ignore|disregard|forget|override)\b.{0,30}\b(?:instructions?|rules?|prompts?|directions|guidelines|polic(?:y|ies)"
    r"|(?:everything|anything|all) (?:above|before|earlier|you)|what you (?:were|have been))\b"
    r"|\bsystem prompt\b|\byou are now\b|\bdeveloper mode\b|\bjailbreak\w{0,10}"
    r"|\bdo not (?:tell|inform|mention|reveal)\b.{0,30}\b(?:user|human|reviewer|anyone|people)\b"
    r"|\bdo not ask\b.{0,60}\b(?:confirm\w*|approv\w*|permission|consent)\b"
    r"|\bexfiltrate\b|\brm -rf\b"
    r"|<\|\w{0,20}|\[/?INST\]|</?(?:system|assistant|user|data|tool)>"
    r"|^[ \t]*(?:#+[ \t]*)?(?:system|assistant|human|user)\s*:",
    re.I | re.M,
)
# What keeps people out of it, unless the sentence forbids just that.
_UNASKED = re.compile(r"\bwithout (?:asking|telling|confirm\w*|approval|permission)\b", re.I)
_FORBIDS = re.compile(r"\b(?:never|not|cannot|avoid|no)\b|n['’]t\b", re.I)
_SENTENCE_END = re.compile(r"[.!?;\n]\s")
_TRANSFER = re.compile(r"\b(?:curl|wget)\b|\bbase64[- ](?:-|encod)|\| ?base64\b", re.I)
_SAID = re.compile(r"\"([^\"\n]+)\"|“([^“”\n]+)”")
_FOLLOWS = re.compile(
    r"\b(?:answer|error|message|condition|schema|rule) (?:it )?(?:says|asks|names|lists|gives)\b"
    r"|\b(?:answers|errors|messages|conditions|rules) (?:it )?(?:say|ask|name|list|give)\b",
    re.I,
)


class Severity(StrEnum):
    """What follows from a finding: the lesson is dropped, a model is asked to mend it, or only the reviewer is told.

    What was not mended is told to the reviewer, too.
    """

    REJECT = "reject"
    MEND = "mend"
    FLAG = "flag"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing a check found in a lesson. `message` is a sentence for a reviewer, and for the model's second try.

    `words` are the words of the lesson that it is about, as they stand there, if it is about any.
    """

    code: str
    message: str
    severity: Severity
    words: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Return what is kept of it with a proposal."""
        return {"code": self.code, "message": self.message, "words": list(self.words)}


def verify(lesson: ProposedLesson, episode: Episode) -> tuple[Finding, ...]:
    """Return what is wrong with a lesson, rejections first; empty where nothing is."""
    run = RunWords(episode)
    findings = [
        *_check_lengths(lesson),
        *_check_evidence(lesson, episode),
        *_check_tools(lesson, run),
        *_check_repetition(lesson, episode),
        *_check_secrets(lesson),
        *_check_text(lesson),
        *_check_orders(lesson, run),
        *_check_quotes(lesson, run),
        *_check_literals(lesson, run),
    ]
    return tuple(sorted(findings, key=lambda finding: list(Severity).index(finding.severity)))


def is_rejected(findings: Iterable[Finding]) -> bool:
    """Say whether any finding drops the lesson."""
    return any(finding.severity == Severity.REJECT for finding in findings)


def _check_lengths(lesson: ProposedLesson) -> Iterator[Finding]:
    text = lesson.text
    if not text.trigger.strip() or not text.guideline.strip():
        yield _reject("blank", "The lesson has no trigger or no action.")
    limits = (
        ("trigger", "The trigger", text.trigger, MAX_TRIGGER_CHARACTERS, MAX_TRIGGER_CHARS),
        ("guideline", "The action", text.guideline, MAX_GUIDELINE_CHARACTERS, MAX_LESSON_TEXT_CHARS),
        ("avoid", "What to avoid", text.avoid, MAX_GUIDELINE_CHARACTERS, MAX_LESSON_TEXT_CHARS),
        ("not_when", "Its exception", text.not_when, MAX_GUIDELINE_CHARACTERS, MAX_LESSON_TEXT_CHARS),
    )
    for name, part, value, limit, most in limits:
        if len(value) >= limit:
            message = f"{part} has {len(value)} characters; it must have fewer than {limit}."
            yield Finding(
                code=f"{name}_too_long",
                message=message,
                severity=Severity.REJECT if len(value) > most else Severity.MEND,
            )
    if len(text.rationale) > MAX_OTHER_CHARACTERS:
        yield _reject("rationale_too_long", f"The analysis must have at most {MAX_OTHER_CHARACTERS} characters.")


def _check_evidence(lesson: ProposedLesson, episode: Episode) -> Iterator[Finding]:
    if not lesson.citations:
        yield _mend("no_evidence", "The lesson cites no step; cite the steps that prove it.")
    for citation in lesson.citations:
        if not _is_in(citation, episode):
            yield _mend(
                "no_such_step",
                f"The lesson cites steps {citation.first_step} to {citation.last_step}, but the run has "
                f"{len(episode.steps)} steps.",
            )


def find_valid_citations(lesson: ProposedLesson, episode: Episode) -> tuple[Citation, ...]:
    """Return the citations of steps that the run has; where there are none, the whole run."""
    return tuple(citation for citation in lesson.citations if _is_in(citation, episode)) or (Citation(),)


def _is_in(citation: Citation, episode: Episode) -> bool:
    first, last = citation.first_step, citation.last_step
    if first is None and last is None:
        # The quotation names no steps, so it may stand anywhere in the run.
        return True
    indexes = {step.index for step in episode.steps}
    return first is not None and last is not None and first <= last and {first, last} <= indexes


def _check_tools(lesson: ProposedLesson, run: RunWords) -> Iterator[Finding]:
    """Tell which tools of a lesson neither the run nor its family had, used or named.

    The run may have failed because it did not call one, so the reviewer decides.
    """
    in_action = [match[match.lastgroup or 0] for match in _TOOL_LIKE.finditer(lesson.text.guideline)]
    names = dict.fromkeys(name.strip() for name in (*in_action, *lesson.tools) if name.strip())
    unknown = [name for name in names if not run.has_name(name)]
    if unknown:
        message = f"Neither the run nor its family knows {_quote(unknown)}, which the action names."
        yield _flag("unknown_tools", message, unknown)


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
    if any(is_hidden(character) for character in "\n".join(_texts(lesson))):
        yield _reject("hidden_characters", "The lesson contains invisible characters.")
    text = "\n".join(_served(lesson))
    if addresses := _find_words(_URL, text):
        yield _flag("url", f"The lesson contains a web address: {_quote(addresses)}.", addresses)
    if _CODE_FENCE.search(text):
        yield _flag("code", "The lesson contains a block of code.")


def _check_orders(lesson: ProposedLesson, run: RunWords) -> Iterator[Finding]:
    """Flag the wording of attacks in what agents will be told. The analysis may describe one."""
    words = _find_words(_INSTRUCTION, "\n".join(_served(lesson)))
    for field in (lesson.text.trigger, lesson.text.guideline, lesson.text.not_when):
        for match in _UNASKED.finditer(field):
            sentence = _SENTENCE_END.split(field[: match.start()])[-1]
            if not _FORBIDS.search(sentence):
                words.append(match[0])
    # A run that called one of these may teach how.
    transfers = _find_words(_TRANSFER, "\n".join(_served(lesson)))
    words += [word for word in transfers if not has_word(run.called, word.lower())]
    if words:
        message = f"Its wording is typical of attacks on agents: {_quote(words)}. Read it with care."
        yield _flag("instruction_like", message, words)


def _check_quotes(lesson: ProposedLesson, run: RunWords) -> Iterator[Finding]:
    """Flag advice in the words of a tool, which may come from anyone; in a trigger, only where the advice follows them.

    "…" in a quotation stands for what was left out.
    """
    text = lesson.text
    advice = f"{text.guideline}\n{text.avoid}\n{text.not_when}"
    quoting = f"{text.trigger}\n{advice}" if _FOLLOWS.search(advice) else advice
    quotes = ["".join(match) for match in _SAID.findall(quoting)]
    answered = [
        quote for quote in quotes if len(_WORD.findall(quote)) >= MIN_QUOTED_WORDS and _is_said(quote, run.answered)
    ]
    if answered:
        message = f"The advice repeats what a tool answered, {_quote(answered)}; read that as if a stranger said it."
        yield _flag("quotes_tool_output", message, answered)


def _is_said(quote: str, said: str) -> bool:
    """Say whether the parts of a quotation stand in a text one after the other."""
    position = 0
    for part in filter(None, map(plain, quote.split("…"))):
        start = said.find(part, position)
        if start < 0:
            return False
        position = start + len(part)
    return position > 0


def _check_literals(lesson: ProposedLesson, run: RunWords) -> Iterator[Finding]:
    """Flag values of this one task in what agents will be told; the rationale may name them."""
    text = "\n".join(_served(lesson))
    if dates := find_dates(text):
        yield _flag("literal_date", f"The lesson names a date specific to this task: {_quote(dates)}.", dates)
    if ids := list(run.find_ids(text)):
        yield _flag("literal_id", f"The lesson names an id or a number specific to this task: {_quote(ids)}.", ids)
    if names := list(run.find_people(text)):
        message = f"The lesson seems to name a person or a thing specific to this task: {_quote(names)}."
        yield _flag("literal_name", message, names)


def _served(lesson: ProposedLesson) -> tuple[str, ...]:
    """Return what agents will be told."""
    text = lesson.text
    return text.trigger, text.guideline, text.avoid, text.not_when


def _texts(lesson: ProposedLesson) -> tuple[str, ...]:
    return (*_served(lesson), lesson.text.rationale, *lesson.text.tags, *lesson.tools)


def _find_words(pattern: re.Pattern[str], text: str) -> list[str]:
    return list(dict.fromkeys(match[0].strip() for match in pattern.finditer(text)))


def _quote(words: Iterable[str]) -> str:
    """Quote words of a lesson in a sentence."""
    words = list(dict.fromkeys(words))
    shown = ", ".join(f"“{word[:MAX_WORD_CHARACTERS]}”" for word in words[:MAX_WORDS_SHOWN])
    return f"{shown} and {len(words) - MAX_WORDS_SHOWN} more" if len(words) > MAX_WORDS_SHOWN else shown


def _reject(code: str, message: str) -> Finding:
    return Finding(code=code, message=message, severity=Severity.REJECT)


def _mend(code: str, message: str) -> Finding:
    return Finding(code=code, message=message, severity=Severity.MEND)


def _flag(code: str, message: str, words: Iterable[str] = ()) -> Finding:
    return Finding(code=code, message=message, severity=Severity.FLAG, words=tuple(dict.fromkeys(words)))
