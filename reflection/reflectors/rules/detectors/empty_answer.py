"""Searches of a failed run returned nothing again and again, and the calls show which part of them to change."""

import re
from statistics import mean

from reflection.reflectors.rules.code_faults import code_of
from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun, RunCall, is_empty
from reflection.reflectors.rules.tools import is_change
from reflection.reflectors.rules.wording import code, is_general, listed, parameter_name, times

MIN_EMPTY = 4
MIN_EMPTY_OF_TOOL = 3
MIN_HITS = 2
MAX_NAME_WORDS = 3
LONGER_BY = 1.4  # how many times as many words as in searches that found something
_FILTER = re.compile(
    r"\b(?:FILTER|HAVING|MINUS)\b|\bWHERE\s[\w.\"`]{1,60}\s?(?:[=<>]|(?:NOT )?(?:LIKE|IN)\b)", re.IGNORECASE
)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for tools of a failed run whose searches were empty four times, or three times among four of the run."""
    empty: dict[str, list[RunCall]] = {}
    for call in run.calls:
        if is_empty(call) and not is_change(call.name) and is_general(code(call.name)):
            empty.setdefault(call.name, []).append(call)
    if not run.failed or sum(map(len, empty.values())) < MIN_EMPTY:
        return []
    matches = []
    for name, calls in empty.items():
        hits = [call for call in run.calls if call.name == name and not call.error and not is_empty(call)]
        if len(calls) >= MIN_EMPTY_OF_TOOL:
            match = _same_argument(run, calls, hits) or _long_phrases(run, calls, hits) or _filters(run, calls, hits)
            matches += [match] if match else []
    return matches


def _same_argument(run: ReadRun, calls: list[RunCall], hits: list[RunCall]) -> RuleMatch | None:
    """Propose to change the one argument that all searches had in common while the others were varied."""
    paths = set.intersection(*(set(call.leaves) for call in calls))
    kept = [path for path in sorted(paths) if len({call.leaves[path] for call in calls}) == 1]
    kept = [path for path in kept if isinstance(calls[0].leaves[path][0], str)]
    varied = sorted({path for call in calls for path in call.leaves} - set(kept))
    is_varied = len({repr(call.arguments) for call in calls}) >= MIN_EMPTY
    if hits or len(kept) != 1 or not varied or not is_varied or not all(map(is_general, (*kept, *varied))):
        return None
    tool, same, others = code(calls[0].name), parameter_name(kept[0]), listed([parameter_name(p) for p in varied])
    return _make_match(
        run,
        calls,
        trigger=f"When {tool} has returned nothing twice for the same {same}",
        guideline=(
            f"Change {same}, or leave it out if the tool allows that, and let {others} select alone: a value of {same} "
            f"that fits no entry finds nothing, whatever {others} say."
        ),
        avoid=f"Searching again with the same {same} and only other values of {others}.",
        why=f"with the same {same} each time; only {others} were changed",
    )


def _long_phrases(run: ReadRun, calls: list[RunCall], hits: list[RunCall]) -> RuleMatch | None:
    """Propose short names where the searches that found something had far fewer words."""
    alone = [call for call in hits if not code_of(call) and len(call.leaves) == 1]
    phrases = [call for call in calls if not code_of(call) and len(call.leaves) == 1]
    if len(phrases) < MIN_EMPTY_OF_TOOL or len(alone) < min(MIN_HITS, len(hits)):
        return None
    short, long = [_count_words(call) for call in alone], [_count_words(call) for call in phrases]
    if hits and (len(hits) < MIN_HITS or max(short) > MAX_NAME_WORDS or mean(long) < LONGER_BY * mean(short)):
        return None
    # Where no search found anything, all of them have to be long, and different.
    if not hits and (min(long) < MAX_NAME_WORDS or len({_text_of(call) for call in phrases}) < MIN_EMPTY):
        return None
    found = f"what found something had {mean(short):.1f}" if short else "no search found anything"
    tool = code(calls[0].name)
    return _make_match(
        run,
        phrases,
        trigger=f"When {tool} returns nothing for a phrase",
        guideline=(
            "Search for one thing at a time, by its own name of one to three words, and connect what is found "
            "afterwards, with another call or a query."
        ),
        avoid="Putting several things into one search, or trying the same words in another order.",
        why=f"for phrases of {mean(long):.1f} words on average; {found}",
    )


def _filters(run: ReadRun, calls: list[RunCall], hits: list[RunCall]) -> RuleMatch | None:
    """Propose to look at the values where queries with a filter were empty, and were not without one."""
    filtered = [call for call in calls if _FILTER.search(code_of(call) or _text_of(call))]
    if len(filtered) < MIN_EMPTY_OF_TOOL:
        return None
    bare = next((call for call in hits if not _FILTER.search(code_of(call) or _text_of(call))), None)
    tool = code(calls[0].name)
    return _make_match(
        run,
        filtered,
        trigger=f"When a query with a filter returns nothing from {tool}",
        guideline=(
            "Run it once without the filter and print the values that the filter compares, then write the filter for "
            "values of this form and type, and test one condition at a time."
        ),
        avoid="Writing the next filter without having seen the values.",
        why="each time with a filter" + (f"; a query without one returned rows at step {bare.index}" if bare else ""),
        more=bare,
    )


def _count_words(call: RunCall) -> int:
    return len(_text_of(call).split())


def _text_of(call: RunCall) -> str:
    return " ".join(str(value) for values in call.leaves.values() for value in values)


def _make_match(
    run: ReadRun,
    calls: list[RunCall],
    *,
    trigger: str,
    guideline: str,
    avoid: str,
    why: str,
    more: RunCall | None = None,
) -> RuleMatch:
    return RuleMatch(
        rule="empty_answer",
        trigger=trigger,
        guideline=guideline,
        avoid=avoid,
        rationale=f"{code(calls[0].name)} returned nothing {times(len(calls))}, {why}. {run.ending}",
        polarity="avoid",
        confidence=0.7,
        citations=(*(run.cite(call.step, call.answer) for call in calls[:3]), *([run.cite(more.step)] if more else ())),
        tools=(calls[0].name,),
    )
