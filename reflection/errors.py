"""What the reflection app refuses, and what can fail outside of it."""


class ReflectionError(Exception):
    """Base of every refusal and failure of the reflection app."""

    code = "reflection_failed"
    transient = False


class LostClaim(ReflectionError):
    """Another worker holds the job now, or the job is gone: the worker that held it may write nothing."""

    code = "lost_claim"


class NotNow(ReflectionError):
    """The job cannot go on now. It waits for `wait_seconds`, or is due again at once, and loses no attempt."""

    code = "not_now"
    transient = True

    def __init__(self, message: str, *, wait_seconds: float | None = None) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


class OutcomeChanged(NotNow):
    """The outcome of the run changed during its reflection, so the lessons are about an outcome that is past."""

    code = "outcome_changed"


class CircuitOpen(NotNow):
    """The provider failed several times in a row and is not asked for `wait_seconds`."""

    code = "circuit_open"


class BudgetExhausted(ReflectionError):
    """The project has no model calls, tokens or money left for today."""

    code = "budget_exhausted"
    transient = True


class StillQueued(ReflectionError):
    """The reflection still has work to do, so it cannot be queued again."""

    code = "still_queued"
