"""The client's own id of its end user, by each way in which texts come; lists are filtered by it."""

import json

import pytest
from rest_framework.test import APIClient

from memory.passages.models import Passage
from memory.projects.models import Project
from memory.runs.models import Trajectory
from runtime.models.conversations import Conversation
from tests.api.test_mcp import call
from tests.api.test_otlp import LINES
from tests.factories import make_trajectory
from tests.runtime.running import Script, go_on, make_agent, make_run

pytestmark = pytest.mark.django_db
RUNS = "/api/v1/trajectories"


def test_run_is_found_by_its_user(api_client: APIClient, project: Project) -> None:
    make_trajectory(project=project, user_id="bob")

    made = api_client.post(RUNS, {"task": "Cancel a booking", "user_id": "ana"}).json()

    found = api_client.get(RUNS, {"user_id": "ana"}).json()["results"]
    assert [(run["id"], run["user_id"]) for run in found] == [(made["id"], "ana")]


def test_address_as_user_id_is_stored_as_its_placeholder_and_found(api_client: APIClient) -> None:
    made = api_client.post(RUNS, {"task": "Cancel a booking", "user_id": "ana@example.org"}).json()

    found = api_client.get(RUNS, {"user_id": "ana@example.org"}).json()["results"]
    assert [run["id"] for run in found] == [made["id"]]
    assert made["user_id"].startswith("[REDACTED:email:")


def test_mcp_client_names_the_user(api_client: APIClient) -> None:
    call(api_client, "record_run", task="Cancel a booking", outcome="success", user_id="ana")

    found = call(api_client, "search_runs", user_id="ana")["structuredContent"]
    assert [run["task"] for run in found["runs"]] == ["Cancel a booking"]


@pytest.mark.parametrize("attribute", ["user.id", "enduser.id"])
def test_span_names_the_user(api_client: APIClient, attribute: str) -> None:
    said = {"key": attribute, "value": {"stringValue": "ana"}}
    request = json.loads(LINES[0])
    request["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["attributes"].append(said)

    api_client.post("/otlp/v1/traces", request)

    assert Trajectory.objects.get().user_id == "ana"


def test_passages_of_two_users_in_the_same_words_are_two(api_client: APIClient) -> None:
    text = "Wants an aisle seat."
    for user_id in ("ana", "bob", "ana"):
        api_client.post("/api/v1/passages", {"text": text, "user_id": user_id})

    found = api_client.get("/api/v1/passages", {"user_id": "ana"}).json()["results"]
    assert [passage["user_id"] for passage in found] == ["ana"]
    assert Passage.objects.count() == 2


def test_conversation_keeps_its_user_and_gives_it_to_what_is_made_in_it(project: Project) -> None:
    calls = [("archival_insert", {"text": "Likes window seats."})]
    run = make_run(make_agent(project=project, tools=["archival_insert"]), user_id="ana")

    go_on(run, Script(calls, "Done."))

    assert Conversation.objects.get().user_id == "ana"
    assert Trajectory.objects.get().user_id == "ana"
    assert Passage.objects.get().user_id == "ana"


def test_agent_runs_are_listed_by_user(api_client: APIClient, project: Project) -> None:
    agent = make_agent(project=project)
    for user_id in ("ana", "bob"):
        api_client.post(f"/api/v1/agents/{agent.pk}/runs", {"input": "Hello", "user_id": user_id})

    found = api_client.get(f"/api/v1/agents/{agent.pk}/runs", {"user_id": "ana"}).json()["results"]
    assert [run["user_id"] for run in found] == ["ana"]


def test_conversation_of_one_user_refuses_another(api_client: APIClient, project: Project) -> None:
    agent = make_agent(project=project)
    run = make_run(agent, user_id="ana")
    go_on(run, Script("Done."))

    sent = {"input": "Hello", "conversation": str(run.conversation_id), "user_id": "bob"}
    answer = api_client.post(f"/api/v1/agents/{agent.pk}/runs", sent)

    assert answer.status_code == 400
    assert list(answer.json()["error"]["fields"]) == ["/user_id"]
