"""Compare two reports, and check a report against limits."""

from dataclasses import dataclass
from typing import Any

from evaluation.errors import EvaluationError
from evaluation.reports.figures import estimate_json
from evaluation.reports.statistics import paired_difference


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportedCheck:
    """Whether a check passed, with a sentence that explains it."""

    name: str
    passed: bool
    says: str


def compare(new: dict[str, Any], old: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the paired difference new − old for every arm that both reports have on the same tasks."""
    before = {(suite["name"], arm): (suite, values) for suite in old["suites"] for arm, values in _per_task(suite)}
    rows = []
    for suite in new["suites"]:
        for arm, values in _per_task(suite):
            earlier = before.get((suite["name"], arm))
            # Only the same tasks can be compared in pairs.
            if earlier is None or earlier[0]["tasks"] != suite["tasks"] or len(earlier[1]) != len(values):
                continue
            estimate = paired_difference(values, earlier[1])
            rows.append({"suite": suite["name"], "arm": arm, "difference": estimate_json(estimate)})
    return rows


def check_baseline(new: dict[str, Any], baseline: dict[str, Any]) -> list[ReportedCheck]:
    """Return a verdict for each arm, failed if the interval of the paired difference lies entirely below zero.

    Raises:
        EvaluationError: the reports have no arm in common on the same tasks.
    """
    rows = compare(new, baseline)
    if not rows:
        raise EvaluationError(
            "The baseline has no suite with the same tasks and arms, so nothing can be compared. Create it with the "
            "same --suite, --limit, --seed and --arms."
        )
    # These may get worse.
    controls = ("poison-approved", "random")
    return [
        ReportedCheck(
            name=f"{row['suite']}/{row['arm']} against the baseline",
            passed=row["difference"]["high"] >= 0,
            says=f"{row['suite']}/{row['arm']}: {show(row['difference'])} against the baseline.",
        )
        for row in rows
        if not row["arm"].startswith(controls)
    ]


def check_limit(results: dict[str, Any], limit: str) -> list[ReportedCheck]:
    """Return verdicts for a limit `metric:value`, where metric is success, uplift, success_low or uplift_low.

    `suite/arm/metric:value` applies to one arm; without a path the limit applies to the main arm of each suite.

    Raises:
        EvaluationError: the limit is malformed, or no arm has the metric.
    """
    path, metric, minimum = read_limit(limit)
    name, _, edge = metric.partition("_")
    verdicts = []
    for suite in results["suites"]:
        for row in suite["arms"]:
            applies = (
                [suite["name"], row["arm"]] == [*path[:1], "/".join(path[1:])]
                if path
                else row["arm"] == suite.get("main")
            )
            if applies and (value := row.get(name, {}).get(edge or "mean")) is not None:
                says = f"{suite['name']}/{row['arm']}: {metric} is {value:.4f}, the limit is {minimum:g}."
                verdicts.append(
                    ReportedCheck(name=f"{suite['name']}/{row['arm']} {metric}", passed=value >= minimum, says=says)
                )
    if not verdicts:
        raise EvaluationError(
            f"--fail-under {limit!r} matches no arm. Write metric:value for the main arm of each suite, or "
            "suite/arm/metric:value; the metrics are success, uplift, success_low and uplift_low."
        )
    return verdicts


def read_limit(limit: str) -> tuple[list[str], str, float]:
    """Split a limit such as `toolchoice/hybrid:5/uplift:0.05` into path, metric and lowest allowed value.

    Raises:
        EvaluationError: the limit is malformed.
    """
    # From the right, as names of arms have colons too.
    name, _, number = limit.rpartition(":")
    *path, metric = name.split("/")
    try:
        return path, metric, float(number)
    except ValueError:
        raise EvaluationError(f"--fail-under {limit!r}: write metric:value, for example uplift:0.05.") from None


def show(estimate: dict[str, float]) -> str:
    """Write an estimate: +0.121 [+0.098, +0.143]."""
    if not estimate.get("n"):
        return "–"
    return f"{estimate['mean']:+.3f} [{estimate['low']:+.3f}, {estimate['high']:+.3f}]"


def _per_task(suite: dict[str, Any]) -> list[tuple[str, list[float]]]:
    return list(suite.get("per_task", {}).items())
