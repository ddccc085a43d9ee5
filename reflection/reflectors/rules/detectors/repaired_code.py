"""Code or a query ended with an exception, and what made it run, or what the exception tells, is the lesson."""

import re
from collections.abc import Callable

from memory.heuristics.text import Citation
from reflection.reflectors.rules.code_faults import CodeFault, FaultKind, code_of, next_that_ran, read_fault
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.wording import code, is_general, times

MAX_CALLS_BETWEEN = 8
MIN_TRIES = 2

_ATTRIBUTES = re.compile(r"\.([A-Za-z_]\w{0,80})")
_CALLED = re.compile(r"(?<![\w.])([A-Za-z_]\w{0,80})(?=\()")
_KEYWORDS = re.compile(r"(?<=[(,\s])([A-Za-z_]\w{0,80})=(?!=)")
_IMPORT_LINE = re.compile(r"^[ \t]{0,20}((?:from [\w.]{1,80} )?import [^\n;#]{1,100})", re.MULTILINE)
_MODULE = re.compile(r"(?:from|import) ([\w.]{1,80})")
_INSTALL = re.compile(r"\b(?:pip3?|conda|apt-get|apt|npm|uv pip) (?:install|add) [^\n;&|]{1,80}")
_DEFINED = re.compile(r"^[ \t]{0,20}(?:def|function) \w", re.MULTILINE)
_MEANT = re.compile(r"Did you mean: '(\w{1,80})'")

_OF_TESTS = frozenset([FaultKind.TESTED_NAME, FaultKind.SIGNATURE])
_STANDARD_WORDS = """
array bisect collections copy csv datetime decimal fractions functools glob heapq io itertools json logging math
operator os pathlib pickle random re shutil statistics string subprocess sys tempfile threading time typing unittest
uuid zlib
"""
_STANDARD_MODULES = frozenset(_STANDARD_WORDS.split())
# Names that the standard library, or a usual alias, has given to everyone
_USUAL_IMPORTS = {
    name: f"from {module} import {name}"
    for module, names in {
        "collections": "Counter OrderedDict defaultdict deque namedtuple",
        "dataclasses": "dataclass",
        "functools": "cmp_to_key lru_cache partial reduce",
        "itertools": "accumulate chain combinations groupby permutations product zip_longest",
        "math": "ceil floor gcd sqrt",
        "pathlib": "Path",
        "typing": "Any Dict Iterable List Optional Set Tuple Union",
    }.items()
    for name in names.split()
} | {"np": "import numpy as np", "pd": "import pandas as pd", "plt": "import matplotlib.pyplot as plt"}

# The trigger, what to do, and what is to be avoided
_Repair = tuple[str, str, str]


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for code that failed in a way a rule knows, and the next code of the same tool that ran."""
    matches: dict[str, RuleMatch] = {}
    for failed in run.calls:
        text = code_of(failed)
        fault = read_fault(failed) if text else None
        if fault is None:
            continue
        match = _of_tested_name(run, failed, fault) or _of_repair(run, failed, fault) or _unrepaired(run, failed, fault)
        if match:
            matches.setdefault(match.trigger, match)
    return list(matches.values())


def _of_repair(run: ReadRun, failed: RunCall, fault: CodeFault) -> RuleMatch | None:
    """Describe what the next code that ran has otherwise."""
    fixed = next_that_ran(run.calls, failed)
    if fixed is None or fault.kind not in _REPAIRS or len(run.between(failed, fixed)) > MAX_CALLS_BETWEEN:
        return None
    repair = _REPAIRS[fault.kind](run, failed, fixed, fault)
    return _make_match(run, failed, fixed, fault, repair) if repair else None


def _unrepaired(run: ReadRun, failed: RunCall, fault: CodeFault) -> RuleMatch | None:
    """Describe what the exception alone tells, where no later code did better."""
    tool, name = code(failed.label), fault.name
    if run.succeeded or next_that_ran(run.calls, failed):
        return None
    repair: _Repair | None = None
    if fault.kind is FaultKind.UNDEFINED:
        line = _USUAL_IMPORTS.get(name) or (f"import {name}" if name in _STANDARD_MODULES else "")
        earlier = [c for c in run.calls if c.index < failed.index and c.name == failed.name and not c.error]
        if line and line not in _import_lines(failed):
            repair = _say_import(tool, name, line)
        elif any(_assigns(name).search(code_of(call)) for call in earlier):
            repair = _say_lost(tool)
    elif fault.kind is FaultKind.ATTRIBUTE and (meant := _MEANT.search(failed.output[-2000:])):
        wrong = code(f".{name}")
        repair = (
            f"When about to use {wrong} of {code(fault.owner)} in code for {tool}",
            f"Use {code(f'.{meant[1]}')} instead: {code(fault.owner)} has no {wrong} here.",
            "",
        )
    elif fault.kind is FaultKind.MODULE:
        module = name.partition(".")[0]
        tries = [c for c in run.calls if c.error and c.name == failed.name and module in _all_modules(c)]
        if len(tries) >= MIN_TRIES:
            trigger = f"When about to import {code(module)} in code for {tool}"
            repair = trigger, f"Do without {code(module)}: it is not installed here.", ""
    return _make_match(run, failed, None, fault, repair) if repair else None


def _say_import(tool: str, name: str, line: str) -> _Repair:
    return (
        f"When about to use {code(name)} in code for {tool}",
        f"Write {code(line)} in the same code first: {code(name)} is not there by itself.",
        "",
    )


def _say_lost(tool: str) -> _Repair:
    return (
        f"When code for {tool} uses a variable or function that an earlier call defined",
        f"Define or load it again in the same code: what one call of {tool} defines does not exist in the next.",
        "Taking for granted that names survive from one call to the next.",
    )


def _assigns(name: str) -> re.Pattern[str]:
    return re.compile(rf"^[ \t]{{0,20}}(?:def |class )?{re.escape(name)}\b(?: ?=[^=]|\()", re.MULTILINE)


def _define(run: ReadRun, failed: RunCall, fixed: RunCall, fault: CodeFault) -> _Repair | None:
    """Tell a forgotten import from a name that an earlier call had defined."""
    tool, name = code(failed.label), fault.name
    imported = re.compile(rf"\b{re.escape(name)}\b")
    line = next((line for line in _import_lines(fixed) if imported.search(line)), "")
    if line and line not in _import_lines(failed):
        return _say_import(tool, name, line)
    assigned = _assigns(name)
    earlier = [c for c in run.calls if c.index < failed.index and c.name == failed.name and not c.error]
    if any(assigned.search(code_of(call)) for call in earlier) and assigned.search(code_of(fixed)):
        return _say_lost(tool)
    return None


def _replace_module(run: ReadRun, failed: RunCall, fixed: RunCall, fault: CodeFault) -> _Repair | None:
    """Tell a module that was installed from one that the next code did without."""
    tool, name = code(failed.label), fault.name.partition(".")[0]
    if not any(name in _modules(line) for line in _import_lines(failed)):
        return None
    trigger = f"When about to import {code(name)} in code for {tool}"
    installs = [m[0].strip() for c in run.between(failed, fixed) if not c.error and (m := _INSTALL.search(code_of(c)))]
    if any(name in _modules(line) for line in _import_lines(fixed)):
        return (trigger, f"First run {code(installs[-1])}: it is not installed here.", "") if installs else None
    before = {module for line in _import_lines(failed) for module in _modules(line)}
    others = [m for line in _import_lines(fixed) for m in _modules(line) if m not in before]
    if len(others) == 1:
        return trigger, f"Use {code(others[0])} instead: {code(name)} is not installed here.", ""
    return trigger, f"Do without {code(name)}: it is not installed here.", ""


def _import_elsewhere(run: ReadRun, failed: RunCall, fixed: RunCall, fault: CodeFault) -> _Repair | None:
    named = re.compile(rf"\b{re.escape(fault.name)}\b")
    line = next((line for line in _import_lines(fixed) if named.search(line)), "")
    if not line or line in _import_lines(failed):
        return None
    wrong = code(f"from {fault.owner} import {fault.name}")
    return f"When about to write {wrong} in code for {code(failed.label)}", f"Write {code(line)} instead.", ""


def _use_attribute(run: ReadRun, failed: RunCall, fixed: RunCall, fault: CodeFault) -> _Repair | None:
    tool, owner, wrong = code(failed.label), code(fault.owner), code(f".{fault.name}")
    before, after = _names(_ATTRIBUTES, failed), _names(_ATTRIBUTES, fixed)
    if fault.owner == "NoneType":
        return None
    trigger = f"When about to use {wrong} of {owner} in code for {tool}"
    dotted = re.compile(rf"(?<![\w.])((?:[A-Za-z_]\w{{0,40}}\.){{1,4}}{re.escape(fault.name)})\b")
    paths = [path for path in _names(dotted, fixed) if path not in _names(dotted, failed)]
    if f"{fault.owner}.{fault.name}" in _names(dotted, failed) and len(paths) == 1:
        return trigger, f"Write {code(paths[0])} instead: {owner} itself has no {wrong}.", ""
    meant = _MEANT.search(failed.output[-2000:])
    new = [meant[1]] if meant and meant[1] in after else [name for name in after if name not in before]
    if fault.name in after or len(new) != 1:
        return None
    return trigger, f"Use {code(f'.{new[0]}')} instead: {owner} has no {wrong} here.", ""


def _change_keyword(run: ReadRun, failed: RunCall, fixed: RunCall, fault: CodeFault) -> _Repair | None:
    """Tell a parameter that is called otherwise from one that does not exist."""
    before, after = _names(_KEYWORDS, failed), _names(_KEYWORDS, fixed)
    function, wrong = fault.owner.removesuffix("__init__"), code(fault.name)
    if fault.name in after or not function or function not in code_of(fixed):
        return None
    trigger = f"When about to pass {wrong} to {code(function)} in code for {code(failed.label)}"
    new = [name for name in after if name not in before]
    if len(new) == 1:
        return trigger, f"Pass {code(new[0])} instead: {code(function)} takes no {wrong}.", ""
    return (trigger, f"Leave it out: {code(function)} takes no {wrong}.", "") if not new else None


def _use_function(run: ReadRun, failed: RunCall, fixed: RunCall, fault: CodeFault) -> _Repair | None:
    before, after = ({name.lower() for name in _names(_CALLED, call)} for call in (failed, fixed))
    new = sorted(after - before - {"in", "values", "and", "or"})
    if fault.name.lower() in after or len(new) != 1:
        return None
    wrong = code(fault.name)
    trigger = f"When about to use {wrong} in a query with {code(failed.label)}"
    return trigger, f"Use {code(new[0])} instead: this database has no function {wrong}.", ""


def _qualify(run: ReadRun, failed: RunCall, fixed: RunCall, fault: CodeFault) -> _Repair | None:
    name = fault.name.rpartition(".")[2]
    if not re.search(rf"[\w`\"\]]\.[`\"\[]?{re.escape(name)}\b", code_of(fixed), re.IGNORECASE):
        return None
    return (
        f"When a query with {code(failed.label)} joins tables that may share the name of a column",
        "Write the table or its alias in front of every column, as in `t.name`.",
        "Naming a column without its table if several of the tables have it.",
    )


def _group(run: ReadRun, failed: RunCall, fixed: RunCall, fault: CodeFault) -> _Repair | None:
    return (
        f"When a query with {code(failed.label)} selects plain columns beside an aggregate such as `COUNT` or `SUM`",
        "Name every plain column of `SELECT` in `GROUP BY` too, or put it into an aggregate.",
        "",
    )


_REPAIRS: dict[FaultKind, Callable[[ReadRun, RunCall, RunCall, CodeFault], _Repair | None]] = {
    FaultKind.UNDEFINED: _define,
    FaultKind.MODULE: _replace_module,
    FaultKind.IMPORT: _import_elsewhere,
    FaultKind.ATTRIBUTE: _use_attribute,
    FaultKind.ARGUMENT: _change_keyword,
    FaultKind.FUNCTION: _use_function,
    FaultKind.AMBIGUOUS: _qualify,
    FaultKind.GROUPING: _group,
}


def _of_tested_name(run: ReadRun, failed: RunCall, fault: CodeFault) -> RuleMatch | None:
    """Describe code that defines a function under another name, or with other arguments, than the failing test."""
    tool, text = code(failed.label), code_of(failed)
    if fault.kind not in _OF_TESTS or not _DEFINED.search(text) or not _is_tested(fault, text):
        return None
    if fault.kind is FaultKind.SIGNATURE:
        return _of_tested_arguments(run, failed, fault)
    tries = [c for c in run.calls if c.name == failed.name and c.error and fault.name not in code_of(c)]
    fixed = next((c for c in run.calls if c.index > failed.index and not c.error and fault.name in code_of(c)), None)
    # Some test passed where the score is above zero, so the name is not what is wrong.
    if fixed is None and (run.succeeded or run.episode.score or len(tries) < MIN_TRIES):
        return None
    end = f"under that name it ran at step {fixed.index}" if fixed else f"this happened {times(len(tries))}"
    return RuleMatch(
        rule="repaired_code",
        trigger=f"When code for {tool} is checked by a test that calls a function by a name of its own",
        guideline="Define the function under exactly the name, and with the arguments, that the failing test uses.",
        avoid="Changing what the function does while the test calls another name.",
        rationale=(
            f"At step {failed.index} the failing test called `{fault.name}`, which the code did not define; {end}. "
            f"{run.ending}"
        ),
        polarity="mixed",
        confidence=0.8,
        citations=(run.cite(failed.step, fault.text), *((run.cite(fixed.step),) if fixed else ())),
        tools=(failed.name,),
    )


def _is_tested(fault: CodeFault, text: str) -> bool:
    """Return whether a name is one that a test calls, and not the code itself."""
    calls = len(re.findall(rf"\b{re.escape(fault.name)}\(", text))
    if fault.kind is FaultKind.SIGNATURE:
        # Once, where it is defined
        return calls == 1 and re.search(rf"\bdef {re.escape(fault.name)}\(", text) is not None
    return fault.name not in text


def _of_tested_arguments(run: ReadRun, failed: RunCall, fault: CodeFault) -> RuleMatch:
    return RuleMatch(
        rule="repaired_code",
        trigger=f"When code for {code(failed.label)} defines a function that a test calls",
        guideline="Give the function exactly the arguments, in number and order, with which the test calls it.",
        rationale=(
            f"At step {failed.index} the code defined `{fault.name}` and did not call it; the test called it with "
            f"another number of arguments. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.8,
        citations=(run.cite(failed.step, fault.text),),
        tools=(failed.name,),
    )


def _all_modules(call: RunCall) -> set[str]:
    return {module for line in _import_lines(call) for module in _modules(line)}


def _import_lines(call: RunCall) -> list[str]:
    return [" ".join(line.split()) for line in _IMPORT_LINE.findall(code_of(call))]


def _modules(line: str) -> set[str]:
    """Return the top modules that an import line names."""
    return {name.partition(".")[0] for name in _MODULE.findall(line.partition(" import ")[0] or line)}


def _names(pattern: re.Pattern[str], call: RunCall) -> list[str]:
    return list(dict.fromkeys(pattern.findall(code_of(call))))


def _make_match(run: ReadRun, failed: RunCall, fixed: RunCall | None, fault: CodeFault, repair: _Repair) -> RuleMatch:
    trigger, guideline, avoid = repair
    assert failed.error is not None
    cited: tuple[Citation, ...] = ()
    ending = "no later code ran"
    if fixed:
        # A quote of the change itself, if it stands in one line.
        shown = next((name for name in re.findall(r"`([^`]+)`", guideline) if name in code_of(fixed)), "")
        cited, ending = (run.cite(fixed.step, shown),), f"the changed code at step {fixed.index} brought no error"
    said = fault.text if is_general(fault.text) else failed.error.shape
    return RuleMatch(
        rule="repaired_code",
        trigger=trigger,
        guideline=guideline,
        avoid=avoid,
        rationale=(f'The code at step {failed.index} ended with "{said}"; {ending}. {run.ending}'),
        polarity="mixed",
        confidence=0.8 if fixed else 0.75,
        citations=(run.cite(failed.step, fault.text), *cited),
        tools=(failed.name,),
    )
