"""Find the report of an evaluation by the id of its run or the file it was written to."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

from evaluation.errors import EvaluationError
from evaluation.models import EvaluationRun


def read_report(path: Path) -> dict[str, Any]:
    """Return the report in a file.

    Raises:
        EvaluationError: it is none.
    """
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        report["suites"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvaluationError(f"{path} is no report of evaluate --json: {error}.") from error
    return report


def find_report(name: str) -> dict[str, Any]:
    """Return the report of a file or of a stored run.

    Raises:
        EvaluationError: there is none, or the run did not come to its end.
    """
    if Path(name).is_file():
        return read_report(Path(name))
    try:
        run = EvaluationRun.objects.get(pk=UUID(name))
    except (ValueError, EvaluationRun.DoesNotExist):
        raise EvaluationError(
            f"There is no run and no file {name!r}. The admin lists the runs with their ids."
        ) from None
    if run.status != EvaluationRun.Status.FINISHED:
        raise EvaluationError(f"The run {name} is {run.status}, so it has no figures.")
    results: dict[str, Any] = run.results
    return results
