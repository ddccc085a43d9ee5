"""Evolutions over HTTP, on an agent's own recorded runs."""

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext

from evaluation.errors import EvolutionRunning
from evaluation.evolution.requests import EvolutionPlan, request_evolution, run_evolution
from evaluation.models import Evolution
from memory.projects.models import Project
from memory.runs.models import Trajectory
from memory.trust.erasure import erase_trajectory
from reflection.jobs.models import Job
from reflection.llm.models import DailySpend, ModelCall
from runtime.changes.ladder import check_change
from runtime.models.agents import Agent
from runtime.models.changes import Change
from runtime.models.runs import Run
from runtime.revisions import archive_agent
from tests.evaluation.evolution_rows import store_evolution
from tests.evaluation.recorded_runs import Shopkeeper, make_shop_with_runs, make_talker
from tests.factories import make_project
from tests.runtime.changing import Service
from tests.runtime.running import BY, check_deferred, make_agent
from tests.runtime.test_api import Api
from tests.waiting import is_anyone_waiting, wait_until

pytestmark = pytest.mark.django_db


@pytest.fixture
def shop() -> Iterator[Service]:
    with Service().running() as service:
        yield service


@pytest.fixture
def api() -> Api:
    return Api(scopes=["run", "agents"])


@pytest.fixture
def project(api: Api) -> Project:
    return api.key.api_key.project


def start(api: Api, agent: Agent, **plan: Any) -> Any:
    return api.post("evolutions", {"agent": str(agent.pk), "generations": 1} | plan)


def let_worker_evolve() -> None:
    """Let a worker carry out the evolution that is queued."""
    Job.objects.filter(kind="agent_evolution").update(available_at=Now())
    with override_settings(ERL_REFLECTION_LEASE_SECONDS=3600):  # the heartbeat does not see the test's transaction
        outcome = run_evolution(owner="worker", find=lambda model: Shopkeeper())
    assert outcome == "done", Job.objects.get(kind="agent_evolution").last_error
    check_deferred()


def test_agent_evolves_on_its_recorded_runs_and_proposes_what_it_gained(
    api: Api, project: Project, shop: Service
) -> None:
    agent = make_shop_with_runs(shop, project=project)
    sent, spent = len(shop.requests), DailySpend.objects.get(project=project).calls

    queued = start(api, agent)
    let_worker_evolve()
    report = api.get(queued["Location"].removeprefix("/api/v1/")).json()

    assert (queued.status_code, queued.json()["status"], queued.json()["candidates"]) == (202, "queued", [])
    assert (report["id"], report["status"], report["looks"]) == (queued.json()["id"], "done", 2)
    assert report["sets"] == {name: {"refunds": count} for name, count in (("mine", 8), ("gate", 6), ("holdout", 6))}
    assert report["sentence"].startswith("Candidate 1 takes 15 fewer tokens per task")
    first, best = report["candidates"]
    assert (first["parents"], best["parents"], best["is_chosen"], best["stopped_by"]) == ([], [0], True, "")
    assert [each["scores"]["refunds"]["steps"] for each in (first, best)] == [18, 12]
    assert best["change"] == report["change"]
    assert len(shop.requests) == sent
    assert DailySpend.objects.get(project=project).calls > spent
    change = Change.objects.get(pk=report["change"])
    check_change(change, by=BY)
    assert change.checks.get(name="replay").said == "It made the same 16 calls as 8 recorded cases."
    assert change.rung == "checked"


def test_same_request_is_one_evolution_and_another_waits(api: Api, project: Project) -> None:
    agent = make_talker(project=project)

    first, again = start(api, agent), start(api, agent)
    other = start(api, agent, seed=1)

    assert first.json()["id"] == again.json()["id"]
    assert (other.status_code, other.json()["error"]["code"]) == (409, "conflict")
    assert first.json()["id"] in other.json()["error"]["message"]
    assert Job.objects.filter(kind="agent_evolution").count() == 1


def test_repeated_key_is_answered_with_the_same_bytes(api: Api, project: Project) -> None:
    body = {"agent": str(make_talker(project=project).pk)}
    first, again = (api.post("evolutions", body, **{"Idempotency-Key": "once"}) for _ in range(2))

    assert (first.status_code, first.content) == (202, again.content)


@pytest.mark.parametrize(("runs", "has"), [(19, 19), (2, 0)])
def test_agent_with_too_few_runs_is_told_how_many_it_needs(api: Api, project: Project, runs: int, has: int) -> None:
    answer = start(api, make_talker(project=project, runs=runs))

    said = f"has {has} recorded runs that can be used, and an evolution needs at least 20"
    assert answer.status_code == 400
    assert said in answer.json()["error"]["message"]


@pytest.mark.nightly
def test_runs_of_no_family_are_tasks_too(api: Api, project: Project) -> None:
    agent = make_talker(project=project)
    Run.objects.update(task_id="")

    assert start(api, agent).status_code == 202


def test_command_says_how_many_runs_are_needed() -> None:
    make_agent(name="new")

    with pytest.raises(CommandError, match="has 0 recorded runs that can be used"):
        call_command("evolve", "new", "--suite", "recorded")
    with pytest.raises(CommandError, match="The demonstration has no recorded runs"):
        call_command("evolve", "demo", "--suite", "recorded")


@pytest.mark.parametrize("option", ["--generations=0", "--most=-1", "--seed=2147483648"])
def test_command_refuses_numbers_that_could_not_be_stored(option: str) -> None:
    with pytest.raises(CommandError, match="is not a whole number"):
        call_command("evolve", "demo", option)


@pytest.mark.parametrize(
    "plan", [{"suite": "toolchoice"}, {"generations": 0}, {"generations": 21}, {"most": -1}, {"looks": 3}]
)
def test_invalid_plans_are_refused(api: Api, project: Project, plan: dict[str, Any]) -> None:
    assert start(api, make_agent(project=project), **plan).status_code == 400
    assert not Job.objects.filter(kind="agent_evolution").exists()


@pytest.mark.nightly
def test_limit_that_leaves_too_few_runs_is_named(api: Api, project: Project) -> None:
    answer = start(api, make_talker(project=project), most=19)

    assert answer.status_code == 400
    assert "With at most 19 of each family, 19 recorded runs" in answer.json()["error"]["message"]


@pytest.mark.nightly
def test_limit_that_leaves_a_set_empty_is_refused(api: Api, project: Project) -> None:
    agent = make_talker(project=project, runs=30)
    for number, pk in enumerate(Run.objects.values_list("pk", flat=True)):
        Run.objects.filter(pk=pk).update(task_id=f"hours {number % 10}")

    answer = start(api, agent, most=2)

    assert answer.status_code == 400
    assert "Raise `most`" in answer.json()["error"]["message"]


@pytest.mark.django_db(transaction=True)
def test_of_two_plans_at_once_one_is_refused(api: Api, project: Project) -> None:
    agent = make_talker(project=project)
    refused: list[Exception] = []

    def ask() -> None:
        with closing(connection), pytest.raises(EvolutionRunning) as caught:
            request_evolution(agent, EvolutionPlan(agent=str(agent.pk), seed=1), by=BY)
        refused.append(caught.value)

    asking = threading.Thread(target=ask)
    with transaction.atomic():
        request_evolution(agent, EvolutionPlan(agent=str(agent.pk)), by=BY)
        asking.start()
        wait_until(is_anyone_waiting)
    asking.join()

    assert len(refused) == Job.objects.filter(kind="agent_evolution").count() == 1


@pytest.mark.nightly
def test_agent_that_was_archived_meanwhile_ends_the_evolution_and_says_so(api: Api, project: Project) -> None:
    agent = make_talker(project=project)
    path = start(api, agent)["Location"].removeprefix("/api/v1/")
    archive_agent(agent, by=BY)

    assert run_evolution(owner="worker", find=lambda model: Shopkeeper()) == "dead"

    report = api.get(path).json()
    assert report["error"] == "The agent support is archived, so it does not evolve. Choose another one."


@pytest.mark.nightly
def test_runs_that_were_erased_meanwhile_are_missing_and_it_says_so(api: Api, project: Project) -> None:
    path = start(api, make_talker(project=project))["Location"].removeprefix("/api/v1/")
    erase_trajectory(Trajectory.objects.latest("created_at"), by=BY)

    assert run_evolution(owner="worker", find=lambda model: Shopkeeper()) == "dead"

    assert "has 19 recorded runs that can be used" in api.get(path).json()["error"]


@pytest.mark.nightly
def test_erasure_of_a_run_takes_the_answers_of_its_rehearsals_along(api: Api, project: Project, shop: Service) -> None:
    start(api, make_shop_with_runs(shop, project=project))
    let_worker_evolve()
    run = Run.objects.latest("created_at")
    calls = ModelCall.objects.filter(step__contains=str(run.pk))
    assert calls.exclude(response="", tool_calls=[]).exists()

    erase_trajectory(Trajectory.objects.get(pk=run.pk), by=BY)

    assert calls.exists()
    assert not calls.exclude(response="", tool_calls=[], received=None).exists()
    assert ModelCall.objects.exclude(response="", tool_calls=[]).exists()


@pytest.mark.nightly
def test_archived_agent_does_not_evolve(api: Api, project: Project) -> None:
    agent = make_talker(project=project)
    archive_agent(agent, by=BY)

    assert start(api, agent).status_code == 400


def test_agent_of_another_project_is_not_found(api: Api) -> None:
    assert start(api, make_agent(project=make_project())).status_code == 404


def test_evolution_of_another_project_is_not_found(api: Api) -> None:
    other = Api(scopes=["run", "agents"])
    agent = make_talker(project=other.key.api_key.project)
    evolution = store_evolution(agent=agent)
    job = start(other, agent).json()["id"]

    assert [api.get(f"evolutions/{each}").status_code for each in (evolution.pk, job)] == [404, 404]
    assert api.get("evolutions").json()["results"] == []
    assert api.get("evolutions").json()["unfinished"] == []


def test_demonstration_of_the_operator_is_in_no_list(api: Api) -> None:
    demo = store_evolution()

    assert api.get("evolutions").json()["results"] == []
    assert api.get(f"evolutions/{demo.pk}").status_code == 404


@pytest.mark.nightly
def test_list_has_the_newest_first_and_what_has_not_ended(api: Api, project: Project) -> None:
    agent, other = make_talker(project=project), make_agent(project=project, name="other")
    ended = [store_evolution(agent=agent), store_evolution(agent=agent, gains=False), store_evolution(agent=other)]
    job = start(api, agent).json()["id"]

    listed = api.get(f"evolutions?agent={agent.pk}").json()

    assert [each["id"] for each in listed["results"]] == [str(each.pk) for each in ended[1::-1]]
    assert listed["results"][0]["sentence"].startswith("Nothing was gained")
    assert ([each["id"] for each in listed["unfinished"]], listed["pagination"]["total"]) == ([job], 2)
    assert api.get(f"evolutions?agent={other.pk}").json()["unfinished"] == []
    assert [each["id"] for each in api.get(f"evolutions?agent=%20{agent.pk}").json()["unfinished"]] == [job]
    assert api.get("evolutions?agent=ana").status_code == 400


def test_list_asks_as_often_for_many_as_for_one(api: Api, project: Project) -> None:
    agent = make_agent(project=project)
    store_evolution(agent=agent)
    api.get("evolutions")
    with CaptureQueriesContext(connection) as one:
        api.get("evolutions")
    store_evolution(agent=agent)
    store_evolution(agent=agent, gains=False)
    with CaptureQueriesContext(connection) as many:
        api.get("evolutions")

    assert len(many) == len(one)


@pytest.mark.nightly
def test_failed_evolution_says_what_went_wrong(api: Api, project: Project) -> None:
    job = start(api, make_talker(project=project)).json()["id"]
    said = "The model did not answer."
    Job.objects.filter(pk=job).update(status="dead", last_error=said, finished_at=Now())

    answer = api.get(f"evolutions/{job}").json()

    assert (answer["status"], answer["error"], answer["sentence"]) == ("dead", said, None)
    assert not Evolution.objects.exists()


@pytest.mark.parametrize(("scopes", "expected"), [(["run"], (200, 403)), (["agents"], (403, 400)), ([], (403, 403))])
def test_scopes_are_needed(scopes: list[str], expected: tuple[int, int]) -> None:
    api = Api(scopes=[*scopes, "retrieve"])
    agent = make_agent(project=api.key.api_key.project)

    assert (api.get("evolutions").status_code, start(api, agent).status_code) == expected


@pytest.mark.parametrize("method", ["get", "post"])
def test_no_key_no_answer(method: str) -> None:
    assert getattr(Client(), method)("/api/v1/evolutions").status_code == 401
    assert Client().get(f"/api/v1/evolutions/{uuid4()}").status_code == 401
