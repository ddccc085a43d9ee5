"""What the reflection app refuses, and what can fail outside of it."""


class ReflectionError(Exception):
    """Base of every refusal and failure of the reflection app."""

    code = "reflection_failed"
    transient = False


class LostClaim(ReflectionError):
    """Somebody else holds the reflection now, or it is gone: whoever held it may write nothing."""

    code = "lost_claim"


class OutcomeChanged(ReflectionError):
    """The run's outcome was reported anew while it was reflected on, so the lessons are about another run."""

    code = "outcome_changed"
    transient = True


class BudgetExhausted(ReflectionError):
    """The project has no model calls, tokens or money left for today."""

    code = "budget_exhausted"
    transient = True


class CircuitOpen(ReflectionError):
    """The provider failed several times in a row and is left alone for a while; `wait_seconds` is how long."""

    code = "circuit_open"
    transient = True

    def __init__(self, message: str, *, wait_seconds: float) -> None:
        super().__init__(message)
        self.wait_seconds = wait_seconds


class StillQueued(ReflectionError):
    """The reflection still has work to do, so it cannot be queued again."""

    code = "still_queued"
