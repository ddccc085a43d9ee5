"""A worker that is killed in the middle of a run: another one goes on, and nothing is lost or done twice."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from agents.models.effects import Effect
from agents.models.runs import Event, Run
from tests.agents.running import make_agent, make_run
from tests.servers import HOME
from tests.stack import Stack, database_url
from tests.waiting import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]
SCRIPT = {
    "rules": [
        {"user": "order", "calls": [{"tool": "conversation_search", "arguments": {"query": "order"}}]},
        {"tool": "conversation_search", "calls": [{"tool": "send_message", "arguments": {"message": "I looked."}}]},
        {"tool": "send_message", "say": "It is on its way."},
    ]
}


@pytest.fixture
def workers(tmp_path: Path, broker: str) -> Iterator[Stack]:
    script = tmp_path / "script.json"
    script.write_text(json.dumps(SCRIPT))
    stack = Stack(
        home=HOME,
        environment={
            "DATABASE_URL": database_url(connection.settings_dict),
            "CELERY_BROKER_URL": settings.CELERY_BROKER_URL,
            "ERL_LLM_PROVIDER": "scripted",
            "ERL_LLM_SCRIPT": str(script),
            "ERL_REFLECTION_LEASE_SECONDS": "60",  # so that only the sign of life can tell that the worker is gone
        },
    )
    yield stack
    stack.kill_all()


def test_run_goes_on_when_its_worker_is_killed_in_a_call(workers: Stack) -> None:
    run = make_run(make_agent(tools=["conversation_search", "send_message"]))
    workers.environment["ERL_FAILPOINTS"] = "agent.effect_started=sleep:300"
    workers.start_worker("stuck")
    wait_until(lambda: Effect.objects.filter(run=run, status="planned").exists(), seconds=60)
    del workers.environment["ERL_FAILPOINTS"]
    workers.start_worker("standby")

    workers.kill("stuck")
    wait_until(lambda: not Run.objects.get(pk=run.pk).is_live, seconds=30)

    run.refresh_from_db()
    assert (run.status, run.steps_taken) == ("succeeded", 3)
    assert [message.content for message in run.messages.filter(is_reply=True)] == ["I looked.", "It is on its way."]
    numbers = list(Event.objects.filter(run=run).values_list("seq", flat=True))
    assert numbers == list(range(1, len(numbers) + 1))
