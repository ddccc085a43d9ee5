"""All suites, by name."""

from functools import cache

from evaluation.errors import EvaluationError
from evaluation.suites.base import Options, Suite

REMOVED = {"textworld": "toolchoice", "kitchen": "bfcl or clerk"}
DEFAULT = ("toolchoice", "replay")


@cache
def load_suites() -> dict[str, Suite]:
    """Return all suites by their names. They are loaded at the first call: most processes evaluate nothing."""
    from evaluation.suites.live import Live
    from evaluation.suites.reflection.suite import ReflectionSuite
    from evaluation.suites.replay import Replay
    from evaluation.suites.retrieval import RetrievalSuite
    from evaluation.suites.slips import FunctionCalls, LiveOffice
    from evaluation.suites.toolchoice.suite import ToolChoice
    from evaluation.suites.yours.suite import Yours

    suites = (
        ToolChoice(),
        Replay(),
        RetrievalSuite(),
        ReflectionSuite(),
        FunctionCalls(),
        LiveOffice(),
        Yours(),
        Live(),
    )
    return {suite.about.name: suite for suite in suites}


def name_staging_suites() -> str:
    """Return the names of the suites that can stage, for a sentence."""
    return " or ".join(name for name, suite in load_suites().items() if suite.can_stage)


def get_suite(name: str) -> Suite:
    """Return a suite by its name.

    Raises:
        EvaluationError: no suite has that name.
    """
    if name in REMOVED:
        raise EvaluationError(f"The suite {name} is gone. Use {REMOVED[name]}.")
    suites = load_suites()
    if name not in suites:
        raise EvaluationError(f"There is no suite {name!r}. The suites are {', '.join(suites)}.")
    return suites[name]


def foresee_seconds(options: Options) -> float | None:
    """Return about how long a run takes on two idle processors; None where that depends on the user's agent."""
    seconds = [get_suite(name).foresee_seconds(options) for name in options.suites]
    # One suite that depends on the user's agent makes the whole unforeseeable.
    return None if None in seconds else sum(filter(None, seconds))


def needs_provider(options: Options) -> bool:
    """Return whether a run uses a language model."""
    suites = [get_suite(name) for name in options.suites]
    return any(suite.asks_model(options) or any(arm.needs_provider for arm in suite.arms(options)) for suite in suites)
