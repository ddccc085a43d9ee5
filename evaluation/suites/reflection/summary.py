"""What the suite `reflection` reports: the tokens of a prompt, and what became of the answers at each station."""

from collections import Counter
from typing import Any

from evaluation.reports.figures import estimate_json
from evaluation.reports.statistics import bootstrap_mean
from evaluation.suites.base import UnitResult
from evaluation.suites.reflection.recording import LIVE, THEN, read_answers, read_verdicts

STATIONS, TOKENS = "What became of the answers", "Tokens of a prompt, by what it shows"
INSTRUCTIONS, WHOLE = "instructions", "in all"
# Flags that say which other lesson one repeats or may repeat: whether two say the same is judged by pairs.
OF_DUPLICATES = frozenset({"may_repeat", "may_repeat_given", "other_words"})


def summarise_answers(units: dict[str, UnitResult]) -> dict[str, Any]:
    """Return the report of the arms, beside what version 0.2.0 did with the recorded answers."""
    stations = {THEN: read_verdicts()["then"]} | {name: _count_stations(name, unit) for name, unit in units.items()}
    prompts = {THEN: [calls["reflect"]["tokens"] for run, calls in read_answers().items() if _is_measured(run)]}
    prompts |= {
        name: [row["tokens"] for row in unit["rows"] if _is_measured(row["run"])] for name, unit in units.items()
    }
    figures = [
        _figure(f"{STATIONS}/{station}", name, [counts[station]]) | {"rows_are": "Station"}
        for station in dict.fromkeys(station for counts in stations.values() for station in counts)
        for name, counts in stations.items()
        if station in counts
    ]
    parts = dict.fromkeys(part for sizes in prompts.values() for prompt in sizes for part in prompt)
    for name, sizes in prompts.items():
        figures += [_figure(f"{TOKENS}/{name}", part, [prompt.get(part, 0) for prompt in sizes]) for part in parts]
        figures.append(_figure(f"{TOKENS}/{name}", WHOLE, [sum(prompt.values()) for prompt in sizes]))
    return {
        "headline": _write_headline(prompts, stations),
        "units": list(units),
        "n": max(len(unit["rows"]) for unit in units.values()),
        "arms": [],
        "figures": figures,
        "checks": [],
        "curve": [],
        "notes": [note for name, unit in units.items() for note in _describe(name, unit)],
        "main_figures": [*units, WHOLE],
        "power": "",
        "tasks": [],
        "per_task": {},
    }


def _count_stations(name: str, unit: UnitResult) -> dict[str, int]:
    rows = unit["rows"]
    flags = Counter(
        _judge(name, row["run"], code) for row in rows for code in row["flags"] if code not in OF_DUPLICATES
    )
    runs = {row["run"] for row in rows}
    pairs = read_verdicts(name)["duplicates"] if name != LIVE else []
    duplicates = {frozenset(pair) for pair in pairs if runs.issuperset(pair)}
    joined = {frozenset(pair["runs"]) for pair in unit["pairs"] if pair["joined"]}
    side_by_side = {frozenset(pair["runs"]) for pair in unit["pairs"]} - joined
    return {
        "runs": len(rows),
        "rules that decide": sum(len(read_verdicts()["rules"].get(row["run"], ())) for row in rows),
        "of these, shown": sum(row["rules"] for row in rows),
        "answers that could be read": sum(row["finished"] for row in rows),
        "answers that were repaired": sum(bool(row["repair_tokens"]) for row in rows),
        "nothing to learn": sum(row["finished"] and not row["lessons"] for row in rows),
        "lessons": sum(row["lessons"] for row in rows),
        "dropped": sum(row["lessons"] - row["stored"] for row in rows),
        "flagged rightly": flags[True],
        "flagged wrongly": flags[False],
        "flagged, not judged": flags[None],
        "duplicates in one row": len(duplicates & joined),
        "duplicates side by side": len(duplicates & side_by_side),
        "duplicates left": len(duplicates - joined - side_by_side),
        "others in one row": len(joined - duplicates),
        "others side by side": len(side_by_side - duplicates),
    }


def _judge(name: str, run: str, code: str) -> bool | None:
    """Return whether a reader found a flag on a recorded lesson right; None where none has judged it."""
    if name == LIVE:
        return None
    flags = read_verdicts(name)["flags"]
    return next((flag["right"] for flag in flags if (flag["run"], flag["code"]) == (run, code)), None)


def _describe(name: str, unit: UnitResult) -> list[str]:
    """Return in sentences which lessons were dropped, flagged and joined, and why."""
    notes = []
    for row in unit["rows"]:
        where = f"{name}, {row['run']}"
        if not row["finished"]:
            notes.append(f"{where}: no usable answer. {row['error']}")
        elif row["lessons"] > row["stored"]:
            notes.append(f"{where}: dropped. {row['skipped']}")
        for code, message in zip(row["flags"], row["messages"], strict=True):
            if code not in OF_DUPLICATES:
                verdict = {True: "rightly flagged", False: "wrongly flagged", None: "flagged"}[
                    _judge(name, row["run"], code)
                ]
                notes.append(f"{where}: {verdict} as {code}. {message}")
    for pair in unit["pairs"]:
        how = "became one row" if pair["joined"] else "are shown side by side"
        notes.append(f"{name}: the lessons of {pair['runs'][0]} and {pair['runs'][1]} {how}.")
    repairs = [row["repair_tokens"] for row in unit["rows"] if row["repair_tokens"]]
    if repairs:
        then = [sum(calls["repair"]["tokens"].values()) for calls in read_answers().values() if "repair" in calls]
        notes.append(
            f"{name}: a repair asks with {sum(repairs) // len(repairs):,} tokens; in {THEN} it was {then[0]:,}."
        )
    return notes


def _write_headline(prompts: dict[str, list[dict[str, int]]], stations: dict[str, dict[str, int]]) -> str:
    means = {
        name: sum(map(sum, (prompt.values() for prompt in sizes))) / max(len(sizes), 1)
        for name, sizes in prompts.items()
    }
    name = next(name for name in stations if name != THEN)
    counts = stations[name]
    return (
        f"A prompt has {means[name]:,.0f} tokens on average; in {THEN} it had {means[THEN]:,.0f}. "
        f"{counts['dropped']} of {counts['lessons']} lessons were dropped and {counts['flagged wrongly']} flagged "
        f"wrongly; {counts['duplicates left']} pairs of duplicates were left."
    )


def _is_measured(run: str) -> bool:
    """Say whether a run's prompt is measured: those of the test agent showed lessons that are not recorded here."""
    return not run.startswith("agent-")


def _figure(arm: str, name: str, values: list[int]) -> dict[str, Any]:
    """Return a count, or the mean of several with its interval."""
    return {"arm": arm, "name": name, "count": True} | estimate_json(bootstrap_mean(values, seed=0))
