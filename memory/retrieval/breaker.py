"""A circuit breaker: a service that does not answer is not asked for a while, so that tasks do not wait (A16)."""

import time


class Breaker:
    """Counts failures in a row; after `failures` of them the service rests. Each process has one for each service."""

    def __init__(self, *, failures: int = 3, rest_seconds: float = 30.0) -> None:
        self._allowed = failures
        self._rest_seconds = rest_seconds
        self._failures = 0
        self._resting_until = 0.0

    @property
    def is_resting(self) -> bool:
        return time.monotonic() < self._resting_until

    def note(self, *, answered: bool) -> None:
        """Count an answer or a failure. After a rest one more failure starts the next."""
        self._failures = 0 if answered else self._failures + 1
        if self._failures >= self._allowed:
            self._failures = self._allowed - 1
            self._resting_until = time.monotonic() + self._rest_seconds

    def reset(self) -> None:
        """Forget every failure."""
        self._failures, self._resting_until = 0, 0.0
