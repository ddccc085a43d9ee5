"""A report for people and for machines: terminal, JSON, JUnit and one HTML page."""

import json
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from django.template.loader import render_to_string

from evaluation.charts import draw_bars, draw_costs, draw_curve, find_doses
from evaluation.comparing import Verdict, show


def write_json(results: dict[str, Any]) -> str:
    """Return the report as JSON, keys in order: the same bytes for the same results."""
    return json.dumps(results, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def write_text(results: dict[str, Any]) -> str:
    """Return the report for a terminal, 100 columns wide at most where the names allow it."""
    parts = []
    for suite in results["suites"]:
        lines = [suite["title"], "=" * len(suite["title"]), ""]
        if suite["arms"]:
            width = max(len(row["arm"]) for row in suite["arms"])
            lines.append(f"{'arm':<{width}}  success                uplift (paired, 95 %)     gained  lost  tokens")
            lines += [_row(row, width) for row in suite["arms"]]
        if suite.get("figures"):
            lines += ["", *_figures(suite["figures"])]
        if suite["curve"]:
            lines += ["", "after so many earlier tasks   uplift (paired, 95 %)"]
            lines += [f"{point['x']:>27}   {show(point['uplift'])}" for point in suite["curve"]]
        lines.append("")
        lines += [
            f"{'holds' if check['passed'] else 'DOES NOT HOLD'}: {check['name']}. {check['says']}"
            for check in suite["checks"]
        ]
        lines += [f"Data: {suite['data']}. Licence: {suite['licence']}.", suite["splits"], suite["seeds"]]
        lines += [f"Reflector: {suite['reflector']}."] if suite.get("reflector") else []
        lines += [*suite["notes"], suite["power"], suite["proves"]]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def write_junit(results: dict[str, Any], verdicts: Sequence[Verdict]) -> str:
    """Return JUnit XML: a suite's checks, then the limits that were asked for."""
    root = ElementTree.Element("testsuites")
    for suite in results["suites"]:
        checks = [Verdict(name=each["name"], passed=each["passed"], says=each["says"]) for each in suite["checks"]]
        _add_cases(root, suite["name"], checks)
    _add_cases(root, "limits", verdicts)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def write_html(results: dict[str, Any]) -> str:
    """Return one page that needs nothing else: no script, no other file, light and dark."""
    return render_to_string("evaluation/report.html", {"results": results, "suites": present(results)})


def present(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the templates show of each suite, plots drawn."""
    return [
        suite
        | {
            "bars": draw_bars([row for row in suite["arms"] if row["uplift"].get("n")], "uplift"),
            "line": draw_curve(suite["curve"], "success"),
            "dose": draw_curve(
                find_doses(suite["arms"]), "success", axis="lessons given at most", at="With up to {} lessons"
            ),
            "costs": draw_costs(suite["arms"]),
            "rows": [
                row | {"success_text": show_success(row["success"]), "uplift_text": show(row["uplift"])}
                for row in suite["arms"]
            ],
            "figure_rows": [figure | {"text": show_success(figure)} for figure in suite.get("figures", [])],
        }
        for suite in results.get("suites", [])
    ]


def show_success(estimate: dict[str, Any]) -> str:
    """Write a share: 0.735 [0.712, 0.758]."""
    if not estimate.get("n"):
        return "–"
    return f"{estimate['mean']:.3f} [{estimate['low']:.3f}, {estimate['high']:.3f}]"


def _row(row: dict[str, Any], width: int) -> str:
    tokens = f"{row['tokens_mean']:6.0f}" if "tokens_mean" in row else ""
    uplift = show(row["uplift"])
    return (
        f"{row['arm']:<{width}}  {show_success(row['success']):<21}  {uplift:<25}  {row['gained']:6.1f}  "
        f"{row['lost']:4.1f}  {tokens}"
    ).rstrip()


def _figures(figures: list[dict[str, Any]]) -> list[str]:
    width = max(len(figure["arm"]) for figure in figures)
    names = max(len(figure["name"]) for figure in figures)
    return [f"{each['arm']:<{width}}  {each['name']:<{names}}  {show_success(each)}  n={each['n']}" for each in figures]


def _add_cases(root: ElementTree.Element, name: str, verdicts: Sequence[Verdict]) -> None:
    failures = sum(not verdict.passed for verdict in verdicts)
    suite = ElementTree.SubElement(root, "testsuite", name=name, tests=str(len(verdicts)), failures=str(failures))
    for verdict in verdicts:
        case = ElementTree.SubElement(suite, "testcase", classname=f"evaluation.{name}", name=verdict.name)
        if not verdict.passed:
            ElementTree.SubElement(case, "failure", message=verdict.says)
