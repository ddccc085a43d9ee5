"""New web servers and workers in the place of old ones while clients post (reliability A17, F12)."""

import signal
from functools import partial

import psutil
import pytest

from memory.runs.models import Trajectory
from reflection.reflectors.models import Reflection
from tests.chaos.jobs import assert_each_has_one_effect, find_running, jobs, slowly
from tests.chaos.load import Load, posting
from tests.chaos.profile import History, pick, report
from tests.chaos.web import ChaosWeb
from tests.factories import make_api_key
from tests.waiting import wait_until

pytestmark = [pytest.mark.nightly, pytest.mark.django_db(transaction=True), pytest.mark.slow]

RESTARTS = pick(2, 20, full=8)
REPLACED = pick(1, 10, full=4)
JOBS = 30  # more than a worker can do while the next one starts


def reload_workers(web: ChaosWeb) -> None:
    """Tell gunicorn to restart its workers (HUP) and wait until the old ones have gone."""
    master = psutil.Process(web.processes["web"].pid)
    old = master.children()
    master.send_signal(signal.SIGHUP)
    _, left = psutil.wait_procs(old, timeout=60)
    assert left == [], "old web workers do not end"


def replace_server(web: ChaosWeb) -> None:
    """Ask the whole web server to end (TERM) and start another at the same address."""
    web.stop("web", seconds=60)
    web.start_web()


def test_restarts_under_load_fail_no_request(chaos_web: ChaosWeb) -> None:
    history = History(name="F12")
    without_answer = 0
    load = Load(port=chaos_web.port, token=make_api_key().token, history=history)
    with posting(load):
        for restart in [reload_workers] * RESTARTS + [replace_server] * REPLACED:
            recorded = len(history.acknowledged)
            wait_until(partial(history.has_more_than, recorded + 10), seconds=60)
            restart(chaos_web)
            if restart is reload_workers:
                without_answer = load.statuses["no answer"]
    verdict = history.judge(Trajectory.objects.values_list("task", flat=True))
    report(
        "F12",
        reloads=RESTARTS,
        replaced=REPLACED,
        without_answer_in_reloads=without_answer,
        **verdict.counts(),
        failed=len(load.failed),
        statuses=dict(sorted(load.statuses.items())),
        slowest_seconds=load.slowest_seconds,
    )
    assert load.failed == []
    assert verdict.is_sound
    assert verdict.acknowledged == verdict.attempted
    assert set(load.statuses) <= {"201", "409", "503", "no answer"}


def test_workers_replaced_under_load_do_every_reflection_once() -> None:
    with jobs(behaviour=slowly(0.2)) as made:
        made.stack.start_worker("worker-0")
        count = 0
        for number in range(REPLACED):
            made.enqueue(JOBS)
            count += JOBS
            wait_until(find_running)
            made.stack.start_worker(f"worker-{number + 1}")
            made.stack.stop(f"worker-{number}", seconds=60)
        made.wait_for_all()
        tried_again = Reflection.objects.exclude(attempts=1).count()
        report("F12", workers_replaced=REPLACED, reflections=count, tried_again=tried_again)

        assert_each_has_one_effect(count)
        assert tried_again == 0, "a worker that was asked to end did not finish what it held"
