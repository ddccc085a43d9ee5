"""Recognise the errors of tools, and generalise their messages."""

import json
import re
from dataclasses import dataclass

from memory.runs.episode import Step

MAX_MESSAGE_CHARS = 160

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
