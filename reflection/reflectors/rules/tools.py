"""What a tool does, guessed from its name: talk, think, read, change something, or hand over; and whether it failed."""

import json
import re
from dataclasses import dataclass
from functools import lru_cache

from memory.runs.episode import Step

MAX_MESSAGE_CHARS = 160

_TALK_WORDS = """
respond reply say speak answer tell ask talk message_user ask_user send_message_to_user
"""
_READ_WORDS = """
get list search find look lookup fetch read query check show view describe retrieve calculate compute count
inspect load scan browse select explain
"""
_CHANGE_WORDS = """
update book cancel create delete remove add send set modify change buy pay purchase post put write submit
order move edit refund issue approve assign close insert upload deploy restart reserve return exchange rename
replace reset
"""
TALK = frozenset(_TALK_WORDS.split())
THINK = frozenset({"think", "thought", "reason", "plan", "note_to_self"})

_READ = frozenset(_READ_WORDS.split())
_CHANGE = frozenset(_CHANGE_WORDS.split())
_HANDOVER_VERBS = frozenset(["transfer", "escalate", "handoff", "handover", "forward", "hand"])
_PEOPLE = frozenset(["human", "humans", "agent", "agents", "operator", "support", "person", "supervisor", "staff"])
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

# Errors in answers
_STARTS = re.compile(
    r"""\s*(?:\[?(?:error|exception|failure|fatal|invalid|failed|denied|forbidden|unauthori[sz]ed|traceback)\b
    | (?:cannot|can't|could\ not|couldn't|unable\ to|not\ allowed|not\ permitted|not\ found|no\ such|unknown\ \w+)\b
    | nothing\ happens | permission\ denied | access\ denied | bad\ request | timed?[\ -]?out\b
    | (?:http\ )?[45]\d\d\s+[A-Za-z] | \w*(?:Error|Exception):)""",
    re.VERBOSE | re.IGNORECASE,
)
_INSIDE = re.compile(
    r"^.*(?:command not found|no such file or directory|permission denied|^\w+(?:Error|Exception): ).*$",
    re.MULTILINE | re.IGNORECASE,
)
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)")
_LABEL = re.compile(r"^\s*\[?(?:error|exception|failure|fatal)\]?\s*[:\-]\s*", re.IGNORECASE)
_QUOTED = re.compile(r"'[^'\n]{1,80}'|\"[^\"\n]{1,80}\"|`[^`\n]{1,80}`")
_VALUE = re.compile(r"(?<![\w…])(?:[#$€£]?\w*\d[\w.,:%/-]*|\w+@\w[\w.]*|[\w.-]*/[\w./-]+|[A-Z]{3,}(?![a-z]))(?![\w…])")
_NUMBER = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?![\w])")


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a tool's or parameter's name: `getUser_details` → get, user, details."""
    return tuple(word.lower() for word in _WORDS.findall(name))


def is_talk(name: str) -> bool:
    return name.lower() in TALK


def is_thought(name: str) -> bool:
    return name.lower() in THINK


def is_handover(name: str) -> bool:
    words = words_of(name)
    return bool(_HANDOVER_VERBS & set(words)) and bool(_PEOPLE & set(words))


def is_read(name: str) -> bool:
    """Return whether the tool only reads or calculates, judging by the first verb in its name."""
    return _first_verb(name) == "read"


def is_change(name: str) -> bool:
    """Return whether the tool changes something outside the agent."""
    return _first_verb(name) == "change" and not is_handover(name)


def _first_verb(name: str) -> str:
    for word in words_of(name):
        if word in _READ:
            return "read"
        if word in _CHANGE:
            return "change"
    return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolError:
    """An error of a tool: `text` as in the run, `shape` with "…" for every value."""

    text: str
    shape: str
    numbers: tuple[float, ...] = ()


def read_error(step: Step) -> ToolError | None:
    """Return the error of a step, or None."""
    text = step.error.strip() or _error_in(step.observation)
    if not text:
        return None
    text = text.splitlines()[0].strip()[:MAX_MESSAGE_CHARS].strip()
    return ToolError(text=text, shape=shape_of(text), numbers=numbers_in(text))


def shape_of(text: str) -> str:
    """Return the message without its label, with "…" for quoted texts, numbers, ids and paths."""
    shape = _LABEL.sub("", text)
    shape = _QUOTED.sub("…", shape)
    shape = _VALUE.sub("…", shape)
    shape = re.sub(r"…(?:[\s,]*…)+", "…", shape)
    return " ".join(shape.split()).strip(" .,;:!") or "an error"


def numbers_in(text: str) -> tuple[float, ...]:
    return tuple(float(found.replace(",", "")) for found in _NUMBER.findall(text))


def _error_in(observation: str) -> str:
    observation = observation.strip()
    if observation.startswith("{"):
        return _error_member(observation)
    if _TRACEBACK.search(observation[:2000]):
        return observation.splitlines()[-1]
    if _STARTS.match(observation):
        return observation
    if len(observation) < 2000 and (found := _INSIDE.search(observation)):
        return found[0]
    return ""


def _error_member(observation: str) -> str:
    """Return the message of a JSON answer that is marked as an error."""
    try:
        answer = json.loads(observation)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(answer, dict):
        return ""
    for member in ("error", "errors", "exception", "error_message"):
        value = answer.get(member)
        if isinstance(value, dict):
            value = value.get("message") or value.get("detail") or value.get("code")
        if isinstance(value, str) and value.strip():
            return value
    failed = answer.get("success") is False or answer.get("ok") is False or answer.get("status") in ("error", "failed")
    message = answer.get("message") or answer.get("detail")
    return message if failed and isinstance(message, str) else ""
