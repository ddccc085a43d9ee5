"""What was wrong with a piece of code or a query, read from the message with which it was answered."""

import re
from dataclasses import dataclass
from enum import StrEnum

from reflection.reflectors.rules.run_view import RunCall

MAX_OUTPUT_CHARS = 2000  # of an output, from its start and from its end, where tracebacks have their last line
_CODE_PARAMETERS = ("code", "sql", "query", "statement", "source", "cell", "script", "command", "cmd", "input")
_CODE_MARKS = re.compile(
    r"[=();\n]|\b(?:select|show|describe|desc|pragma|insert|update|delete|with|import|print)\b", re.I
)


class FaultKind(StrEnum):
    """What the message says is wrong."""

    COLUMN = "column"
    TABLE = "table"
    KEY = "key"
    FILE = "file"
    AMBIGUOUS = "ambiguous"
    GROUPING = "grouping"
    FUNCTION = "function"
    UNDEFINED = "undefined"
    MODULE = "module"
    IMPORT = "import"
    ATTRIBUTE = "attribute"
    ARGUMENT = "argument"
    SIGNATURE = "signature"
    TESTED_NAME = "tested_name"


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeFault:
    """A fault: `name` is what does not exist, `owner` the type, module or function that it was asked of.

    `database` is the kind of database, where the wording tells.
    """

    kind: FaultKind
    text: str
    name: str = ""
    owner: str = ""
    database: str = ""


# Wordings of the interpreters and databases themselves. The first that fits counts.
_FAULTS: tuple[tuple[FaultKind, str, re.Pattern[str]], ...] = tuple(
    (kind, database, re.compile(pattern, re.IGNORECASE))
    for kind, database, pattern in (
        (FaultKind.COLUMN, "mysql", r"unknown column '(?P<name>[^'\n]{1,80})'"),
        (FaultKind.COLUMN, "sqlite", r"no such column: \"?(?P<name>[\w.]{1,80})"),
        (FaultKind.COLUMN, "postgresql", r"\bcolumn \"?(?P<name>[\w.]{1,80})\"? does not exist"),
        (FaultKind.COLUMN, "duckdb", r"referenced column \"(?P<name>[^\"\n]{1,80})\" not found"),
        (FaultKind.COLUMN, "standard", r"invalid column name '(?P<name>[^'\n]{1,80})'"),
        (FaultKind.COLUMN, "standard", r"unrecognized name: (?P<name>[\w.]{1,80})"),
        (FaultKind.COLUMN, "standard", r"\bcolumn '?(?P<name>[\w.]{1,80})'? cannot be resolved"),
        (FaultKind.COLUMN, "standard", r"\"?(?P<name>[\w.]{1,80})\"?: invalid identifier"),
        (FaultKind.TABLE, "mysql", r"\btable '(?P<name>[^'\n]{1,80})' doesn't exist"),
        (FaultKind.TABLE, "sqlite", r"no such table: (?P<name>[\w.]{1,80})"),
        (FaultKind.TABLE, "postgresql", r"\brelation \"(?P<name>[^\"\n]{1,80})\" does not exist"),
        (FaultKind.TABLE, "duckdb", r"\btable with name (?P<name>[\w.]{1,80}) does not exist"),
        (FaultKind.TABLE, "standard", r"invalid object name '(?P<name>[^'\n]{1,80})'"),
        (
            FaultKind.FILE,
            "",
            r"cannot (?:stat|access|open) '(?P<name>[^'\n]{1,160})'.{0,20}: No such file",
        ),
        (FaultKind.FILE, "", r"(?:^|\n)[\w.-]{1,20}: (?P<name>[\w./~-][^:\n]{0,159}): No such file or directory"),
        (FaultKind.FILE, "", r"No such file or directory: '(?P<name>[^'\n]{1,160})'"),
        (FaultKind.AMBIGUOUS, "", r"\bcolumn '(?P<name>[^'\n]{1,80})' in [\w ]{1,20} is ambiguous"),
        (FaultKind.AMBIGUOUS, "", r"ambiguous column name: (?P<name>[\w.]{1,80})"),
        (FaultKind.AMBIGUOUS, "", r"\bcolumn reference \"(?P<name>[^\"\n]{1,80})\" is ambiguous"),
        (
            FaultKind.GROUPING,
            "",
            r"must appear in the GROUP BY|isn't in GROUP BY|nonaggregated column|only_full_group_by",
        ),
        (FaultKind.FUNCTION, "", r"no such function: (?P<name>\w{1,60})"),
        (FaultKind.FUNCTION, "", r"\bfunction (?:\w{1,60}\.)?(?P<name>\w{1,60})(?:\([^)\n]{0,80}\))? does not exist"),
        (FaultKind.UNDEFINED, "", r"NameError: name '(?P<name>\w{1,80})' is not defined"),
        (FaultKind.UNDEFINED, "", r"ReferenceError: (?P<name>[\w$]{1,80}) is not defined"),
        (FaultKind.MODULE, "", r"\bNo module named '?(?P<name>[\w.]{1,80})"),
        (FaultKind.MODULE, "", r"Cannot find (?:module|package) '(?P<name>[^'\n./][^'\n]{0,80})'"),
        (FaultKind.IMPORT, "", r"cannot import name '(?P<name>\w{1,80})' from '(?P<owner>[\w.]{1,80})'"),
        (FaultKind.ATTRIBUTE, "", r"'(?P<owner>[\w.]{1,80})' (?:object )?has no attribute '(?P<name>\w{1,80})'"),
        (FaultKind.ARGUMENT, "", r"(?P<owner>\w{1,80})\(\) got an unexpected keyword argument '(?P<name>\w{1,80})'"),
        (FaultKind.ARGUMENT, "", r"'(?P<name>\w{1,80})' is an invalid keyword argument for (?P<owner>\w{1,80})\(\)"),
        (
            FaultKind.SIGNATURE,
            "",
            r"TypeError: (?P<name>\w{1,80})\(\) (?:takes (?:from )?\d[^\n]{0,40} given|missing \d{1,2} required pos)",
        ),
        (FaultKind.TESTED_NAME, "", r"\bassert (?P<name>[A-Za-z_]\w{1,80})\("),
        # Names such as `__import__` are the interpreter's own, not keys of data.
        (FaultKind.KEY, "", r"KeyError: ['\"](?P<name>(?!__\w{1,40}__['\"])[^'\"\n]{1,60})['\"]"),
        (FaultKind.KEY, "", r"\['(?P<name>[^'\n]{1,60})'[^\]\n]{0,200}\] not (?:in index|found in axis)"),
    )
)


def read_fault(call: RunCall) -> CodeFault | None:
    """Return what was wrong with the code or query of a failed call, if its message is one of those known."""
    if call.error is None:
        return None
    output = call.output
    # A traceback names what was wrong at its end, and a database at the start of its answer.
    for text in (call.error.text, output[-MAX_OUTPUT_CHARS:], output[:MAX_OUTPUT_CHARS]):
        for kind, database, pattern in _FAULTS:
            if match := pattern.search(text):
                parts = match.groupdict(default="")
                return CodeFault(
                    kind=kind,
                    text=_line_of(text, match),
                    name=parts.get("name", ""),
                    owner=parts.get("owner", ""),
                    database=database,
                )
    return None


def _line_of(text: str, match: re.Match[str]) -> str:
    """Return the line of a text in which a match stands."""
    end = text.find("\n", match.end())
    return text[text.rfind("\n", 0, match.start()) + 1 : len(text) if end < 0 else end].strip()


def code_of(call: RunCall) -> str:
    """Return the code, query or shell command that a call runs, "" for calls of other kinds."""
    texts = [call.arguments[name] for name in _CODE_PARAMETERS if isinstance(call.arguments.get(name), str)]
    return next((text for text in texts if call.command or _CODE_MARKS.search(text)), "")


def next_that_ran(calls: tuple[RunCall, ...], failed: RunCall) -> RunCall | None:
    """Return the next call of the same tool that ran other code without an error."""
    return next(
        (c for c in calls if c.index > failed.index and c.name == failed.name and not c.error and code_of(c)), None
    )
