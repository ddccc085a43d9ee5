"""An edit of a file was refused, and worked after what the error asks for."""

import re
from dataclasses import dataclass

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.wording import code, times

MAX_CALLS_BETWEEN = 10

_FILE = re.compile(r"(?:^|_)(?:path|file|filename|file_path|filepath|notebook_path|target_file)$")
_READ_TOOL = re.compile(r"read|open|view|cat|show|str_replace_based", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class _Refusal:
    """A way in which edit tools refuse: how the message says it, and what to do before the next edit."""

    said: re.Pattern[str]
    trigger: str
    guideline: str
    needs_read: bool = False
    is_order: bool = False  # the message itself says what to do
    needs_space: bool = False


_REFUSALS = (
    _Refusal(
        said=re.compile(r"not (?:yet )?been read|n't been read|read (?:it|the file) first|must (?:first )?read", re.I),
        trigger="When about to call {tool} on an existing file that has not been read in this session",
        guideline="Read the file first with {reader}; then call {tool}.",
        needs_read=True,
        is_order=True,
    ),
    _Refusal(
        said=re.compile(r"(?:modified|changed) (?:since|on disk)|has changed since|out of date", re.I),
        trigger="When about to call {tool} on a file that a command, a formatter or a person may have changed",
        guideline="Read the file again with {reader} and base the edit on its present text.",
        needs_read=True,
    ),
    _Refusal(
        said=re.compile(r"multiple (?:matches|occurrences)|\d (?:matches|occurrences)|not unique|more than once", re.I),
        trigger="When about to call {tool} with a text to replace that may occur more than once in the file",
        guideline="Include enough of the lines around it to make the text to replace unique.",
    ),
    _Refusal(
        said=re.compile(
            r"(?:string|text|old_str\w{0,16}|snippet|context|lines?)\b.{0,60}not (?:found|appear|match)|no match"
            r"|did not appear|(?:failed|could not|unable) to find|does not (?:match|contain)|did not match",
            re.I | re.S,
        ),
        trigger="When about to call {tool} with a text to replace that was not copied from the file's present text",
        guideline=(
            "Read the passage with {reader} right before the edit, and copy the text to replace exactly, with its "
            "spaces and line breaks."
        ),
        needs_read=True,
    ),
    _Refusal(
        said=re.compile(r"IndentationError|unexpected indent|unindent|expected an indented block", re.I),
        trigger="When about to replace indented lines with {tool}",
        guideline=(
            "Write every line of the replacement with its full indentation, counted from the first column of the file: "
            "{tool} refuses an edit with wrong indentation and leaves the file unchanged."
        ),
        needs_space=True,
    ),
)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for refused edits and the next edit of the same file that worked, one lesson for each kind of refusal."""
    matches: dict[str, RuleMatch] = {}
    for failed in (call for call in run.calls if call.is_edit and call.error):
        refusal = next((kind for kind in _REFUSALS if kind.said.search(failed.output)), None)
        if refusal is None or refusal.trigger in matches:
            continue
        fixed = next((c for c in run.calls if c.index > failed.index and _is_same_edit(failed, c)), None)
        if fixed is None and refusal.is_order and (match := _never_read(run, failed, refusal)):
            matches[refusal.trigger] = match
        if fixed is None or len(run.between(failed, fixed)) > MAX_CALLS_BETWEEN:
            continue
        if match := _make_match(run, failed, fixed, refusal):
            matches[refusal.trigger] = match
    return list(matches.values())


def _never_read(run: ReadRun, failed: RunCall, refusal: _Refusal) -> RuleMatch | None:
    """Repeat what the message asked for and the run never did."""
    names = dict.fromkeys((*(call.name for call in run.calls), *run.episode.tools))
    reader = next((name for name in names if re.search(r"(?:^|_)(?:read|open|view)", name, re.I)), "")
    if not reader or failed.error is None:
        return None
    tool = code(failed.label)
    tries = sum(call.name == failed.name and bool(call.error) for call in run.calls)
    return RuleMatch(
        rule="refused_edit",
        trigger=refusal.trigger.format(tool=tool),
        guideline=refusal.guideline.format(tool=tool, reader=code(reader)),
        avoid=f"Sending the same {tool} again.",
        rationale=f"{tool} was refused {times(tries)}, first at step {failed.index}, and never worked. {run.ending}",
        polarity="avoid",
        confidence=0.8,
        citations=(run.cite(failed.step, failed.error.text),),
        tools=(failed.name, reader),
    )


def _is_same_edit(failed: RunCall, later: RunCall) -> bool:
    return later.name == failed.name and not later.error and file_of(later) == file_of(failed)


def file_of(call: RunCall) -> str:
    """Return the path that a call names, or ""."""
    return next((str(v) for name, v in call.arguments.items() if _FILE.search(name) and isinstance(v, str)), "")


def _make_match(run: ReadRun, failed: RunCall, fixed: RunCall, refusal: _Refusal) -> RuleMatch | None:
    assert failed.error is not None
    reads = [c for c in run.between(failed, fixed) if not c.error and (c.only_reads or _READ_TOOL.search(c.label))]
    if refusal.needs_read and not reads:
        return None
    if refusal.needs_space and not _differs_in_space(failed, fixed):
        return None
    tool, reader = code(failed.label), code(reads[-1].label) if reads else ""
    line = next((line.strip() for line in failed.output.splitlines() if refusal.said.search(line)), failed.error.text)
    read_steps = (run.cite(reads[-1].step, reads[-1].quotable),) if refusal.needs_read else ()
    done = f"{reader} at step {reads[-1].index}" if refusal.needs_read else "its spaces alone had been changed"
    guideline = refusal.guideline.format(tool=tool, reader=reader)
    return RuleMatch(
        rule="refused_edit",
        trigger=refusal.trigger.format(tool=tool),
        guideline=guideline,
        avoid=f"Sending the same {tool} again.",
        rationale=(
            f"{tool} was refused at step {failed.index}; after {done} it worked at step {fixed.index}. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.8,
        citations=(run.cite(failed.step, line), *read_steps, run.cite(fixed.step)),
        tools=tuple(dict.fromkeys((failed.name, *(c.name for c in reads[-1:])))),
    )


def _differs_in_space(failed: RunCall, fixed: RunCall) -> bool:
    """Return whether two edits say the same apart from their spaces."""
    before, after = ("".join(str(c.leaves).replace("\\n", "").split()) for c in (failed, fixed))
    return before == after and failed.leaves != fixed.leaves
