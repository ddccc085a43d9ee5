"""All suites, by name."""

from evaluation.errors import EvaluationError
from evaluation.suites.base import Options, Suite
from evaluation.suites.live import Live
from evaluation.suites.replay import Replay
from evaluation.suites.retrieval import RetrievalSuite
from evaluation.suites.slips import FunctionCalls, LiveOffice
from evaluation.suites.toolchoice.suite import ToolChoice
from evaluation.suites.yours.suite import Yours

SUITES: dict[str, Suite] = {
    suite.about.name: suite
    for suite in (
        ToolChoice(),
        Replay(),
        RetrievalSuite(),
        FunctionCalls(),
        LiveOffice(),
        Yours(),
        Live(),
    )
}
REMOVED = {"textworld": "toolchoice", "kitchen": "bfcl or clerk"}
DEFAULT = ("toolchoice", "replay")
STAGING = " or ".join(name for name, suite in SUITES.items() if suite.can_stage)


def get_suite(name: str) -> Suite:
    """Return a suite by its name.

    Raises:
        EvaluationError: no suite has that name.
    """
    if name in REMOVED:
        raise EvaluationError(f"The suite {name} is gone. Use {REMOVED[name]}.")
    if name not in SUITES:
        raise EvaluationError(f"There is no suite {name!r}. The suites are {', '.join(SUITES)}.")
    return SUITES[name]


def foresee_seconds(options: Options) -> float | None:
    """Return about how long a run takes on two idle processors; None where no one can know before."""
    seconds = [get_suite(name).foresee_seconds(options) for name in options.suites]
    return None if None in seconds else sum(filter(None, seconds))


def needs_provider(options: Options) -> bool:
    """Return whether a run uses a language model."""
    suites = [get_suite(name) for name in options.suites]
    return any(suite.asks_model(options) or any(arm.needs_provider for arm in suite.arms(options)) for suite in suites)
