"""Reflections and evaluations have workers of their own, so that neither waits for the other."""

from pathlib import Path

import httpx
import pytest
import yaml
from django.conf import settings

from erl_site.quickstart.stack import build_supervisor
from evaluation.models import EvaluationRun
from reflection.jobs.kinds import all_kinds
from reflection.jobs.messages import sender
from reflection.jobs.models import Job
from tests.factories import bearer, make_api_key, make_reflection
from tests.stack import ROOT, Stack
from tests.waiting import wait_until

LANES = {settings.CELERY_TASK_DEFAULT_QUEUE, settings.ERL_EVALUATION_QUEUE}
QUEUES = LANES | {settings.ERL_PERIODIC_QUEUE}
SERVED = ["erl,erl-periodic", "erl-evaluation"]


def queues_of(commands: list[list[str]], option: str) -> list[str]:
    return [
        command[place + 1] if word == option else word.partition("=")[2]
        for command in commands
        for place, word in enumerate(command)
        if word.partition("=")[0] == option
    ]


def test_every_kind_of_job_has_a_lane() -> None:
    assert {kind.queue or settings.CELERY_TASK_DEFAULT_QUEUE for kind in all_kinds()} == LANES
    assert set(settings.CELERY_TASK_QUEUES) == QUEUES  # what a worker started without -Q serves


def test_work_that_takes_minutes_has_no_lane_with_agents_and_reflections() -> None:
    longest = settings.CELERY_TASK_SOFT_TIME_LIMIT
    slow = {kind.name for kind in all_kinds() if (kind.time_limit_seconds or 0) > longest}
    apart = {kind.name for kind in all_kinds() if kind.queue == settings.ERL_EVALUATION_QUEUE}
    assert "consolidation" in slow
    assert slow - {"agent_run"} <= apart


def test_quickstart_serves_every_lane_by_a_worker_of_its_own() -> None:
    services = build_supervisor(8000, lambda name, sentence: None).children
    queues = queues_of([list(child.service.command) for child in services], "-Q")
    assert sorted(queues) == sorted(SERVED)


def test_compose_serves_every_lane_by_a_worker_of_its_own() -> None:
    services = yaml.safe_load(Path(ROOT, "compose.yaml").read_text(encoding="utf-8"))["services"]
    queues = queues_of([service.get("command", []) for service in services.values()], "--queues")
    assert sorted(queues) == sorted(SERVED)


@pytest.mark.nightly
@pytest.mark.slow
def test_evaluations_take_no_process_from_reflections(stack: Stack) -> None:
    stack.kill("worker")
    stack.start_lane(settings.CELERY_TASK_DEFAULT_QUEUE)
    for _ in range(2):
        headers = bearer(make_api_key().token)
        asked = httpx.post(
            f"{stack.base_url}/api/v1/evaluate", json={"suites": ["replay"]}, headers=headers, timeout=30
        )
        assert asked.status_code == 202
    reflection = make_reflection()
    sender.send_job(reflection.pk, reflection.kind)

    wait_until(lambda: Job.objects.get(pk=reflection.pk).status == Job.Status.DONE, seconds=60)

    assert set(EvaluationRun.objects.values_list("status", flat=True)) == {"queued"}
    stack.kill("worker")  # the next test gets one for both
