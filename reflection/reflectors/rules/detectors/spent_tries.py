"""A task allows only a few tries, and the run spent them on looking and on refused calls."""

import builtins
import re

from reflection.reflectors.rules.code_faults import code_of
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.limits import find_limit
from reflection.reflectors.rules.run_view import ReadRun, RunCall
from reflection.reflectors.rules.tools import is_read, words_of
from reflection.reflectors.rules.verbs import BASES
from reflection.reflectors.rules.wording import code, is_general

MIN_SHARE = 0.6
_FIRST_WORD = re.compile(r"[A-Z][a-z]{2,15}\b")
_LOOKING_WORDS = "find look check list show read describe explain count locate search get see print inspect query"
_LOOKING = frozenset(_LOOKING_WORDS.split())
_WORDS = re.compile(r"[A-Za-z][a-z]+")
_FUNCTIONS = re.compile(r"\b([A-Za-z_]\w{1,60})\(")
_BUILTINS = frozenset(dir(builtins))


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for a failed run that used up such a limit, and whose calls never did what the task's first verb says."""
    limit = find_limit(run.episode)
    verb = _verb_of(run.episode.task)
    if not run.failed or limit is None or not verb:
        return []
    by_tool: dict[str, list[RunCall]] = {}
    for call in run.calls:
        by_tool.setdefault(call.name, []).append(call)
    name, calls = max(by_tool.items(), key=lambda item: len(item[1]), default=("", []))
    done = any(verb in _words_of(call) for call in run.calls)
    if (
        done
        or is_read(name)
        or not is_general(code(name))
        or not MIN_SHARE * limit.number <= len(calls) <= limit.number + 1
    ):
        return []
    refused = [call for call in calls if call.error]
    looked = [call for call in calls if not call.error]
    if not looked or not all(_only_looks(call) for call in looked):
        return []
    return [
        RuleMatch(
            rule="spent_tries",
            trigger=f"When the task allows only a few {limit.of_what}",
            guideline=(
                f"Do the change that the task asks for in the first call of {code(name)}, and print there what is "
                "needed to check it; look around only in the same call. A refused call counts as a try, too."
            ),
            avoid="Spending a call on looking alone, or on a construct that was refused before.",
            rationale=(
                f'The task allows "{limit.sentence}". Of {len(calls)} calls of {code(name)}, {len(refused)} were '
                f"refused and {len(looked)} only looked; none did what the task's verb {code(verb)} says. {run.ending}"
            ),
            polarity="avoid",
            confidence=0.5,
            citations=tuple(run.cite(call.step, call.quotable) for call in calls[:3]),
            tools=(name,),
        )
    ]


def _only_looks(call: RunCall) -> bool:
    """Return whether a program calls no function whose name says that it changes something."""
    functions = [name for name in _FUNCTIONS.findall(code_of(call)) if name not in _BUILTINS]
    verbs = {word for name in functions for word in words_of(name) if word in BASES} - _LOOKING
    return bool(functions) and not verbs


def _verb_of(task: str) -> str:
    """Return the verb with which a task begins, if it asks for a change."""
    match = _FIRST_WORD.match(task.strip())
    verb = match[0].lower() if match else ""
    return verb if verb in BASES and verb not in _LOOKING else ""


def _words_of(call: RunCall) -> set[str]:
    return {word.lower() for word in _WORDS.findall(f"{call.name} {call.arguments}")}
