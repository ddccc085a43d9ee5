"""Find a report by the id of its run or by its file."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

from evaluation.errors import EvaluationError
from evaluation.models import EvaluationRun


def read_report(path: Path) -> dict[str, Any]:
    """Read a report from a file.

    Raises:
        EvaluationError: the file is missing or not a report.
    """
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        report["suites"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvaluationError(f"{path} is not a report written by evaluate --json: {error}.") from error
    return report


def find_report(name: str) -> dict[str, Any]:
    """Return the report in a file or of a stored run.

    Raises:
        EvaluationError: there is no such report, or the run did not finish.
    """
    if Path(name).is_file():
        return read_report(Path(name))
    try:
        run = EvaluationRun.objects.get(pk=UUID(name))
    except (ValueError, EvaluationRun.DoesNotExist):
        raise EvaluationError(f"There is no run or file {name!r}. The admin lists the runs with their ids.") from None
    if run.status != EvaluationRun.Status.FINISHED:
        raise EvaluationError(f"The run {name} has no figures, because its status is {run.status}.")
    results: dict[str, Any] = run.results
    return results
