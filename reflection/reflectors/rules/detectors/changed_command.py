"""Tests, a build or a script failed, and worked after another command or in another form, without any edit."""

import re

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.shell import parse_command
from reflection.reflectors.rules.wording import code

MAX_CALLS_BETWEEN = 8
MIN_REPEATS = 3

_ENVIRONMENT = re.compile(
    r"No module named|ModuleNotFoundError|ImportError|Cannot find module|command not found|not installed|node_modules"
    r"|could not connect|connection refused|No such file or directory|not (?:set|configured|found)"
    r"|No tests? (?:ran|found)"
    r"|DJANGO_SETTINGS|permission denied|out of date|run `|please run|need to run|missing script|lock ?file",
    re.IGNORECASE,
)
_DENIED = re.compile(r"permission denied", re.IGNORECASE)
_HINT = re.compile(r'(?<=\S) \(use "(\w+(?: [a-z-]+)?)')
_PREPARES = re.compile(
    r"\b(?:install|ci|sync|migrate|build|generate|compile|up|init|setup|configure|restore|download|start|bootstrap)\b"
)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for failing commands and what made the same program work."""
    matches: dict[str, RuleMatch] = {}
    for failed in (call for call in run.calls if call.command and (call.is_red or call.error)):
        if failed.is_unknown or not _ENVIRONMENT.search(failed.output) or failed.label in matches:
            continue
        fixed = next((c for c in run.calls if c.index > failed.index and _is_same_work(failed, c)), None)
        if fixed is None:
            continue
        between = run.between(failed, fixed)
        if len(between) > MAX_CALLS_BETWEEN or any(call.is_edit and not call.error for call in between):
            continue
        if match := _explain(run, failed, fixed, between):
            matches[failed.label] = match
    for match in _named_by_answer(run):
        matches.setdefault(match.trigger, match)
    return list(matches.values())


def _named_by_answer(run: ReadRun) -> list[RuleMatch]:
    """Look for a command that was repeated in vain, although its answer says which one to use first."""
    matches = []
    for call in run.calls:
        same = [c for c in run.calls if c.command and c.same_as(call) and c.output == call.output]
        hints = [line.strip() for line in call.output.splitlines() if _HINT.search(line)]
        if run.succeeded or len(same) < MIN_REPEATS or same[0] is not call or not hints:
            continue
        match = _HINT.search(hints[-1])
        first = parse_command(match[1]) if match else None
        if first is None or call.command is None or first.is_harmful or first.name == call.command.name:
            continue
        tool, other, hint = code(call.label), code(first.name), hints[-1].partition(" (use")[0]
        if call.label.split()[-1] not in hint.split():
            # The hint is about another command.
            continue
        matches.append(
            RuleMatch(
                rule="changed_command",
                trigger=f'When {tool} answers "{hint}"',
                guideline=f"First run {other}, which the answer names, then {tool}.",
                avoid=f"Running {tool} again without {other}.",
                rationale=(
                    f"{tool} ran {len(same)} times, from step {call.index} to step {same[-1].index}, with the same "
                    f"answer, which names {other}. {run.ending}"
                ),
                polarity="mixed",
                confidence=0.8,
                citations=tuple(run.cite(c.step, hints[-1]) for c in same[:2]),
                tools=(call.name,),
            )
        )
    return matches


def _is_same_work(failed: RunCall, later: RunCall) -> bool:
    if failed.command is None or later.command is None or later.error or later.is_red:
        return False
    if failed.command.is_test:
        return later.command.is_test and later.is_green
    if _DENIED.search(failed.output) and failed.command.text.split()[0] in later.command.arguments[:1]:
        # "./build.sh" is no program, "bash ./build.sh" is one.
        return True
    return failed.command.program == later.command.program and later.command.arguments == failed.command.arguments


def _explain(run: ReadRun, failed: RunCall, fixed: RunCall, between: list[RunCall]) -> RuleMatch | None:
    # Both are shell commands.
    assert failed.command is not None
    assert fixed.command is not None
    prepared = [c for c in between if c.command and not c.error and not c.is_red and _PREPARES.search(c.command.text)]
    if failed.command.text == fixed.command.text:
        if len(prepared) != 1 or prepared[0].command is None or prepared[0].command.is_harmful:
            return None
        tool, first = code(failed.label), code(prepared[0].label)
        trigger = f"When about to run {tool} for the first time in this environment"
        guideline = f"First run {first}: without it {tool} fails here."
        change, cited = f"After {first} at step {prepared[0].index}", prepared
    elif _DENIED.search(failed.output) and failed.command.text.split()[0] in fixed.command.arguments:
        tool, better = code(failed.label), code(fixed.command.program)
        trigger = "When about to run a script by its path, as in `./build.sh`"
        guideline = f"Give it to its interpreter, here {better}: without leave to execute it the path alone is denied."
        change, cited = f"Given to {better}", []
    else:
        if prepared or failed.label == fixed.label or fixed.command.is_harmful:
            return None
        tool, better = code(failed.label), code(fixed.label)
        trigger = f"When about to run {tool} in this environment"
        guideline = f"Run {better} instead: {tool} fails here before it does any work."
        change, cited = f"As {better}", []
    line = next((line.strip() for line in failed.output.splitlines() if _ENVIRONMENT.search(line)), "")
    return RuleMatch(
        rule="changed_command",
        trigger=trigger,
        guideline=guideline,
        rationale=(
            f"{tool} failed at step {failed.index} because something was missing in the environment, not in the code. "
            f"{change} it worked at step {fixed.index}, and no file was edited in between. {run.ending}"
        ),
        polarity="mixed",
        confidence=0.8,
        citations=(
            run.cite(failed.step, line),
            *(run.cite(call.step, call.quotable) for call in cited),
            run.cite(fixed.step, fixed.quotable),
        ),
        tools=(failed.name,),
    )
