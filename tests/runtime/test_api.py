"""Agents over HTTP."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from django.test import Client

from memory.projects.actors import Actor
from runtime.definitions.storage import save_tool
from runtime.definitions.values import ToolDefinition
from runtime.models.runs import Run
from runtime.streaming.events import append_event
from runtime.streaming.readers import KeyReader
from runtime.streaming.reading import read_events
from runtime.streaming.sse import write_events
from tests.factories import bearer, make_api_key, make_project
from tests.runtime.running import Script, go_on, make_agent, make_run
from tests.waiting import step_through

pytestmark = pytest.mark.django_db
JSON = "application/json"


class Api:
    """A client with a key of one project."""

    def __init__(self, *, scopes: list[str] | None = None) -> None:
        self.key = make_api_key(project=make_project(), scopes=scopes)
        self.headers = bearer(self.key.token)
        self.client = Client()

    def get(self, path: str, **headers: str) -> Any:
        return self.client.get(f"/api/v1/{path}", headers=self.headers | headers)

    def post(self, path: str, body: dict[str, Any] | None = None, **headers: str) -> Any:
        return self.client.post(f"/api/v1/{path}", body or {}, content_type=JSON, headers=self.headers | headers)


def start(api: Api, **agent: Any) -> dict[str, Any]:
    """Make an agent, start a run and return it."""
    made = api.post("agents", {"name": "support"} | agent).json()
    body: dict[str, Any] = api.post(f"agents/{made['id']}/runs", {"input": "Where is order 1?"}).json()
    return body


def finish(run: dict[str, Any], *turns: Any) -> None:
    go_on(Run.objects.get(pk=run["id"]), Script(*turns))


def test_run_is_started_and_read() -> None:
    api = Api()
    run = start(api, system="You help.")
    finish(run, "On its way.")

    answer = api.get(f"runs/{run['id']}").json()

    assert run["status"] == "queued"
    assert (answer["status"], answer["reply"], answer["trajectory"]) == ("succeeded", "On its way.", run["id"])


def test_lessons_in_a_message_are_no_part_of_the_task_of_a_run() -> None:
    block = "<lessons>\nLessons from earlier runs, each approved.\n1. When a: b\n</lessons>"

    api = Api()
    agent = api.post("agents", {"name": "support"}).json()

    run = api.post(f"agents/{agent['id']}/runs", {"input": f"{block}\nCancel my flight."}).json()

    assert Run.objects.get(pk=run["id"]).task == "Cancel my flight."


def test_run_under_a_key_is_started_once() -> None:
    api = Api()
    agent = api.post("agents", {"name": "support"}).json()

    first = api.post(f"agents/{agent['id']}/runs", {"input": "Hi"}, **{"Idempotency-Key": "k1"})
    again = api.post(f"agents/{agent['id']}/runs", {"input": "Hi"}, **{"Idempotency-Key": "k1"})

    assert (first.status_code, first.content, Run.objects.count()) == (202, again.content, 1)


def test_second_run_in_a_conversation_is_a_conflict() -> None:
    api = Api()
    run = start(api)

    answer = api.post(f"agents/{run['agent']}/runs", {"input": "Hello?", "conversation": run["conversation"]})

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "run_is_open")


def test_agent_with_impossible_rules_is_refused() -> None:
    answer = Api().post("agents", {"name": "support", "rules": [{"type": "run_first", "tool": "x"}]})

    assert (answer.status_code, list(answer.json()["error"]["fields"])) == (400, ["/rules/0"])


def test_change_of_an_agent_is_a_new_revision() -> None:
    api = Api()
    agent = api.post("agents", {"name": "support", "tools": ["send_message"]}).json()

    changed = api.client.patch(
        f"/api/v1/agents/{agent['id']}", {"system": "Be brief."}, content_type=JSON, headers=api.headers
    ).json()

    assert (changed["current"]["number"], changed["current"]["tools"]) == (2, [{"name": "send_message"}])


def test_approval_is_listed_and_decided() -> None:
    api = Api()
    rules = [{"type": "requires_approval", "tool": "send_message"}]
    run = start(api, tools=["send_message"], rules=rules)
    finish(run, [("send_message", {"message": "Hi"})])
    (pending,) = api.get("approvals?status=pending").json()["results"]
    effect = pending["effect"]

    decided = api.post(
        f"effects/{effect['id']}/decide",
        {"decision": "approve", "arguments_sha256": effect["arguments_sha256"]},
    )
    finish(run, "Done.")

    assert (decided.status_code, decided.json()["status"]) == (200, "planned")
    assert [each["content"] for each in api.get(f"conversations/{run['conversation']}/messages").json()["results"]] == [
        "Where is order 1?",
        "",
        "Hi",
        "Sent.",
        "Done.",
    ]


def test_tool_is_allowed_for_always_until_it_changes() -> None:
    api = Api()
    by, project = Actor(label="user:ana"), api.key.api_key.project
    definition = ToolDefinition(
        name="greet",
        description="Greet.",
        parameters={"type": "object", "properties": {}},
        source="def greet() -> str:\n    return 'Hi'\n",
        requires_approval=True,
    )
    sha256 = save_tool(project, definition, by=by, approve=True).revision.content_sha256
    made = api.post("agents", {"name": "support", "tools": ["greet"]}).json()

    other = api.post(f"agents/{made['id']}/allow", {"tool": "greet", "sha256": "0" * 64})
    allowed = api.post(f"agents/{made['id']}/allow", {"tool": "greet", "sha256": sha256})
    greeted = api.post(f"agents/{made['id']}/runs", {"input": "Hi"}).json()
    finish(greeted, [("greet", {})], "Done.")
    save_tool(project, replace(definition, description="Say hello."), by=by, approve=True)
    api.client.patch(f"/api/v1/agents/{made['id']}", {"tools": ["greet"]}, content_type=JSON, headers=api.headers)
    asked = api.post(f"agents/{made['id']}/runs", {"input": "Hi"}).json()
    finish(asked, [("greet", {})])

    assert (other.status_code, allowed.status_code, allowed.json()["current"]["number"]) == (409, 200, 2)
    assert [api.get(f"runs/{run['id']}").json()["status"] for run in (greeted, asked)] == ["succeeded", "waiting"]


def test_tool_is_not_allowed_for_always_by_who_may_only_change_agents() -> None:
    api = Api(scopes=["agents", "run"])
    rules = [{"type": "always_allow", "tool": "send_message"}]
    made = api.post("agents", {"name": "support", "tools": ["send_message"]}).json()

    by_rule = api.client.patch(f"/api/v1/agents/{made['id']}", {"rules": rules}, content_type=JSON, headers=api.headers)

    assert (by_rule.status_code, list(by_rule.json()["error"]["fields"])) == (400, ["/rules/0"])
    assert api.post("agents", {"name": "other", "tools": ["send_message"], "rules": rules}).status_code == 400
    assert api.post(f"agents/{made['id']}/allow", {"tool": "send_message"}).status_code == 403


def test_cancelled_run_ends_before_its_next_action() -> None:
    api = Api()
    run = start(api)

    api.post(f"runs/{run['id']}/cancel")
    finish(run)

    assert api.get(f"runs/{run['id']}").json()["status"] == "cancelled"


def test_run_of_an_archived_agent_is_not_resumed() -> None:
    api = Api()
    run = start(api)
    api.post(f"runs/{run['id']}/cancel")
    finish(run)
    api.client.delete(f"/api/v1/agents/{run['agent']}", headers=api.headers)

    answer = api.post(f"runs/{run['id']}/resume")

    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "agent_archived")


@pytest.mark.parametrize("position", ["1e3", "\uff11", "1, 2", "9999999999"])
def test_stream_after_an_event_that_does_not_exist_is_refused(position: str) -> None:
    """A reader that waits for what comes after an event far ahead would never see the end of the run."""
    api = Api()
    run = start(api)

    answer = api.client.get(f"/api/v1/runs/{run['id']}/events", {"after": position}, headers=api.headers)

    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_query")


def test_failed_run_is_resumed_in_its_conversation() -> None:
    api = Api()
    run = start(api, limits={"max_steps": 1}, tools=["send_message"])
    finish(run, [("send_message", {"message": "1"})])

    new = api.post(f"runs/{run['id']}/resume", {"limits": {"max_steps": 5}}).json()
    finish(new, "Done.")

    assert api.get(f"runs/{run['id']}").json()["stop_reason"] == "max_steps"
    assert (api.get(f"runs/{new['id']}").json()["reply"], new["resumes"]) == ("Done.", run["id"])


def test_events_are_streamed_to_the_end_of_the_run() -> None:
    api = Api()
    run = start(api)
    finish(run, "On its way.")

    streamed = b"".join(api.get(f"runs/{run['id']}/events").streaming_content).decode()

    ids = [int(line[4:]) for line in streamed.splitlines() if line.startswith("id: ")]
    assert ids == list(range(1, ids[-1] + 1))
    assert '"status":"succeeded"' in streamed.rpartition("event: run")[2]


def test_stream_goes_on_after_the_last_event_that_was_read() -> None:
    api = Api()
    run = start(api)
    finish(run, "On its way.")

    streamed = b"".join(api.get(f"runs/{run['id']}/events", **{"Last-Event-ID": "3"}).streaming_content).decode()

    assert "id: 3\n" not in streamed
    assert "id: 4\n" in streamed


@pytest.mark.parametrize(
    ("query", "headers", "code", "name"),
    [
        ("", {"Last-Event-ID": "x"}, "invalid_request", "Last-Event-ID"),
        ("", {"Last-Event-ID": "1000"}, "invalid_request", "Last-Event-ID"),
        ("?after=-1", {}, "invalid_query", "after"),
        ("?after=1000", {}, "invalid_query", "after"),
    ],
)
def test_position_that_cannot_be_is_refused_by_the_name_it_was_sent_under(
    query: str, headers: dict[str, str], code: str, name: str
) -> None:
    api = Api()
    run = start(api)

    answer = api.get(f"runs/{run['id']}/events{query}", **headers)

    assert answer.status_code == 400
    assert (answer.json()["error"]["code"], [*answer.json()["error"]["fields"]]) == (code, [name])


def test_stream_that_has_everything_ends() -> None:
    api = Api()
    run = start(api)
    finish(run, "On its way.")

    assert api.get(f"runs/{run['id']}/events?after=1000").status_code == 204


def test_stream_of_a_run_that_ended_ends_after_what_people_said_later() -> None:
    api = Api()
    run = start(api)
    finish(run, "On its way.")
    last = Run.objects.get(pk=run["id"]).events_written
    append_event(UUID(run["id"]), "approval", status="rejected")  # as of a call that was not known to have happened

    streamed = api.get(f"runs/{run['id']}/events", **{"Last-Event-ID": str(last)}).streaming_content

    assert b"".join(streamed).startswith(f"id: {last + 1}\nevent: approval".encode())


@pytest.mark.django_db(transaction=True)
def test_reader_sees_an_event_that_is_written_while_it_reads() -> None:
    run = make_run(make_agent())
    first = read_events(run.pk, after=0)
    reader = KeyReader(key_id=make_api_key(project=run.project).api_key.pk, project_id=run.project_id)
    stream = step_through(write_events(run.pk, after=0, first=first, reader=reader))
    seen = [next(stream) for _ in range(1 + len(first))]

    go_on(run, Script("On its way."))
    seen += [part for part in stream if part]

    assert b"On its way." in b"".join(seen)
