"""What a worker may write that is slow, that lost its claim, or whose run was erased meanwhile."""

import threading
import time
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now

from memory.heuristics.models import Heuristic
from memory.runs.models import Trajectory
from memory.trust.erasure import erase_trajectory
from reflection.jobs.execution import Outcome
from reflection.llm.models import ModelCall
from reflection.reflectors.models import Proposal, Reflection
from reflection.reflectors.reflections import run_reflection
from tests.factories import make_reflection
from tests.reflection.queueing import claim
from tests.reflection.running import BY, Status, run
from tests.reflection.scripted import ScriptedModel, ScriptedReflector, ask_then, make_lesson, propose
from tests.waiting import wait_until

pytestmark = pytest.mark.django_db


@pytest.mark.django_db(transaction=True)
def test_heartbeat_holds_the_claim_of_slow_work(settings: Any) -> None:
    settings.ERL_REFLECTION_LEASE_SECONDS = 0.3
    reflection = make_reflection()
    stolen = []

    def steal() -> None:
        time.sleep(0.9)
        stolen.append(claim(reflection.pk, owner="thief"))

    done = run(ask_then(propose(make_lesson())), reflection, model=ScriptedModel(before=steal))

    assert stolen == [None]
    assert (done.status, done.attempts) == (Status.DONE, 1)


@pytest.mark.django_db(transaction=True)
def test_heartbeat_of_work_that_hangs_ends_with_the_hard_time_limit(settings: Any) -> None:
    settings.ERL_REFLECTION_LEASE_SECONDS = 0.2
    settings.CELERY_TASK_TIME_LIMIT = 0.2
    reflection = make_reflection()
    taken = []

    def hang() -> None:
        time.sleep(0.9)
        taken.append(claim(reflection.pk, owner="next"))

    left = run(ask_then(propose(make_lesson())), reflection, model=ScriptedModel(before=hang))

    assert taken[0] is not None
    assert (left.lease_owner, left.attempts) == ("next", 2)
    assert not Heuristic.objects.exists()


def test_worker_that_lost_its_claim_writes_nothing() -> None:
    reflection = make_reflection()

    def let_another_take_over() -> None:
        Reflection.objects.filter(pk=reflection.pk).update(lease_until=Now() - timedelta(seconds=1))
        run(propose(make_lesson()), reflection)

    reflector = ScriptedReflector(plan=ask_then(propose(make_lesson(guideline="Another lesson of the first worker."))))
    attempt = run_reflection(
        reflection.pk,
        owner="first",
        make_reflector=reflector,
        ask_model=ScriptedModel(before=let_another_take_over),
    )

    assert attempt.outcome == Outcome.LOST
    assert Heuristic.objects.count() == Proposal.objects.count() == 1
    assert Reflection.objects.get(pk=reflection.pk).status == Status.DONE


def test_the_same_worker_would_write_twice_without_the_fence() -> None:
    """The negative control of the test above: only the number of the attempt keeps the first worker out."""
    reflection = make_reflection()

    def let_another_take_over_and_forget_its_number() -> None:
        Reflection.objects.filter(pk=reflection.pk).update(lease_until=Now() - timedelta(seconds=1))
        run(propose(make_lesson()), reflection)
        Proposal.objects.update(ordinal=9)
        Reflection.objects.update(status=Status.RUNNING, attempts=1, lease_until=Now(), finished_at=None)

    reflector = ScriptedReflector(plan=ask_then(propose(make_lesson(guideline="Another lesson of the first worker."))))
    run_reflection(
        reflection.pk,
        owner="first",
        make_reflector=reflector,
        ask_model=ScriptedModel(before=let_another_take_over_and_forget_its_number),
    )

    assert Proposal.objects.count() == 2


def test_run_erased_meanwhile_leaves_nothing() -> None:
    reflection = make_reflection()

    def erase() -> None:
        erase_trajectory(Trajectory.objects.get(pk=reflection.subject), by=BY)

    attempt = run_reflection(
        reflection.pk,
        owner="test",
        make_reflector=ScriptedReflector(plan=ask_then(propose(make_lesson()))),
        ask_model=ScriptedModel(before=erase),
    )

    assert attempt.outcome == Outcome.LOST
    assert not Heuristic.objects.exists()
    assert not ModelCall.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_run_erased_while_its_lessons_are_written_takes_them_along() -> None:
    reflection = make_reflection()
    plan = propose(make_lesson())

    def reflect() -> None:
        try:
            run_reflection(reflection.pk, owner="test", make_reflector=ScriptedReflector(plan=plan))
        finally:
            connection.close()

    def erase() -> None:
        try:
            erase_trajectory(Trajectory.objects.get(pk=reflection.subject), by=BY)
        finally:
            connection.close()

    threads = [threading.Thread(target=reflect), threading.Thread(target=erase)]
    with connection.cursor() as cursor:
        key = f"reflection.proposals:{reflection.project_id}"
        cursor.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", [key])  # stops it in the middle of writing
        for number, thread in enumerate(threads, 1):
            thread.start()
            wait_until(partial(_are_waiting, number))
        cursor.execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", [key])
    for thread in threads:
        thread.join(timeout=30)

    assert not Trajectory.objects.exists()
    assert not Heuristic.objects.exists()


def _are_waiting(count: int) -> bool:
    """Tell whether so many sessions wait for a lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(DISTINCT pid) FROM pg_locks JOIN pg_stat_activity USING (pid)"
            " WHERE NOT granted AND datname = current_database()"
        )
        return bool(cursor.fetchone() == (count,))
