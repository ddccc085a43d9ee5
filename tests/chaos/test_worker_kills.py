"""Workers that die, hang and are stopped in the middle of a reflection (reliability B2-B4, B8; F5, F6, F11)."""

import signal
import time
from functools import partial
from threading import Event

import pytest
from django.db import connection

from memory.heuristics.models import Heuristic
from reflection.llm.models import ModelCall
from reflection.reflectors.models import Reflection
from tests.chaos.jobs import (
    Status,
    all_finished,
    assert_each_has_one_effect,
    case_number,
    find_running,
    jobs,
    kill,
    lesson_of,
    once,
    slowly,
    working_process,
)
from tests.chaos.profile import pick, report
from tests.scripted_answers import Exchange, answer
from tests.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.django_db(transaction=True), pytest.mark.slow]

JOBS = pick(20, 2000, full=300)
KILL_EVERY_SECONDS = pick(0, 0.5)
WHOLE_WORKER_EVERY = 10  # kills
FREEZES, AT_ONCE = pick(2, 200, full=40), pick(2, 4)
POISON, GOOD = pick(1, 20, full=5), pick(10, 500, full=120)


def test_killed_workers_lose_and_repeat_nothing() -> None:
    patient = {"TEST_REFLECTION_MAX_ATTEMPTS": "50"}  # the same reflection may be hit again and again
    with jobs(environment=patient, behaviour=slowly(pick(0.3, 0.1))) as made:
        made.stack.start_worker()
        made.enqueue(JOBS)
        kills = whole = 0
        while not all_finished() and kills < JOBS:
            running = find_running()
            if running is None:
                time.sleep(0.02)
                continue
            kills += 1
            if kills % WHOLE_WORKER_EVERY == WHOLE_WORKER_EVERY // 2:
                whole += 1
                made.stack.kill("worker")
                made.stack.start_worker()
            else:
                kill(working_process(running))
            time.sleep(KILL_EVERY_SECONDS)
        made.wait_for_all(seconds=600)

        report(
            "F5",
            reflections=JOBS,
            kills=kills,
            whole_workers_killed=whole,
            done=Reflection.objects.filter(status=Status.DONE).count(),
            heuristics=Heuristic.objects.count(),
            provider_calls=len(made.provider.requests),
        )
        assert_each_has_one_effect(JOBS, asked_once=False)
        assert kills >= min(JOBS, 20)
        assert JOBS <= len(made.provider.requests) <= JOBS + kills
        spent = sum(ModelCall.objects.values_list("input_tokens", flat=True))
        assert spent == sum(Reflection.objects.values_list("input_tokens", flat=True))
        assert spent == 1200 * ModelCall.objects.count()


def test_worker_that_hung_past_its_lease_is_fenced() -> None:
    are_frozen = Event()
    with jobs(behaviour=once(are_frozen)) as made:
        for name in (workers := ("worker", "other")):
            made.stack.start_worker(name, concurrency=AT_ONCE)
        fenced = queued = rounds = 0

        def are_done() -> bool:
            return Reflection.objects.filter(status=Status.DONE).count() == queued

        def has_said(event: str, about: Reflection) -> bool:
            lines = "\n".join(made.stack.log(name) for name in workers).splitlines()
            return any(f'"{event}"' in line and str(about.pk) in line for line in lines)

        def have_begun() -> bool:
            return len(running := _running()) == AT_ONCE and all(
                has_said("reflection_started", each) for each in running
            )

        def has_let_go(hung: Reflection) -> bool:
            return has_said("reflection_lost", hung)

        while fenced < FREEZES:
            assert (rounds := rounds + 1) <= 10 * FREEZES
            are_frozen.clear()
            queued += len(made.enqueue(AT_ONCE))
            wait_until(have_begun)  # one that has only claimed says nothing of its loss
            hung = _running()
            for each in hung:
                kill(working_process(each), signal.SIGSTOP)
            are_frozen.set()  # the worker that takes over is answered
            # One that hangs in a transaction keeps its rows until PostgreSQL ends the session, after a minute.
            wait_until(are_done, seconds=120)
            for each in hung:
                kill(working_process(each), signal.SIGCONT)

            for each in hung:
                after = Reflection.objects.get(pk=each.pk)
                if after.attempts == each.attempts:
                    continue  # it had committed when it was stopped
                assert after.lease_owner != each.lease_owner
                wait_until(partial(has_let_go, each))
                fenced += has_said("reflection_lost", each)

        report(
            "F6", fenced=fenced, heuristics=Heuristic.objects.count(), double_writes=Heuristic.objects.count() - queued
        )
        assert_each_has_one_effect(queued, asked_once=False)


def _running() -> list[Reflection]:
    return list(Reflection.objects.filter(status=Status.RUNNING, lease_owner__contains="/"))


def test_reflection_that_kills_its_worker_is_dead_after_five_claims_and_others_finish() -> None:
    def poison(exchange: Exchange) -> None:
        if case_number(exchange) <= POISON:
            kill(working_process(Reflection.objects.get(trajectory__task=f"Case {case_number(exchange)}")))
            connection.close()
        answer(lesson_of(exchange))(exchange)

    with jobs(behaviour=poison) as made:
        made.stack.start_worker()
        queued = made.enqueue(POISON + GOOD)
        made.wait_for_all(seconds=pick(120, 600))
        asked = [case_number_of(request.user_text) for request in made.provider.requests]

    poisonous = Reflection.objects.filter(pk__in=[each.pk for each in queued[:POISON]])
    report(
        "F11",
        good=GOOD,
        good_done=Reflection.objects.filter(status=Status.DONE).count(),
        poisonous=POISON,
        poisonous_dead=poisonous.filter(status=Status.DEAD).count(),
        claims_of_one=max(each.attempts for each in poisonous),
    )
    ends = {(each.status, each.attempts, each.last_error_code) for each in poisonous}
    assert ends == {(Status.DEAD, 5, "worker_lost")}
    assert Reflection.objects.filter(status=Status.DONE, attempts=1).count() == GOOD == Heuristic.objects.count()
    assert all(asked.count(case) == 5 for case in range(1, POISON + 1))


def case_number_of(text: str) -> int:
    return int(text.split("Case ")[1].split('"')[0])


def test_worker_that_is_asked_to_end_finishes_what_it_holds() -> None:
    with jobs(behaviour=slowly(1.0)) as made:
        made.stack.start_worker()
        made.enqueue(2)
        wait_until(lambda: len(made.provider.requests) == 2)

        made.stack.stop("worker", seconds=30)

        assert_each_has_one_effect(2)


def test_worker_that_is_told_to_quit_gives_back_what_it_holds() -> None:
    with jobs(behaviour=slowly(30.0)) as made:
        made.stack.start_worker(soft_shutdown_seconds=0.5)
        [reflection] = made.enqueue(1)
        wait_until(lambda: len(made.provider.requests) == 1)

        process = made.stack.processes.pop("worker")
        process.send_signal(signal.SIGQUIT)
        process.wait(timeout=45)

        reflection.refresh_from_db()
        assert reflection.status == Status.RETRY
