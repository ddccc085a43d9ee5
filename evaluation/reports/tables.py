"""Arrange a report for people: a headline, tables that compare arms, and durations."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np

DENSE = 0.7  # share of cells that must be filled to print a table instead of a list
_TIMED = {
    "ingest_ms": "store one document",
    "record_ms": "store one run",
    "reflect_ms": "reflect on it",
    "approve_ms": "approve one lesson",
    "embed_ms": "embed one text",
    "block_ms": "write one block",
}


def write_headline(suite: dict[str, Any]) -> str:
    """Return the result in one or two sentences: the suite's own, that of its main arm, or none."""
    if headline := suite.get("headline"):
        return str(headline)
    row = next((arm for arm in suite["arms"] if arm["arm"] == suite.get("main")), None)
    bare = next((arm for arm in suite["arms"] if arm["arm"] == "none"), None)
    if row is None or bare is None or row is bare or not row["uplift"].get("n"):
        return ""
    if untested := _find_untested(suite, row):
        return f"Nothing was tested: {untested}"
    uplift = {edge: 100 * row["uplift"][edge] for edge in ("mean", "low", "high")}
    tied = [check["control"] for check in suite.get("checks", []) if check.get("control") and not check["passed"]]
    if tied:
        verdict = f"The controls fail, so this does not show that memory helps ({_name_tied(tied, suite['arms'])})"
    elif uplift["low"] > 0:
        verdict = "Memory helps here"
    elif uplift["high"] < 0:
        verdict = "Memory does harm here"
    # Only where every task ended the same way in both arms.
    elif uplift["low"] == uplift["high"]:
        verdict = "Memory changed nothing here"
    else:
        verdict = "These tasks do not show whether memory helps here"
    return (
        f"{verdict}: {row['arm']} solves {100 * row['success']['mean']:.1f}% of {suite['n']:,} new tasks, no lessons "
        f"{100 * bare['success']['mean']:.1f}%. That is {uplift['mean']:+.1f} points, 95% between "
        f"{uplift['low']:+.1f} and {uplift['high']:+.1f}."
    )


def _find_untested(suite: dict[str, Any], row: dict[str, Any]) -> str:
    """Return why the main arm says nothing about lessons, or nothing."""
    learned = suite.get("learned", {}).values()
    runs, approved = (sum(unit.get(name, 0) for unit in learned) for name in ("runs", "approved"))
    if learned and not approved:
        failed = sum(unit.get("failed", 0) for unit in learned)
        more = f" {failed} of the reflections on them failed." if failed else ""
        return f"no lesson was learnt from {runs:,} earlier runs.{more} Every arm ran without one."
    if row.get("lessons_mean") == 0:
        return f"{row['arm']} gave no lesson for any of the {suite['n']:,} new tasks."
    return ""


def _name_tied(tied: Sequence[str], arms: Sequence[dict[str, Any]]) -> str:
    shares = [f"{arm['arm']} {100 * arm['success']['mean']:.1f}%" for arm in arms if arm["arm"] in tied]
    return f"with lessons not chosen for the task: {', '.join(shares)}"


def group_figures(figures: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a table of arms by figures where most cells are filled, and lists for the rest.

    Figures of `metatool/hybrid:5` and `metatool/lexical:5` form one table named metatool. Paired differences between
    arms are listed below the table with their intervals.
    """
    tables: list[dict[str, Any]] = []
    for name, group in groupby(figures, key=_group_of):
        table = _tabulate(name, list(group))
        if tables and not table["columns"] and not tables[-1]["columns"]:
            tables[-1]["listed"] += table["listed"]
        else:
            tables.append(table)
    return tables


def _group_of(figure: dict[str, Any]) -> str:
    group: str = figure["arm"].rpartition("/")[0]
    return group


def _tabulate(group: str, figures: list[dict[str, Any]]) -> dict[str, Any]:
    plain = [figure for figure in figures if not figure.get("paired")]
    columns = list(dict.fromkeys(figure["name"] for figure in plain))
    arms = list(dict.fromkeys(figure["arm"] for figure in plain))
    # A table with mostly empty cells reads worse than a list.
    if len(arms) < 2 or len(columns) < 2 or len(plain) < DENSE * len(arms) * len(columns):
        return {"name": group, "columns": [], "rows": [], "listed": figures}
    cells = {(figure["arm"], figure["name"]): figure for figure in plain}
    return {
        "name": group,
        "columns": columns,
        "rows": [
            {"arm": arm.rpartition("/")[2], "cells": [cells.get((arm, column), {"n": 0}) for column in columns]}
            for arm in arms
        ],
        "listed": [figure for figure in figures if figure.get("paired")],
        "width": round(max(_half(figure) for figure in plain if figure["name"] in columns), 3),
        "are_counts": all(figure.get("count") for figure in plain),
        "rows_are": plain[0].get("rows_are", "Arm"),
    }


def _half(figure: dict[str, Any]) -> float:
    """Return half the width of a share's interval; counts and costs have another scale."""
    if not figure.get("n") or figure["high"] > 1:
        return 0.0
    return float(figure["high"] - figure["low"]) / 2


def show_cell(figure: dict[str, Any]) -> str:
    """Format a mean without its interval: 0.735, or 1,168 for counts."""
    if not figure.get("n"):
        return "–"
    mean = figure["mean"]
    return f"{mean:,.0f}" if figure.get("count") or abs(mean) >= 100 else f"{mean:.3f}"


def collect_latencies(timing: dict[str, Any]) -> list[dict[str, Any]]:
    """Return median and 95th percentile of each step in milliseconds, averaged over seeds or data sets."""
    latencies: dict[str, list[dict[str, float]]] = {}
    for unit in timing.values():
        for name, label in _TIMED.items():
            if unit.get(name):
                latencies.setdefault(label, []).append(unit[name])
        for arm, spent in unit.get("retrieve_ms", {}).items():
            if spent and arm != "none":
                latencies.setdefault(f"retrieve, {arm}", []).append(spent)
    return [
        {
            "name": label,
            "p50": float(np.mean([seconds["p50"] for seconds in spent])),
            "p95": float(np.mean([seconds["p95"] for seconds in spent])),
            "n": sum(int(seconds["n"]) for seconds in spent),
        }
        for label, spent in latencies.items()
    ]
