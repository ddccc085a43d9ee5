"""Stop asking a provider that does not answer (reliability B10).

The state is a row, so that all workers share it. Jobs that find the circuit open wait without losing an attempt; one
at a time probes whether the provider is back.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import NoReturn

import structlog
from django.db import DatabaseError, InterfaceError, connection
from django.db.models import F
from django.db.models.functions import Now

from reflection.errors import CircuitOpen
from reflection.llm.base import ProviderError
from reflection.llm.models import ProviderState

log = structlog.get_logger(__name__)

FAILURES = 5  # in a row
FIRST_REST_SECONDS = 30.0
LONGEST_REST_SECONDS = 600.0
PROBE_SECONDS = 150.0  # then the probe counts as dead, and another call may try

_State = ProviderState.State
# Failures of the provider itself; a refusal of one question is an answer.
_DOWN = frozenset({"timeout", "connection", "bad_envelope", "overloaded"})

_FAIL = """
INSERT INTO reflection_providerstate AS p (provider, state, failures, opened_until, rest_seconds, last_error_code,
    updated_at)
VALUES (%(provider)s, 'closed', 1, NULL, %(first)s, %(code)s, statement_timestamp())
ON CONFLICT (provider) DO UPDATE SET
    failures = p.failures + 1,
    last_error_code = EXCLUDED.last_error_code,
    updated_at = statement_timestamp(),
    state = CASE WHEN p.state = 'half_open' OR p.failures + 1 >= %(allowed)s THEN 'open' ELSE p.state END,
    opened_until = CASE WHEN p.state = 'half_open' OR (p.state = 'closed' AND p.failures + 1 >= %(allowed)s)
        THEN statement_timestamp() + make_interval(secs => greatest(p.rest_seconds, %(first)s)) ELSE p.opened_until END,
    rest_seconds = CASE WHEN p.state = 'half_open' OR (p.state = 'closed' AND p.failures + 1 >= %(allowed)s)
        THEN least(2 * greatest(p.rest_seconds, %(first)s), %(longest)s) ELSE p.rest_seconds END
RETURNING state
"""


@contextmanager
def admitted(provider: str) -> Iterator[bool]:
    """Let a call to the provider through; a probe that asked nothing after all is given back for another to try.

    Raises:
        CircuitOpen: the provider rests, or another call is probing it.
    """
    is_probe = admit(provider)
    try:
        yield is_probe
    finally:
        if is_probe:
            give_back(provider)


def give_back(provider: str) -> None:
    """Let another call probe the provider, unless the probe has ended and so decided."""
    with suppress(DatabaseError, InterfaceError):
        untried = ProviderState.objects.filter(pk=provider, state=_State.HALF_OPEN)
        untried.update(state=_State.OPEN, opened_until=Now(), updated_at=Now())


def admit(provider: str) -> bool:
    """Let a call to the provider through; return whether it is the probe of a provider that rested.

    Raises:
        CircuitOpen: the provider rests, or another call is probing it.
    """
    row = ProviderState.objects.filter(pk=provider).annotate(wait=F("opened_until") - Now()).first()
    if row is None or row.state == _State.CLOSED:
        return False
    wait_seconds = row.wait.total_seconds() if row.wait is not None else 0.0
    if wait_seconds <= 0:
        probe_ends = Now() + timedelta(seconds=PROBE_SECONDS)
        # Of all workers that find the rest over, one changes the row and so becomes the probe.
        rested = ProviderState.objects.filter(pk=provider, opened_until__lte=Now()).exclude(state=_State.CLOSED)
        if rested.update(state=_State.HALF_OPEN, opened_until=probe_ends, updated_at=Now()):
            log.info("provider_probed", provider=provider)
            return True
        # Another worker was faster, so this one waits for what its probe finds.
        wait_seconds = 1.0
    if row.state == _State.HALF_OPEN:
        # A probe ends sooner than its limit as a rule, so the others look again earlier.
        wait_seconds = min(wait_seconds, FIRST_REST_SECONDS)
    raise _refusal(provider, failures=row.failures, wait_seconds=wait_seconds)


def refuse(provider: str) -> NoReturn:
    """Let a job whose probe failed wait for the provider like the others.

    Raises:
        CircuitOpen: always, with what is left of the rest.
    """
    row = ProviderState.objects.filter(pk=provider).annotate(wait=F("opened_until") - Now()).first()
    # A call that was under way has been answered since, and closed the circuit.
    if row is None or row.wait is None:
        raise _refusal(provider, failures=FAILURES, wait_seconds=0.0)
    left_seconds = max(0.0, min(row.wait.total_seconds(), row.rest_seconds))
    raise _refusal(provider, failures=row.failures, wait_seconds=left_seconds)


def _refusal(provider: str, *, failures: int, wait_seconds: float) -> CircuitOpen:
    message = f"The provider {provider} failed {failures} times in a row and is paused for a while."
    return CircuitOpen(message, wait_seconds=wait_seconds)


def note_answer(provider: str) -> None:
    """Note that the provider answered, even with a refusal: the circuit closes."""
    # As a rule nothing is wrong: then no row is written and calls do not wait for each other.
    changed = ProviderState.objects.filter(pk=provider).exclude(state=_State.CLOSED, failures=0)
    if changed.update(
        state=_State.CLOSED,
        failures=0,
        opened_until=None,
        rest_seconds=0.0,
        last_error_code="",
        updated_at=Now(),
    ):
        log.info("provider_answers", provider=provider)


def note_failure(provider: str, error: ProviderError) -> None:
    """Count a failure of the provider; several in a row, or one of a probe, open the circuit."""
    if not is_down(error):
        note_answer(provider)
        return
    with connection.cursor() as cursor:
        cursor.execute(
            _FAIL,
            {
                "provider": provider,
                "code": error.code,
                "allowed": FAILURES,
                "first": FIRST_REST_SECONDS,
                "longest": LONGEST_REST_SECONDS,
            },
        )
        (state,) = cursor.fetchone()
    if state == _State.OPEN:
        log.warning("provider_left_alone", provider=provider, code=error.code)


def is_down(error: ProviderError) -> bool:
    """Tell a failure of the provider from a refusal of one question."""
    return error.code in _DOWN or (error.status is not None and error.status >= 500)
