"""Write a report: as text for the terminal, JSON, JUnit XML or one HTML page."""

import json
import textwrap
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from django.template.loader import render_to_string

from evaluation.reports.charts import draw_bars, draw_costs, draw_curve, find_doses
from evaluation.reports.comparison import ReportedCheck, show
from evaluation.reports.tables import collect_latencies, group_figures, show_cell, write_headline

WIDTH = 110  # columns of terminal output


def write_json(results: dict[str, Any]) -> str:
    """Return the report as JSON with sorted keys, so that equal results give equal bytes."""
    return json.dumps(results, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write_text(results: dict[str, Any]) -> str:
    """Return the report as text, 110 columns wide unless names are too long."""
    parts = []
    for suite in results["suites"]:
        lines = [suite["title"], "=" * len(suite["title"]), ""]
        if headline := write_headline(suite):
            lines += [*_wrap(headline), ""]
        lines += [*_wrap(suite["proves"]), ""]
        if suite["arms"]:
            lines += _arms(suite["arms"])
        for table in group_figures(suite.get("figures", [])):
            lines += ["", *_figures(table)]
        if suite["curve"]:
            lines += ["", "earlier tasks   uplift (paired, 95%)"]
            lines += [f"{point['x']:>13}   {show(point['uplift'])}" for point in suite["curve"]]
        latencies = collect_latencies(results.get("timing", {}).get("suites", {}).get(suite["name"], {}))
        if latencies:
            width = max(len(entry["name"]) for entry in latencies)
            lines += ["", f"{'milliseconds':<{width}}     p50     p95"]
            lines += [
                f"{latency['name']:<{width}}  {latency['p50']:6.1f}  {latency['p95']:6.1f}" for latency in latencies
            ]
        sentences = [
            f"Check {'passed' if check['passed'] else 'FAILED'}: {check['name']}. {check['says']}"
            for check in suite["checks"]
        ]
        sentences += [suite["power"], *suite["notes"], f"Data: {suite['data']}. Licence: {suite['licence']}."]
        sentences += [f"Splits: {suite['splits']}", f"Seeds: {suite['seeds']}"]
        sentences += [f"Reflector: {suite['reflector']}."] if suite.get("reflector") else []
        lines += ["", *(line for sentence in sentences for line in _wrap(sentence))]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _wrap(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def write_junit(results: dict[str, Any], verdicts: Sequence[ReportedCheck]) -> str:
    """Return JUnit XML with the checks of each suite and the requested limits."""
    root = ElementTree.Element("testsuites")
    for suite in results["suites"]:
        checks = [
            ReportedCheck(name=check["name"], passed=check["passed"], says=check["says"]) for check in suite["checks"]
        ]
        _add_cases(root, suite["name"], checks)
    _add_cases(root, "limits", verdicts)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def write_html(results: dict[str, Any]) -> str:
    """Return one self-contained HTML page, without scripts, for light and dark mode."""
    asked = {name: value for name, value in results["configuration"].items() if value not in (None, "", [])}
    return render_to_string(
        "evaluation/report.html", {"results": results, "suites": present(results), "asked": sorted(asked.items())}
    )


def present(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return each suite as the templates show it, with its charts."""
    timing = results.get("timing", {}).get("suites", {})
    return [
        suite
        | {
            "headline": write_headline(suite),
            "bars": draw_bars([row for row in suite["arms"] if row["uplift"].get("n")], "uplift"),
            "line": draw_curve(suite["curve"], "success"),
            "dose": draw_curve(
                find_doses(suite["arms"]), "success", axis="most lessons given", at="With up to {} lessons"
            ),
            "costs": draw_costs(suite["arms"]),
            "rows": [
                row | {"success_text": show_success(row["success"]), "uplift_text": show(row["uplift"])}
                for row in suite["arms"]
            ],
            "has_tokens": any("tokens_mean" in row for row in suite["arms"]),
            "has_costs": any(row.get("cost_usd_per_gained_success") for row in suite["arms"]),
            "figure_tables": [
                _present_table(table, mains=suite.get("main_figures", [suite.get("main_figure", "")]))
                for table in group_figures(suite.get("figures", []))
            ],
            "latencies": collect_latencies(timing.get(suite["name"], {})),
        }
        for suite in results.get("suites", [])
    ]


def _present_table(table: dict[str, Any], *, mains: Sequence[str]) -> dict[str, Any]:
    """Return a table with its cells as text, and bars for the first of the main figures that is a column."""
    compared = []
    main = next((name for name in mains if name in table["columns"]), "")
    if main:
        column = table["columns"].index(main)
        compared = [
            {"arm": row["arm"], main: row["cells"][column]} for row in table["rows"] if row["cells"][column].get("n")
        ]
    return table | {
        "main": main,
        "bars": draw_bars(compared, main, sign=""),
        "rows": [
            row | {"cells": [{"mean": show_cell(cell), "interval": _show_interval(cell)} for cell in row["cells"]]}
            for row in table["rows"]
        ],
        "listed": [figure | {"text": _show_figure(figure)} for figure in table["listed"]],
    }


def show_success(estimate: dict[str, Any]) -> str:
    """Format a share: 0.735 [0.712, 0.758]."""
    if not estimate.get("n"):
        return "–"
    return f"{estimate['mean']:.3f} [{estimate['low']:.3f}, {estimate['high']:.3f}]"


def _show_figure(figure: dict[str, Any]) -> str:
    """Format a listed figure: differences with a sign, counts without an interval."""
    if figure.get("paired"):
        return show(figure)
    if figure.get("n") and figure["low"] == figure["mean"] == figure["high"]:
        return show_cell(figure)
    if figure.get("n") and figure["high"] >= 100:
        return f"{figure['mean']:,.0f} [{figure['low']:,.0f}, {figure['high']:,.0f}]"
    return show_success(figure)


def _show_interval(figure: dict[str, Any]) -> str:
    if not figure.get("n") or (figure.get("count") and figure["low"] == figure["high"]):
        return ""
    if figure.get("count") or figure["high"] >= 100:
        return f"{figure['low']:,.0f} to {figure['high']:,.0f}"
    return f"{figure['low']:.3f} to {figure['high']:.3f}"


def _arms(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the table of arms. Tokens are those of the context block."""
    width = max(len(row["arm"]) for row in rows)
    has_tokens = any("tokens_mean" in row for row in rows)
    head = f"{'arm':<{width}}  success               uplift (paired, 95%)       gained    lost"
    lines = [head + ("  tokens   p95  no lesson" if has_tokens else "")]
    for row in rows:
        line = (
            f"{row['arm']:<{width}}  {show_success(row['success']):<20}  {show(row['uplift']):<25}  "
            f"{row['gained']:6.1f}  {row['lost']:6.1f}"
        )
        if "tokens_mean" in row:
            line += f"  {row['tokens_mean']:6.0f}  {row['tokens_p95']:4.0f}  {100 * row['abstained']:8.1f}%"
        lines.append(line)
    return lines


def _figures(table: dict[str, Any]) -> list[str]:
    lines = []
    if table["columns"]:
        width = max(len(row["arm"]) for row in table["rows"] + [{"arm": table["name"]}])
        widths = [max(len(column), 6) for column in table["columns"]]
        heads = (f"{column:>{wide}}" for column, wide in zip(table["columns"], widths, strict=True))
        lines.append(f"{table['name']:<{width}}  {'  '.join(heads)}".rstrip())
        for row in table["rows"]:
            cells = (f"{show_cell(cell):>{wide}}" for cell, wide in zip(row["cells"], widths, strict=True))
            lines.append(f"{row['arm']:<{width}}  {'  '.join(cells)}")
        if not table["are_counts"]:
            lines.append(
                f"Means. The widest 95% interval of a share is ±{table['width']:.3f}; --html and --json have them all."
            )
    if table["listed"]:
        width = max(len(figure["arm"]) for figure in table["listed"])
        names = max(len(figure["name"]) for figure in table["listed"])
        lines += [
            f"{listed['arm']:<{width}}  {listed['name']:<{names}}  {_show_figure(listed)}  n={listed['n']}"
            for listed in table["listed"]
        ]
    return lines


def _add_cases(root: ElementTree.Element, name: str, verdicts: Sequence[ReportedCheck]) -> None:
    failures = sum(not verdict.passed for verdict in verdicts)
    suite = ElementTree.SubElement(root, "testsuite", name=name, tests=str(len(verdicts)), failures=str(failures))
    for verdict in verdicts:
        case = ElementTree.SubElement(suite, "testcase", classname=f"evaluation.{name}", name=verdict.name)
        if not verdict.passed:
            ElementTree.SubElement(case, "failure", message=verdict.says)
