"""Names of tables, columns or keys were guessed before any answer had shown them."""

import re

from reflection.reflectors.rules.code_faults import CodeFault, FaultKind, code_of, read_fault
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import MAX_ANSWER_CHARS
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.tools import words_of
from reflection.reflectors.rules.wording import code, times

MAX_CALLS_BETWEEN = 12
MIN_GUESSES = 2
MIN_PATHS = 3

_THINGS = {
    FaultKind.COLUMN: "columns",
    FaultKind.TABLE: "tables",
    FaultKind.KEY: "columns or keys",
    FaultKind.FILE: "paths",
}
_OWNERS = {
    FaultKind.COLUMN: "a table",
    FaultKind.TABLE: "a database",
    FaultKind.KEY: "data",
    FaultKind.FILE: "files",
}
# What lists the names, by the kind of database that words its errors so.
_USUAL = {
    (FaultKind.TABLE, "mysql"): "SHOW TABLES",
    (FaultKind.COLUMN, "mysql"): "DESCRIBE",
    (FaultKind.TABLE, "sqlite"): "SELECT name FROM sqlite_master",
    (FaultKind.COLUMN, "sqlite"): "PRAGMA table_info",
    (FaultKind.TABLE, "postgresql"): "SELECT table_name FROM information_schema.tables",
    (FaultKind.COLUMN, "postgresql"): "SELECT column_name FROM information_schema.columns",
    (FaultKind.FILE, ""): "ls",
    (FaultKind.TABLE, "duckdb"): "SHOW TABLES",
    (FaultKind.COLUMN, "duckdb"): "DESCRIBE",
}
_LOOKUPS = {
    FaultKind.TABLE: re.compile(
        r"show tables|sqlite_master|information_schema\.tables|pg_tables|\.tables\b|\\dt", re.I
    ),
    FaultKind.COLUMN: re.compile(
        r"show (?:full )?columns(?= from)|\bdesc(?:ribe)?(?= \w)|pragma table_info|information_schema\.columns"
        r"|\.schema\b",
        re.I,
    ),
    FaultKind.FILE: re.compile(r"^(?:ls|find|tree)\b|os\.listdir|\.glob\(|\.iterdir\(", re.MULTILINE),
    FaultKind.KEY: re.compile(r"\.(?:columns|keys\(\)|dtypes|info\(\)|head\()"),
}
_TABLE = re.compile(r"\b(?:from|join|update|into) [`\"\[]?([\w.]{1,80})", re.IGNORECASE)
_LOOKUP_TOOL = frozenset(["list", "describe", "schema", "show", "get", "tables", "columns"])


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for names that did not exist, and for the lookup that came too late or never."""
    faults: dict[tuple[FaultKind, str], list[tuple[RunCall, CodeFault]]] = {}
    for call in run.calls:
        fault = read_fault(call) if code_of(call) else None
        if fault and fault.kind in _THINGS:
            faults.setdefault((fault.kind, call.name), []).append((call, fault))
    matches = [_explain(run, kind, guesses) for (kind, _), guesses in faults.items()]
    return [match for match in matches if match]


def _explain(run: ReadRun, kind: FaultKind, guesses: list[tuple[RunCall, CodeFault]]) -> RuleMatch | None:
    first, fault = guesses[0]
    lookups = [call for call in run.calls if not call.error and _lists_names(call, kind)]
    if _have_shown([call for call in lookups if call.index < first.index], first, kind):
        # The names had been shown; why they were not used, nothing tells.
        return None
    lookup = next((call for call in lookups if call.index > first.index), None)
    names = {guess.name for _, guess in guesses}
    if kind is FaultKind.FILE and len(names) < MIN_PATHS and not (lookup and _was_found(run, lookup, fault)):
        # One path that does not exist is how agents find out, unless a search finds the file elsewhere.
        return None
    if lookup is None:
        # A guess that was right at the second try is no reason to look things up.
        if len(guesses) < MIN_GUESSES or (kind, fault.database) not in _USUAL:
            return None
        return _make_match(run, kind, guesses, how=code(_USUAL[kind, fault.database]), lookup=None, fixed=None)
    fixed = next((c for c in run.calls if c.index > lookup.index and c.name == first.name and _is_query(c)), None)
    if fixed is None or len(run.between(lookup, fixed)) > MAX_CALLS_BETWEEN or fault.name in code_of(fixed).split():
        return None
    return _make_match(run, kind, guesses, how=_how(lookup, fault), lookup=lookup, fixed=fixed)


def _was_found(run: ReadRun, lookup: RunCall, fault: CodeFault) -> bool:
    """Return whether a lookup showed a file of the missing one's name in another folder, and a later call took it."""
    path, name = fault.name, fault.name.rpartition("/")[2]
    if "." not in name:
        return False
    shown = re.findall(rf"(?<![\w./-])[\w./-]{{0,200}}/{re.escape(name)}(?![\w/.-])", lookup.answer[:MAX_ANSWER_CHARS])
    others = {other.removeprefix("./") for other in shown} - {path.removeprefix("./")}
    return any(other in code_of(c) for c in run.calls if c.index > lookup.index and not c.error for other in others)


def _have_shown(lookups: list[RunCall], failed: RunCall, kind: FaultKind) -> bool:
    """Return whether earlier lookups had listed the names, those of columns for every table of the query."""
    asked = "\n".join(code_of(call) for call in lookups)
    tables = [name.rpartition(".")[2] for name in _TABLE.findall(code_of(failed))]
    # A lookup that names no table, such as one by a tool, may have listed the columns of all.
    if kind is FaultKind.COLUMN and asked and tables:
        return all(re.search(rf"\b{re.escape(table)}\b", asked, re.IGNORECASE) for table in tables)
    return bool(lookups)


def _lists_names(call: RunCall, kind: FaultKind) -> bool:
    text = code_of(call)
    if text:
        return _LOOKUPS[kind].search(text) is not None
    words = set(words_of(call.name))
    return _THINGS[kind] in words or ("schema" in words and bool(words & _LOOKUP_TOOL))


def _is_query(call: RunCall) -> bool:
    """Return whether a call ran code that does more than list names."""
    text = code_of(call)
    return bool(text) and not call.error and not any(pattern.search(text) for pattern in _LOOKUPS.values())


def _how(lookup: RunCall, fault: CodeFault) -> str:
    """Return what to call the lookup: the tool, or the words of the statement that list the names."""
    match = _LOOKUPS[fault.kind].search(code_of(lookup))
    if match is None:
        return code(lookup.name)
    if lookup.command and fault.kind is FaultKind.FILE:
        return code(lookup.command.program)
    usual = _USUAL.get((fault.kind, fault.database), "")
    return code(usual if match[0].lower()[:4] in usual.lower() else match[0])


def _make_match(
    run: ReadRun,
    kind: FaultKind,
    guesses: list[tuple[RunCall, CodeFault]],
    *,
    how: str,
    lookup: RunCall | None,
    fixed: RunCall | None,
) -> RuleMatch:
    first, fault = guesses[0]
    tool, things = code(first.label), _THINGS[kind]
    ending = "the run never listed them"
    if lookup and fixed:
        ending = f"{how} at step {lookup.index} listed them, and step {fixed.index} worked"
    cited = [run.cite(call.step, guess.text) for call, guess in guesses[:2]]
    cited += [run.cite(call.step, call.quotable) for call in (lookup, fixed) if call]
    return RuleMatch(
        rule="guessed_name",
        trigger=f"When about to use {tool} on {_OWNERS[kind]} whose {things} no answer has shown yet",
        guideline=f"First list the {things} with {how}, then copy them from its answer.",
        avoid=f"Guessing names of {things}, and guessing again after an error.",
        rationale=(
            f"{tool} was given {things} that do not exist {times(len(guesses))}, first at step {first.index} "
            f"(`{fault.name}`); {ending}. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.85 if fixed else 0.8,
        citations=tuple(cited),
        tools=tuple(dict.fromkeys(call.name for call in (first, lookup) if call)),
    )
