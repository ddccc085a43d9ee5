"""The suites there are."""

from evaluation.errors import EvaluationError
from evaluation.suites.base import Suite
from evaluation.suites.replay import Replay
from evaluation.suites.retrieval import RetrievalSuite
from evaluation.suites.toolchoice.suite import ToolChoice

SUITES: dict[str, Suite] = {suite.about.name: suite for suite in (ToolChoice(), Replay(), RetrievalSuite())}
DEFAULT = ("toolchoice", "replay")


def get_suite(name: str) -> Suite:
    """Return a suite by its name.

    Raises:
        EvaluationError: there is none.
    """
    if name not in SUITES:
        raise EvaluationError(f"There is no suite {name!r}. Known: {', '.join(SUITES)}.")
    return SUITES[name]
