"""Errors in the answers of tools: whether a step failed, in which words, and what kind of error it is."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from memory.runs.episode import EpisodeStep
from reflection.reflectors.rules.wording import KNOWN_CODES
from reflection.reflectors.standards import find_standards

MAX_MESSAGE_CHARS = 160
MAX_ANSWER_CHARS = 2000  # an error stands near the beginning of an answer, or the answer is short
MIN_VALUE_CHARS = 3
MAX_KEPT = 20  # standards in one message
_FIRST_SIGN = 0xE000  # of those that Unicode leaves to private use


class ErrorKind(StrEnum):
    """What an error says is wrong. One message may say several things."""

    TRANSIENT = "transient"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"
    UNKNOWN_NAME = "unknown_name"
    MISSING = "missing"
    NOT_FOUND = "not_found"
    FORM = "form"
    PRECONDITION = "precondition"


_KINDS: dict[ErrorKind, re.Pattern[str]] = {
    kind: re.compile(pattern, re.IGNORECASE)
    for kind, pattern in {
        ErrorKind.TRANSIENT: r"timed?[ -]?out|temporar|again later|rate.?limit|too many requests|\b(?:429|50[0234])\b"
        r"|service unavailable|connection (?:reset|refused|error|aborted|closed)|network|overloaded",
        ErrorKind.REFUSED: r"(?:not|n't|never) (?:be )?(?:allowed|permitted|authori[sz]ed|eligible|supported)"
        r"|cannot be \w+(?:ed|en|de|ne)\b|can only\b|must not|may not|forbidden|denied|prohibited|polic(?:y|ies)\b"
        r"|restricted|non-?refundable|does(?:n't| not) want to proceed|was rejected|blocked",
        ErrorKind.UNAVAILABLE: r"not enough|insufficient|unavailable|not available|sold out|out of stock|exceed"
        r"|\blimit\b|balance|quota|already|\bfull\b|no longer",
        ErrorKind.UNKNOWN_NAME: r"command not found|not recogni[sz]ed|unrecogni[sz]ed|not a verb"
        r"|unknown (?:command|action|tool|function|verb|method)|no such (?:tool|command|function(?! ?:)|action)"
        r"|\bno (?:tool|function|action) (?:named|called|with the name)|there is no (?:tool|function)\b"
        r"|\b(?:tool|function|action) ['\"`\w.-]{1,80} (?:is )?(?:not found|does(?: not|n't) exist|unavailable)"
        r"|no such function name|unavailable (?:tool|function)"
        r"|(?:do not|don't|did not|didn't) (?:understand|recogni[sz]e)|is not a (?:valid )?(?:tool|command|function)",
        ErrorKind.MISSING: r"missing|\brequired\b|must (?:provide|specify|include|supply|be provided)"
        r"|(?:not|none) (?:was |were )?(?:provided|given|specified)",
        ErrorKind.NOT_FOUND: r"not found|no such|no one (?:has|with|by)|nobody|not exist|n't exist|unknown"
        r"|(?:could not|cannot|can't|unable to) find"
        r"|no (?:available )?\w+ (?:found|with|named|matching|for the given)|invalid \w*id\b"
        r"|not (?:a )?known|can't see",
        ErrorKind.FORM: r"format|readable|\bwrong\b|must be|should be|expected|invalid|\btype\b|pars(?:e|ing)|pattern"
        r"|not a valid|syntax|indentation|malformed",
        ErrorKind.PRECONDITION: r"\bfirst\b|\bbefore\b|needs? to be|must be \w+ed\b|not (?:yet |been )?(?:logged|"
        r"authenticated|open|started|connected|selected|read|initiali[sz]ed|running|engaged|locked|set|holding|carrying)\b"
        r"|n't (?:open|started|connected|selected|read|holding|carrying)\b|is (?:closed|locked|off)"
        r"|ha(?:s|ve)(?:n't| not) been|requires?\b|\buntil\b|\bunless\b|have to\b|need to\b",
    }.items()
}

_STARTS = re.compile(
    r"""\s*(?:\[?(?:error|exception|failure|fatal|invalid|malformed|failed|denied|forbidden|unauthori[sz]ed|traceback)\b
    | (?:cannot|can't|could\ not|couldn't|unable\ to|not\ allowed|not\ permitted|not\ found|no\ such|unknown\ \w+)\b
    | (?:you\ can't|you\ cannot|you\ don't\ have|that's\ not|i\ don't\ understand|you\ (?:need|have)\ to)\b
    | nothing\ happens | permission\ denied | access\ denied | bad\ request | timed?[\ -]?out\b | execution\ timed\ out
    | (?:\w+\ ){1,3}(?:failed|rejected|refused|denied|error|halted|aborted)[.:!]
    | you\ (?:do\ not|are\ not|aren't|can\ only)\b | sorry,\ (?:i|but|that|you)\b
    | (?:there\ is\ )?no\ \w+\ (?:with|named|called)\b
    | (?:illegal|rejected|refused|unsupported|unrecogni[sz]ed|unexpected|disallowed)\b
    | wrong\b[^\n]{0,40}$ | your\ (?:proposed\ edit|command|edit)\ (?:has|was|could|did)\ [^\n]*(?:error|not|refused)
    | \d{1,3}\ validation\ errors?\b | (?:http\ )?[45]\d\d\s+[A-Za-z] | \w*(?:Error|Exception)(?::|\(['"])
    | <(?:tool_use_)?error> | mcp\ error\ -?\d | (?:tool|request|api|validation)\ (?:\w+\ )?(?:error|failed)\b
    | you\ must\ (?:provide|specify|supply|include|pass|set)\b | did\ not\ find\ \w+,
    | (?:rate\ limit|too\ many\ requests|quota\ exceeded)\b
    | missing\ (?:required\b|(?:\w+\ )?(?:parameter|argument)))""",
    re.VERBOSE | re.IGNORECASE | re.MULTILINE,
)
_INSIDE = re.compile(
    r"^.*(?:command not found|no such file or directory|permission denied|syntax error: |^\w+(?:Error|Exception): ).*$"
    r"|^[\w.-]{1,40}: (?:invalid|unknown|unrecogni[sz]ed|illegal|missing|unexpected|cannot|bad|option requires)\b.*$"
    r"|^(?:[\w./-]{1,40}: |npm )?(?:error|fatal)(?::| \w).*$"
    r"|^[^\s:]{1,120}(?::\d{1,6}){1,2}: (?:fatal )?error\b.*$"
    r"|^[\w./-]{1,40}: '[^'\n]{1,80}' is not a \w{1,20} command.*$",
    re.MULTILINE | re.IGNORECASE,
)
_WHOLE = re.compile(
    r"[^\n]{0,80}\b(?:does not exist|doesn't exist|not found|has not been read|no such"
    r"|is not (?:a|an|in|on)\b|(?:tests?|cases?|checks?) (?:did not|didn't|do not) pass\b"
    r"|(?:is|are|was|were) (?:not (?:allowed|permitted|available|supported|valid|defined)|invalid|rejected|refused"
    r"|forbidden|restricted|disabled|unavailable|unsupported|missing|incorrect|illegal)"
    r"|(?:action|command|call|move|operation|request)s?\b[^\n]{0,20}(?: not|n't) (?:allowed|permitted|supported"
    r"|recogni[sz]ed|available|executed|performed|accepted|possible|applied)|rejected by)[^\n]{0,100}",
    re.IGNORECASE,
)
_TRACEBACK = re.compile(r"\bTraceback(?: \(most recent call last\))?:?\s{0,4}\n")
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*)?(?:Error|Exception|Exit|Interrupt|Warning)\b.*$", re.MULTILINE)
_LABEL = re.compile(r"^\s*(?:\[?(?:error|exception|failure|fatal)\]?|\w+(?:Error|Exception))\s*[:\-]\s*", re.IGNORECASE)
# How the schemas of pydantic, zod, FastAPI, Django REST framework and OpenAI's API name a parameter.
_SCHEMAS = tuple(
    re.compile("".join(parts))
    for parts in (
        (r"\bvalidation errors? for\b[^\n]{0,128}\n\s{0,16}(?P<field>[\w.]+)\n\s{0,16}(?P<message>[^\n\[]+)",),
        (
            r"\"path\":\s{0,16}\[\s{0,16}\"(?P<field>\w{1,60})\"[^\]]{0,80}\],\s{0,16}",
            r"\"message\":\s{0,16}\"(?P<message>[^\"\n]{1,160})\"",
        ),
        (
            r"\"loc\": ?\[\"(?:body|query)\", ?\"(?P<field>\w{1,60})\"[^\]]{0,80}\], ?",
            r"\"msg\": ?\"(?P<message>[^\"\n]{1,160})\"",
        ),
        (
            r"^\{\"(?P<field>\w{1,60})\": ?\[\"",
            r"(?P<message>(?:This field|A valid|Not a valid|Must be)[^\"\n]{1,160})\"\]",
        ),
        (r"\bInvalid type for '(?P<field>\w{1,60})': (?P<message>expected [^\n]{1,80})",),
    )
)
# What ends the run is said after the answer.
END_OF_RUN = re.compile(r"\s{1,8}(?:Agent stopped due to [^\n]{1,80}|KeyboardInterrupt)\s{0,8}$")
_REPR = re.compile(r"\w{1,60}(?:Error|Exception)\((['\"])(.{1,400})\1\)$", re.DOTALL)
_MEMBER = re.compile(r"\{'error': '([^'\n]{1,400})'[,}]")
_EXIT_CODE = re.compile(r"\s*(?:process )?exit(?:ed with)? code:? \d+\s*$", re.IGNORECASE)
_CHOICES = re.compile(r"\b(?:should|must) be (?:one of )?'[a-z_-]{1,16}'(?:(?:,| or|, or) '[a-z_-]{1,16}')+")
_REFUSAL = re.compile(r"\{['\"](?:messages?|msg|error|detail)['\"]: ?['\"]([^'\"\n]{1,200})['\"]\}$")
_FAILED = ("error", "failed", "fail", "failure", "rejected", "refused", "denied", "invalid")
# Members that hold the answer of a tool, or say more than its `error`.
_WRAPPERS = ("tool_result", "result", "event", "response", "output", "observation", "body")
_DETAILS = ("detail", "details", "error_text", "error_description", "message", "msg", "reason", "description", "result")
_TAGS = re.compile(r"</?\w+>")
_QUOTED = re.compile(r"'[^'\n]{1,80}'|\"[^\"\n]{1,80}\"|`[^`\n]{1,80}`")
_VALUE = re.compile(
    r"(?<![\w…])(?:[#$€£]?\w*\d[\w.,:%/-]*|\w+@\w[\w.]*|(?<![.-])[\w.-]*/[\w./-]+|\w+\.[a-z]{1,4}\b|[A-Z]{3,}(?![a-z]))(?![\w…])"
)
_OBJECT = re.compile(r"\b(the|a|an) (?:(?!must|be\b|is\b|are\b|has\b|have\b|needs?\b)[\w'-]+ ){1,4}?first\b")
_ONLY_FAILED = re.compile(
    r"(?:an? )?(?:error|exception|failure|failed|problem)(?: (?:in|while|during|when|to|occurred))?"
    r"(?: (?:executing|execute|running|run|calling|call|performing|parsing|processing|execution))?"
    r"(?: (?:the|this|your|tool|action|command|function|code|query|request|call|…)){0,3}",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+(?: [A-Z][a-z]+)*\b(?!Error|Exception)")


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorShape:
    """An error of a tool: `text` as in the run, `shape` with "…" for every value.

    `field` is the parameter that a schema's error names.
    """

    text: str
    shape: str
    kinds: frozenset[ErrorKind] = frozenset()
    field: str = ""

    def has(self, *kinds: ErrorKind) -> bool:
        """Return whether the message says one of these things."""
        return not self.kinds.isdisjoint(kinds)


def read_error(step: EpisodeStep, *, values: Iterable[object] = (), only_at_start: bool = False) -> ErrorShape | None:
    """Return the error of a step, or None.

    Args:
        values: the arguments of the call; its message repeats them and its shape must not.
        only_at_start: the answer is the text of a file or a page, which may speak of errors further down.
    """
    text = step.error.strip() or _error_in(step.observation, only_at_start=only_at_start)
    if not text:
        return None
    # Cut before it is matched: tools answer with whole files, too.
    kinds = kinds_of(text[:MAX_ANSWER_CHARS])
    schemas = (pattern.search(part[:MAX_ANSWER_CHARS]) for part in (text, step.observation) for pattern in _SCHEMAS)
    if schema := next((match for match in schemas if match), None):
        message = schema["message"].strip()
        return ErrorShape(
            text=message, shape=f"{schema['field']}: {shape_of(message, values)}", kinds=kinds, field=schema["field"]
        )
    text = _first_line(text)
    return ErrorShape(text=text, shape=shape_of(text, values), kinds=kinds)


def kinds_of(text: str) -> frozenset[ErrorKind]:
    return frozenset(kind for kind, pattern in _KINDS.items() if pattern.search(text))


def shape_of(text: str, values: Iterable[object] = ()) -> str:
    """Return the message without its label, with "…" for quoted texts, numbers, ids, names, paths and `values`."""
    shape = _LABEL.sub("", text)
    # The longest first, or a value inside another would cut that one in two.
    for value in sorted({str(value) for value in values}, key=len, reverse=True):
        # Shorter ones stand inside ordinary words.
        if len(value) >= MIN_VALUE_CHARS and value in shape:
            shape = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", "…", shape)
    # The allowed choices are the message itself, and what everyone knows is no value: both are kept, as signs for now.
    kept: list[str] = []
    choices = [match.span() for match in [_CHOICES.search(shape)] if match]
    for start, end in reversed(choices or find_standards(shape)[:MAX_KEPT]):
        kept.append(shape[start:end])
        shape = f"{shape[:start]}{chr(_FIRST_SIGN + len(kept) - 1)}{shape[end:]}"
    shape = _QUOTED.sub("…", shape)
    shape = _VALUE.sub(lambda match: match[0] if match[0] in KNOWN_CODES else "…", shape)
    shape = _NAME.sub("…", shape)
    shape = _OBJECT.sub(r"\1 … first", shape)
    shape = re.sub(r"…(?:[\s,:.]*…)+", "…", shape).replace('"', "")
    first, _, rest = shape.partition(". ")
    if rest and _ONLY_FAILED.fullmatch(first) and says_something(rest):
        # It says that a call failed, and only then why.
        first, _, rest = _LABEL.sub("", rest).partition(". ")
        shape = first
    elif rest and says_something(first):
        shape = first
    for number, text_kept in enumerate(kept):
        shape = shape.replace(chr(_FIRST_SIGN + number), text_kept)
    return " ".join(shape.split()).strip(" .,;:!") or "an error"


def says_something(shape: str) -> bool:
    """Return whether a shape has words of its own, so that an agent would recognise the error by it."""
    return len(re.findall(r"[A-Za-z]{2,}", shape)) >= 2


def last_raised(text: str) -> str:
    """Return the line of the last exception in a traceback, "" if there is none."""
    if not _TRACEBACK.search(text):
        return ""
    raised = _RAISED.findall(text)
    return str(raised[-1]).strip()[:MAX_MESSAGE_CHARS] if raised else ""


def _first_line(text: str) -> str:
    """Return the line of an error that says what is wrong."""
    if _TRACEBACK.search(text[:MAX_ANSWER_CHARS]) and (raised := _RAISED.findall(text)):
        # The last error of a traceback is the one that ended the program. Some say only in the next line what it was.
        last = str(raised[-1]).strip()
        following = text.partition(last)[2].strip().splitlines() if last.endswith(":") else []
        return (_message_in(following[0]) if following else last)[:MAX_MESSAGE_CHARS].strip()
    lines = [line.strip() for line in _TAGS.sub("", text).splitlines()]
    lines = [line for line in lines if line and not _EXIT_CODE.match(line)] or [text.splitlines()[0].strip()]
    return lines[0][:MAX_MESSAGE_CHARS].strip()


def _message_in(line: str) -> str:
    """Return the message of a line that may be JSON."""
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        return line.strip()
    texts = [body[name] for name in _DETAILS if isinstance(body.get(name), str)] if isinstance(body, dict) else []
    return texts[0] if texts else line.strip()


def _error_in(observation: str, *, only_at_start: bool) -> str:
    observation = END_OF_RUN.sub("", observation.strip())
    if observation.startswith("{"):
        return _error_member(observation)
    # Some tools answer with the error as their language writes it, or with a text in quotation marks.
    if (match := _REPR.match(observation[:MAX_ANSWER_CHARS])) and " " in match[2]:
        return match[2]
    if observation[:1] == observation[-1:] == '"' and "\n" not in observation:
        observation = observation[1:-1]
    if _STARTS.match(observation):
        return observation
    if _WHOLE.fullmatch(observation):
        return observation
    # A file or page may speak of errors further down without being one.
    if only_at_start:
        return ""
    if _TRACEBACK.search(observation[:MAX_ANSWER_CHARS]):
        return observation
    if len(observation) < MAX_ANSWER_CHARS and (match := _INSIDE.search(observation)):
        return match[0]
    return ""


def _is_http_error(status: object) -> bool:
    return isinstance(status, int) and 400 <= status < 600


def _error_member(observation: str) -> str:
    """Return the message of a JSON answer that is marked as an error."""
    try:
        answer = json.loads(observation)
    except (ValueError, RecursionError):
        match = _MEMBER.match(observation)
        return match[1] if match else ""
    if not isinstance(answer, dict):
        return ""
    if message := _named_error(answer):
        return message
    if answer.get("isError") is True:
        return _text_of(answer.get("content"))
    # Some servers wrap what a tool answered: `{"tool_result": {"error": …}, "steps_left": …}`.
    for member in _WRAPPERS:
        inner = answer.get(member)
        if not isinstance(inner, dict):
            continue
        if message := _named_error(inner) or _failed_output(inner):
            return message
        if inner.get("isError") is True:
            return _text_of(inner.get("content"))
    if any(pattern.match(observation) for pattern in _SCHEMAS):
        return observation
    if isinstance(answer.get("response"), str) and (match := _REFUSAL.match(answer["response"])):
        return match[1]
    # A refused request, in the words of a web framework
    if isinstance(answer.get("detail"), list) and answer["detail"]:
        first = answer["detail"][0]
        if isinstance(first, dict) and isinstance(first.get("msg"), str):
            return str(first["msg"])
    failed = (
        answer.get("success") is False
        or answer.get("ok") is False
        or answer.get("status") in _FAILED
        or any(_is_http_error(answer.get(member)) for member in ("status", "status_code", "statusCode", "code"))
    )
    members = ("message", "msg", "messages", "detail", "reason", "preview", "result", "output", "stderr")
    message = next((answer[member] for member in members if answer.get(member)), "")
    return message if failed and isinstance(message, str) else _failed_output(answer)


def _named_error(answer: dict[str, Any]) -> str:
    """Return what an answer has in a member such as `error`, or beside one that only says so or names a class."""
    for member in ("error", "errors", "exception", "error_message"):
        value = answer.get(member)
        if isinstance(value, list) and value:
            value = value[0]
        if isinstance(value, dict):
            value = value.get("message") or value.get("detail") or value.get("code")
        if value is True or (isinstance(value, str) and re.fullmatch(r"[\w.]{1,80}", value)):
            texts = [answer[name] for name in _DETAILS if isinstance(answer.get(name), str) and answer[name].strip()]
            value = texts[0] if texts else value
        if isinstance(value, str) and value.strip():
            return value
    # FHIR and other standards list what is wrong, with its severity.
    issues = answer.get("issue") or answer.get("issues")
    for issue in issues if isinstance(issues, list) else ():
        if isinstance(issue, dict) and issue.get("severity") in ("error", "fatal"):
            text = issue.get("diagnostics") or issue.get("message") or issue.get("description")
            return text if isinstance(text, str) else ""
    return ""


def _failed_output(answer: dict[str, Any]) -> str:
    """Return what a program wrote to its error stream, if the answer says that it failed."""
    status, output = answer.get("status"), answer.get("stderr")
    failed = isinstance(status, str) and status.lower().endswith(("error", "failed", "failure"))
    codes = [answer[member] for member in ("exit_code", "exitCode", "returncode", "return_code") if member in answer]
    # Some programs write notes to the error stream and work all the same.
    failed = failed or (any(codes) and not answer.get("stdout"))
    return output if failed and isinstance(output, str) else ""


def _text_of(content: object) -> str:
    """Return the texts of an MCP result."""
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part["text"]) for part in parts if isinstance(part, dict) and part.get("text"))
