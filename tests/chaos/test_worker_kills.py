"""Workers that die, hang and are stopped in the middle of a reflection (reliability B2-B4, B8; F5, F6, F11)."""

import signal
import time

import pytest
from django.db import connection
from django.db.models import F

from memory.models import Heuristic
from reflection.models import ModelCall, Reflection, WorkerHeartbeat
from tests.chaos.jobs import (
    Status,
    assert_each_has_one_effect,
    case_number,
    find_running,
    jobs,
    kill,
    lesson_of,
    slowly,
    wait_for_all,
    working_process,
)
from tests.chaos.profile import pick, report
from tests.reflection.waiting import wait_until
from tests.scripted_answers import Exchange, answer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

KILLS = pick(20, 200)
WORKER_KILLS = KILLS // 10
FREEZES = pick(1, 20)
GOOD = pick(10, 100)


def test_killed_workers_lose_and_repeat_nothing() -> None:
    patient = {"ERL_REFLECTION_MAX_ATTEMPTS": "50"}  # the same reflection may be hit again and again
    with jobs(environment=patient) as made:
        made.stack.start_worker()
        made.enqueue(KILLS)
        for number in range(KILLS):
            running = wait_until(find_running)
            if number % 10 == 5:
                made.stack.kill("worker")
                made.stack.start_worker()
            else:
                kill(working_process(running))
        wait_for_all()

        report(
            "F5",
            reflections=KILLS,
            kills=KILLS,
            whole_workers_killed=WORKER_KILLS,
            done=Reflection.objects.filter(status=Status.DONE).count(),
            heuristics=Heuristic.objects.count(),
            provider_calls=len(made.provider.requests),
        )
        assert_each_has_one_effect(KILLS)
        assert KILLS <= len(made.provider.requests) <= 2 * KILLS
        spent = sum(ModelCall.objects.values_list("input_tokens", flat=True))
        assert spent == sum(Reflection.objects.values_list("input_tokens", flat=True)) == 1200 * KILLS


def test_worker_that_hung_past_its_lease_is_fenced() -> None:
    with jobs(behaviour=slowly(0.5)) as made:
        made.stack.start_worker()
        for number in range(1, FREEZES + 1):
            [reflection] = made.enqueue(1)
            hung = wait_until(find_running)
            kill(working_process(hung), signal.SIGSTOP)
            wait_until(lambda done=number: Reflection.objects.filter(status=Status.DONE).count() == done)

            kill(working_process(hung), signal.SIGCONT)
            wait_until(lambda lost=number: made.stack.log("worker").count('"reflection_lost"') >= lost)
            time.sleep(0.3)
            reflection.refresh_from_db()
            assert reflection.attempts == 2
            assert reflection.lease_owner != hung.lease_owner

        report("F6", frozen=FREEZES, heuristics=Heuristic.objects.count(), double_writes=0)
        assert_each_has_one_effect(FREEZES)


def test_reflection_that_kills_its_worker_is_dead_after_five_claims_and_others_finish() -> None:
    def poison(exchange: Exchange) -> None:
        if case_number(exchange) == 1:
            kill(working_process(Reflection.objects.get(trajectory__task="Case 1")))
            connection.close()
        answer(lesson_of(exchange))(exchange)

    with jobs(behaviour=poison) as made:
        made.stack.start_worker()
        poisonous, *good = made.enqueue(1 + GOOD)
        wait_for_all()
        asked = [case_number_of(request.user_text) for request in made.provider.requests]

    poisonous.refresh_from_db()
    report(
        "F11",
        good=GOOD,
        good_done=Reflection.objects.filter(status=Status.DONE).count(),
        poison_attempts=poisonous.attempts,
        poison_status=poisonous.status,
    )
    assert (poisonous.status, poisonous.attempts, poisonous.last_error_code) == (Status.DEAD, 5, "worker_lost")
    assert Reflection.objects.filter(status=Status.DONE, attempts=1).count() == len(good) == Heuristic.objects.count()
    assert asked.count(1) == 5


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


def test_killed_leader_is_followed_by_another_sweeper() -> None:
    with jobs(behaviour=slowly(0)) as made:
        made.stack.start_worker("first", concurrency=1)
        made.stack.start_worker("second", concurrency=1)
        leader = wait_until(lambda: WorkerHeartbeat.objects.order_by(F("last_sweep_at").desc(nulls_last=True)).first())
        name, other = ("first", "second") if leader.name.startswith("first") else ("second", "first")
        kill(made.stack.processes[name].pid)
        WorkerHeartbeat.objects.filter(name__startswith=other).update(last_sweep_at=None)

        follower = wait_until(
            lambda: WorkerHeartbeat.objects.filter(name__startswith=other, last_sweep_at__isnull=False).first()
        )

        assert follower.last_sweep_at > leader.last_sweep_at
