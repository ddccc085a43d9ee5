"""A request was about all entries of a list, but only some were opened before acting."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from reflection.reflectors.rules.detectors import RuleMatch
from reflection.reflectors.rules.run_view import ReadRun, RunCall, is_reference
from reflection.reflectors.rules.tools import is_change, is_read
from reflection.reflectors.rules.wording import code, is_general

MIN_ENTRIES = 3
MAX_LISTS = 100

_ALL = re.compile(
    r"(?<!that's )(?<!that is )(?<!at )\b(?:all|every|each|both)\b(?: of)? "
    r"(?!i\b|we\b|for now|set\b|right\b|good\b|done\b|that\b|the best\b|details?\b)\w+",
    re.I,
)


@dataclass(frozen=True, kw_only=True)
class _Sweep:
    source: RunCall
    member: str
    entries: tuple[str, ...]
    opener: str
    parameter: str
    opened: tuple[RunCall, ...]

    @property
    def complete(self) -> bool:
        return {call.leaves[self.parameter][0] for call in self.opened} >= set(self.entries)


def find(run: ReadRun) -> list[RuleMatch]:
    """Look for an answer with a list of identifiers, and the calls that opened its entries."""
    if not _ALL.search(f"{run.episode.task}\n{run.heard_before(len(run.episode.steps) + 1)}"):
        return []
    for sweep in _sweeps(run):
        acted = [c for c in run.calls if is_change(c.name) and not c.error and c.index > sweep.opened[0].index]
        touched = {v for c in acted for values in c.leaves.values() for v in values} & set(sweep.entries)
        if len(touched) < 2:
            continue
        if run.failed and not sweep.complete and len(sweep.opened) >= 2:
            return [_make_match(run, sweep, acted, polarity="avoid")]
        if run.succeeded and sweep.complete:
            return [_make_match(run, sweep, acted, polarity="works")]
    return []


def _sweeps(run: ReadRun) -> Iterator[_Sweep]:
    seen: set[frozenset[str]] = set()
    for source in run.calls:
        if source.error or not is_read(source.name):
            continue
        for member, entries in _reference_lists(source.answer):
            listed = frozenset(entries)
            if listed in seen or len(seen) >= MAX_LISTS:
                continue
            seen.add(listed)
            opened: dict[tuple[str, str], list[RunCall]] = {}
            for call in run.calls:
                if call.index <= source.index or not is_read(call.name):
                    continue
                for path, values in call.leaves.items():
                    if values[0] in listed and is_general(path):
                        opened.setdefault((call.name, path), []).append(call)
            for (opener, parameter), calls in opened.items():
                yield _Sweep(
                    source=source,
                    member=member,
                    entries=entries,
                    opener=opener,
                    parameter=parameter,
                    opened=tuple(calls),
                )


def _make_match(run: ReadRun, sweep: _Sweep, acted: list[RunCall], *, polarity: str) -> RuleMatch:
    source, member, opener = code(sweep.source.name), code(sweep.member), code(sweep.opener)
    distinct = len({call.leaves[sweep.parameter][0] for call in sweep.opened})
    return RuleMatch(
        rule="incomplete_sweep",
        trigger=f"When the request is about all entries in the {member} that {source} lists",
        guideline=(
            f"Call {opener} for every entry of {member} before proposing or changing anything; then act on each one "
            "that fits, and name them all to the user."
        ),
        avoid="Stopping at the first entries that fit." if polarity == "avoid" else "",
        rationale=(
            f"{source} listed {len(sweep.entries)} {sweep.member} at step {sweep.source.index}; the run opened "
            f"{distinct} of them with {opener} before {code(acted[0].name)} at step {acted[0].index}. {run.ending}"
        ),
        polarity=polarity,
        confidence=0.9 if polarity == "avoid" else 0.8,
        citations=(
            run.cite(sweep.source.step, sweep.entries[-1]),
            run.cite(sweep.opened[0].step, last=sweep.opened[-1].step),
            run.cite(acted[0].step),
        ),
        tools=(sweep.source.name, sweep.opener),
    )


def _reference_lists(answer: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return
    yield from _lists_in(value, "")


def _lists_in(value: Any, name: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if isinstance(value, dict):
        for member, item in value.items():
            yield from _lists_in(item, member)
    elif isinstance(value, list) and name and is_general(name) and _are_references(value):
        yield name, tuple(value)


def _are_references(values: list[Any]) -> bool:
    return len(values) >= MIN_ENTRIES and all(is_reference(value) for value in values)
