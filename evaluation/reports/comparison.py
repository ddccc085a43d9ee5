"""Two reports side by side, and limits a report has to keep."""

from dataclasses import dataclass
from typing import Any

from evaluation.errors import EvaluationError
from evaluation.reports.figures import estimate_json
from evaluation.reports.statistics import paired_difference


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """Whether a limit holds, and one sentence."""

    name: str
    passed: bool
    says: str


def compare(new: dict[str, Any], old: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the paired difference new − old of every arm that both reports have on the same tasks."""
    before = {(suite["name"], arm): (suite, values) for suite in old["suites"] for arm, values in _per_task(suite)}
    rows = []
    for suite in new["suites"]:
        for arm, values in _per_task(suite):
            known = before.get((suite["name"], arm))
            if known is None or known[0]["tasks"] != suite["tasks"] or len(known[1]) != len(values):
                continue
            estimate = paired_difference(values, known[1])
            rows.append({"suite": suite["name"], "arm": arm, "difference": estimate_json(estimate)})
    return rows


def hold_against_baseline(new: dict[str, Any], baseline: dict[str, Any]) -> list[Verdict]:
    """Return a verdict for each arm: failed where the interval of the paired difference lies wholly below zero.

    Raises:
        EvaluationError: the two have no arm on the same tasks in common.
    """
    rows = compare(new, baseline)
    if not rows:
        raise EvaluationError(
            "The baseline has no suite with the same tasks and arms, so nothing can be compared. Make it with the same "
            "--suite, --limit, --seed and --arms."
        )
    harmful = ("poison-approved", "random")  # controls, not what is to be kept from falling
    return [
        Verdict(
            name=f"{row['suite']}/{row['arm']} against the baseline",
            passed=row["difference"]["high"] >= 0,
            says=f"{row['suite']}/{row['arm']}: {show(row['difference'])} against the baseline.",
        )
        for row in rows
        if not row["arm"].startswith(harmful)
    ]


def check_limit(results: dict[str, Any], limit: str) -> list[Verdict]:
    """Return a verdict for `metric:value`, where metric is success, uplift, uplift_low or success_low.

    `suite/arm/metric:value` names one arm; without a path the main arm of each suite that has one is meant.

    Raises:
        EvaluationError: the limit cannot be read, or nothing has that metric.
    """
    place, metric, least = read_limit(limit)
    name, _, edge = metric.partition("_")
    verdicts = []
    for suite in results["suites"]:
        for row in suite["arms"]:
            asked = (
                [suite["name"], row["arm"]] == [*place[:1], "/".join(place[1:])]
                if place
                else row["arm"] == suite.get("main")
            )
            if asked and (value := row.get(name, {}).get(edge or "mean")) is not None:
                says = f"{suite['name']}/{row['arm']}: {metric} is {value:.4f}, the limit {least:g}."
                verdicts.append(
                    Verdict(name=f"{suite['name']}/{row['arm']} {metric}", passed=value >= least, says=says)
                )
    if not verdicts:
        raise EvaluationError(
            f"--fail-under {limit!r}: no arm has it. Metrics: success, uplift, success_low, uplift_low; as "
            "metric:value for each suite's main arm, or suite/arm/metric:value."
        )
    return verdicts


def read_limit(limit: str) -> tuple[list[str], str, float]:
    """Return the place, the metric and the least value that a limit such as `toolchoice/hybrid:5/uplift:0.05` names.

    Raises:
        EvaluationError: it is no limit.
    """
    path, _, number = limit.rpartition(":")
    *place, metric = path.split("/")
    try:
        return place, metric, float(number)
    except ValueError:
        raise EvaluationError(f"--fail-under {limit!r}: write metric:value, for example uplift:0.05.") from None


def show(estimate: dict[str, float]) -> str:
    """Write an estimate: +0.121 [+0.098, +0.143]."""
    if not estimate.get("n"):
        return "–"
    return f"{estimate['mean']:+.3f} [{estimate['low']:+.3f}, {estimate['high']:+.3f}]"


def _per_task(suite: dict[str, Any]) -> list[tuple[str, list[float]]]:
    return list(suite.get("per_task", {}).items())
