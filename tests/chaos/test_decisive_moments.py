"""Real processes that die at the named moments, again and again (F2): the failpoints of memory/failpoints.py."""

import json
import threading
from collections import Counter
from uuid import UUID

import pytest
from django.conf import settings
from django.db import connection

from reflection.reflectors.models import Reflection
from tests.chaos.jobs import Status, assert_each_has_one_effect, jobs, slowly
from tests.chaos.profile import History, pick, report
from tests.chaos.web import RIGHT, ChaosWeb, find_violations, post_until_done
from tests.factories import make_api_key
from tests.stack import database_url

pytestmark = [pytest.mark.nightly, pytest.mark.django_db(transaction=True), pytest.mark.slow]

POSTS = pick(20, 300, full=100)
REFLECTIONS = pick(6, 100, full=40)
IN_A_REQUEST = ("idempotency.key_taken", "idempotency.before_commit", "idempotency.after_commit")
IN_A_REFLECTION = (
    "job.claimed",
    "reflection.asked",
    "reflection.before_write",
    "reflection.before_commit",
    "reflection.after_commit",
)


def crash_often(names: tuple[str, ...], chance: float) -> str:
    return ",".join(f"{name}=crash~{chance}" for name in names)


def test_web_process_that_dies_at_decisive_moments_loses_and_doubles_nothing(
    broker: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    new, history = make_api_key(), History(name="F2")
    environment = {
        "DATABASE_URL": database_url(connection.settings_dict),
        "CELERY_BROKER_URL": settings.CELERY_BROKER_URL,
        "ERL_LOG_LEVEL": "WARNING",
        "TEST_FAILPOINTS": crash_often(IN_A_REQUEST, 0.15),
    }
    web = ChaosWeb(home=tmp_path_factory.mktemp("web"), environment=environment)
    acknowledged: dict[str, UUID] = {}
    unanswered: Counter[str] = Counter()

    def run(client: int) -> None:
        for number in range(client, 10 * POSTS, 2):
            if number >= POSTS and sum(unanswered.values()) >= POSTS / 5:
                return
            key = f"moment-{number}"
            history.attempt(key)
            answer, repeats = post_until_done(web.port, RIGHT, token=new.token, key=key, seconds=60)
            acknowledged[key] = UUID(json.loads(answer.body)["id"])
            unanswered[key] = repeats
            history.acknowledge(key)

    try:
        web.start_web()
        clients = [threading.Thread(target=run, args=[client]) for client in range(2)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
    finally:
        web.kill_all()
    wrong = find_violations(new.api_key.project, dict(acknowledged))
    report("F2", work="web process", posts=POSTS, deaths_met=sum(unanswered.values()), violations=len(wrong))
    assert wrong == []
    assert len(acknowledged) >= POSTS
    assert sum(unanswered.values()) >= POSTS / 5, "the processes died too seldom to prove anything"


def test_worker_that_dies_at_decisive_moments_does_each_reflection_once() -> None:
    environment = {
        "TEST_FAILPOINTS": crash_often(IN_A_REFLECTION, 0.08),
        "TEST_REFLECTION_MAX_ATTEMPTS": "50",
    }
    with jobs(environment=environment, behaviour=slowly(0)) as made:
        made.stack.start_worker()
        made.enqueue(REFLECTIONS)
        made.wait_for_all(seconds=pick(120, 600))

        calls, attempts = len(made.provider.requests), sum(Reflection.objects.values_list("attempts", flat=True))
        deaths = attempts - REFLECTIONS
        report(
            "F2",
            work="worker",
            reflections=REFLECTIONS,
            done=Reflection.objects.filter(status=Status.DONE).count(),
            deaths=deaths,
            provider_calls=calls,
        )
        assert_each_has_one_effect(REFLECTIONS, asked_once=False)
        # What others proposed meanwhile is part of the question, so a later attempt may have to ask another one.
        assert REFLECTIONS <= calls <= REFLECTIONS + deaths
