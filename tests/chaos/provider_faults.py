"""Everything a provider can do wrong, to real workers over HTTP: nothing is lost, doubled or tried too early (F10).

For the runner alone: it takes minutes on a busy machine. `python -m tests.chaos.run --only F10`.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

import pytest
from django.db import connection
from django.db.models import F
from django.db.models.functions import Now

from memory.heuristics.models import Heuristic
from reflection.jobs.messages import sender
from reflection.llm import breaker
from reflection.llm.models import ModelCall, ProviderState
from reflection.reflectors.models import Proposal, Reflection
from tests.chaos.jobs import Status, all_finished, case_number, jobs, lesson_of
from tests.chaos.profile import pick, report
from tests.scripted_answers import (
    Behaviour,
    Exchange,
    Flood,
    answer,
    empty,
    fails,
    nul,
    prose,
    raw,
    resets,
    resets_mid_body,
    silence,
)
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

ROUNDS, AT_ONCE = pick(1, 20, full=3), pick(20, 130)  # 200 cases of each fault in the soak profile
FOR_EVER = 5  # every fifth case never gets a good answer
CALL_SECONDS = 2.0
RETRY_AFTER = 600  # longer than any backoff of our own
ATTEMPTS = 5
LATE_SECONDS = 30.0  # how much later than it was written a wait may be looked at here


@dataclass(frozen=True, kw_only=True)
class Bad:
    """A fault: how the provider answers, and what becomes of a reflection that meets it for ever."""

    behaviour: Behaviour
    code: str
    calls: int = ATTEMPTS
    is_mended: bool = True


def flood(exchange: Exchange) -> None:
    Flood()(exchange)


FAULTS = {
    "429": Bad(behaviour=fails(429, retry_after=str(RETRY_AFTER)), code="rate_limited"),
    "529": Bad(behaviour=fails(529), code="overloaded"),
    "500": Bad(behaviour=fails(500), code="server_error"),
    "503": Bad(behaviour=fails(503), code="overloaded"),
    "silence": Bad(behaviour=silence(4 * CALL_SECONDS), code="timeout"),
    "reset": Bad(behaviour=resets(), code="connection"),
    "cut mid-body": Bad(behaviour=resets_mid_body(), code="connection"),
    "malformed JSON": Bad(behaviour=raw(b'{"choices": [{"mess'), code="bad_envelope"),
    "wrong schema": Bad(behaviour=answer({"learn": True, "trigger": 5}), code="wrong_shape", calls=2),
    "prose": Bad(behaviour=prose(), code="not_json", calls=2),
    "empty": Bad(behaviour=empty(), code="empty", calls=2),
    "NUL": Bad(behaviour=nul(), code="not_storable", calls=2),
    "endless": Bad(behaviour=flood, code="response_too_large", calls=1, is_mended=False),
}
NAMES = list(FAULTS)


def fault_of(case: int) -> str:
    return NAMES[case % len(NAMES)]


def is_for_ever(case: int) -> bool:
    return not FAULTS[fault_of(case)].is_mended or case % FOR_EVER == 0


@dataclass(kw_only=True)
class Provider:
    """Answers each case with its fault, once or for ever, and counts what it was asked."""

    calls: Counter[int] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, exchange: Exchange) -> None:
        case = case_number(exchange)
        with self._lock:
            self.calls[case] += 1
            first = self.calls[case] == 1
        bad = first or is_for_ever(case)
        (FAULTS[fault_of(case)].behaviour if bad else answer(lesson_of(exchange)))(exchange)


@dataclass(kw_only=True)
class Clock:
    """Lets time pass for what waits, once it was seen how long it was told to wait."""

    waits: dict[tuple[UUID, int], float] = field(default_factory=dict)
    hopeless: frozenset[UUID] = frozenset()

    def tick(self) -> None:
        if not Reflection.objects.live().exclude(pk__in=self.hopeless).exists():
            # Alone, those that are never answered well would wait for the provider for ever, as they should. Here
            # others are answered meanwhile, so that it is their own attempts that end them.
            breaker.note_answer("openai-compatible")
        # Not at once: who opened the circuit looks at it again, and must find it open.
        rested = ProviderState.objects.filter(opened_until__gt=Now(), updated_at__lt=Now() - timedelta(seconds=0.4))
        rested.filter(state=ProviderState.State.OPEN).update(opened_until=Now() - timedelta(seconds=1))
        waiting = Reflection.objects.filter(status=Status.RETRY, available_at__gt=Now())
        rows = waiting.annotate(wait=F("available_at") - Now()).values_list("pk", "attempts", "last_error_code", "wait")
        for id, attempts, code, wait in rows:
            if code == "rate_limited":
                self.waits.setdefault((id, attempts), wait.total_seconds())
            if Reflection.objects.filter(pk=id, status=Status.RETRY).update(available_at=Now()):
                sender.send_job(id, "reflection")


@contextmanager
def passing(clock: Clock) -> Iterator[None]:
    """Let time pass quickly while the block runs."""
    stop = threading.Event()

    def run() -> None:
        try:
            while not stop.wait(0.2):
                clock.tick()
        finally:
            connection.close()

    with ThreadPoolExecutor(max_workers=1) as pool:
        ticking = pool.submit(run)
        try:
            yield
        finally:
            stop.set()
            ticking.result()


def test_whatever_a_provider_does_each_reflection_ends_once_and_with_a_reason() -> None:
    count = ROUNDS * AT_ONCE
    clock = Clock()
    provider = Provider()
    environment = {"ERL_LLM_TIMEOUT_SECONDS": str(CALL_SECONDS), "TEST_REFLECTION_LEASE_SECONDS": "5"}
    with jobs(environment=environment, behaviour=provider) as made:
        made.stack.start_worker(concurrency=pick(2, 4))
        for first in range(1, count, AT_ONCE):  # all of them at once would wake each other whenever the circuit closes
            queued = enumerate(made.enqueue(AT_ONCE, first=first), start=first)
            clock.hopeless = frozenset(each.pk for case, each in queued if is_for_ever(case))
            with passing(clock):
                wait_until(all_finished, seconds=180, every_seconds=0.2)

    rows = list(Reflection.objects.select_related("trajectory"))
    cases = {int(row.trajectory.task.split()[1]): row for row in rows}
    wrong = [text for case, row in cases.items() if (text := find_wrong(case, row, provider.calls[case]))]
    early = [seconds for seconds in clock.waits.values() if seconds < RETRY_AFTER - LATE_SECONDS]
    dead = sum(row.status == Status.DEAD for row in rows)
    report(
        "F10",
        faults=len(FAULTS),
        reflections=count,
        done=count - dead,
        dead=dead,
        heuristics=Heuristic.objects.count(),
        provider_calls=sum(provider.calls.values()),
        waits_seen=len(clock.waits),
        told_to_wait_too_short=len(early),
        violations=len(wrong),
    )
    assert wrong == []
    assert clock.waits
    assert early == []
    assert Proposal.objects.count() == Heuristic.objects.count() == count - dead
    assert ModelCall.objects.values("job", "step").distinct().count() == ModelCall.objects.count()


def find_wrong(case: int, row: Reflection, calls: int) -> str:
    """Say what is wrong with the end of a reflection, or nothing."""
    fault = FAULTS[fault_of(case)]
    # Who tries for all whether the provider is back loses no attempt by it, so that some are asked more often.
    at_most = (fault.calls if is_for_ever(case) else 2) + ATTEMPTS
    expected = Status.DEAD if is_for_ever(case) else Status.DONE
    faulty = row.status != expected or not 1 <= calls <= at_most
    unexplained = row.status == Status.DEAD and (row.last_error_code != fault.code or not row.last_error)
    proposed = Proposal.objects.filter(reflection=row).count()
    if faulty or unexplained or proposed != (row.status == Status.DONE):
        return f"{case} ({fault_of(case)}): {row.status} {row.last_error_code!r}, {calls} calls, {proposed} proposals"
    return ""
