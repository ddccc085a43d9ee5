"""A check failed again and again after edits, and nothing was read in between."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.errors import last_raised
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.wording import code, is_general, listed, times

MIN_EDITS = 3
MAX_NAMES = 2
MAX_OUTPUT_CHARS = 4000
_FILE = re.compile(r"(?<![\w./-])[\w./-]{1,160}\.(?:py|md|txt|rst|js|ts|java|rb|go|rs|c|h|cpp|sh)\b")
_SAYS_WHAT_IS_WANTED = re.compile(r"^(?:readme|contributing|usage|spec)|(?:^|_)(?:tests?|checks?|spec)(?:_|\.)", re.I)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for the longest row of such edits in a failed run."""
    if not run.failed:
        return []
    rows: list[list[tuple[RunCall, RunCall, str]]] = [[]]
    edit: RunCall | None = None
    for call in run.calls:
        if call.is_edit and not call.error:
            edit = call
        elif call.only_reads and not call.is_check:
            rows.append([])
            edit = None
        if edit and (message := _failure_in(call)):
            if rows[-1] and rows[-1][-1][2] != message:
                rows.append([])
            rows[-1].append((edit, call, message))
            edit = None
    row = max(rows, key=len)
    return [_make_match(run, row)] if len(row) >= MIN_EDITS else []


def _failure_in(call: RunCall) -> str:
    """Return the last line of what a check raised, in the answer of an edit or of a call that runs the code."""
    text = call.output[:MAX_OUTPUT_CHARS]
    return last_raised(text) or last_raised(text.replace("\\n", "\n")) or (call.quotable if call.is_red else "")


def _make_match(run: ReadRun, row: list[tuple[RunCall, RunCall, str]]) -> RuleMatch:
    edit, _, message = row[0]
    names = _unread(run, before=row[-1][1].index)
    tool = code(edit.name)
    kind = message.partition(":")[0]
    # A bare `AssertionError` says only that two values differ.
    look = (
        "" if ":" in message else " As the message shows no value, run the code on a small input and print the result."
    )
    unread = listed([code(name) for name in names])
    files = f", {unread} included if the workspace has {'it' if len(names) == 1 else 'them'}" if names else ""
    return RuleMatch(
        rule="blind_edits",
        trigger=f"When a check fails again with the same message after a second {tool}",
        guideline=f"Before the next edit, read the edited file as it is now and what the check wants{files}.{look}",
        avoid="Trying one variant of the same lines after another without reading anything.",
        rationale=(
            f"{times(len(row)).capitalize()} an edit was followed by the same {code(kind)}, from step {edit.index} to "
            f"step {row[-1][1].index}, and nothing was read in between. {run.ending}"
        ),
        polarity="avoid",
        confidence=0.66,
        citations=tuple(run.cite(check.step, message) for _, check, message in (row[0], row[-1])),
        tools=(edit.name,),
    )


def _unread(run: ReadRun, *, before: int) -> list[str]:
    """Return names of tests and descriptions that the run was shown and did not open."""
    opened = "\n".join(str(call.arguments) for call in run.calls if call.only_reads and call.index < before)
    paths = _FILE.findall(run.text_before(before)[: 10 * MAX_OUTPUT_CHARS])
    shown = dict.fromkeys(path.rpartition("/")[2] for path in paths)
    names = [name for name in shown if _SAYS_WHAT_IS_WANTED.search(name) and name not in opened]
    return [name for name in names if is_general(code(name))][:MAX_NAMES]
