"""Tools over HTTP: stored, approved by hash, tried without an effect."""

from collections.abc import Mapping
from typing import Any

import pytest
from django.test import Client

from erl_site.diagnosis.running import check_sandbox
from runtime.definitions import checks
from runtime.models.tools import Tool
from runtime.sandbox import workers
from tests.factories import make_api_key

pytestmark = pytest.mark.django_db
TOTAL: dict[str, Any] = {
    "name": "total",
    "description": "Add what an order costs to a tip.",
    "parameters": {
        "type": "object",
        "properties": {"order_id": {"type": "string"}, "tip": {"type": "integer", "default": 0}},
        "required": ["order_id"],
        "additionalProperties": False,
    },
    "source": "def total(order_id: str, tip: int = 0) -> int:\n    return price(order_id) + tip\n",
    "uses": ["price"],
    "examples": [{"arguments": {"order_id": "A1"}, "answer": 5, "host": {"price": 5}}],
}
PRICE: dict[str, Any] = {
    "name": "price",
    "description": "What an order costs.",
    "kind": "pure",
    "parameters": {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]},
    "source": "def price(order_id: str) -> int:\n    return len(order_id) * 10\n",
}


def call(client: Client, token: str, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
    sent: dict[str, Any] = {} if body is None else {"data": body, "content_type": "application/json"}
    return getattr(client, method)(f"/api/v1{path}", headers={"Authorization": f"Bearer {token}"}, **sent)


@pytest.fixture
def made() -> Any:
    return make_api_key(scopes=["run", "agents", "review"])


@pytest.fixture
def tool_id(client: Client, made: Any) -> str:
    price = call(client, made.token, "post", "/tools", PRICE).json()
    call(client, made.token, "post", f"/tools/{price['id']}/approve", {"sha256": price["latest"]["sha256"]})
    stored = call(client, made.token, "post", "/tools", TOTAL)
    assert stored.status_code == 201, stored.content
    return str(stored.json()["id"])


def test_stored_tool_is_proposed_and_the_same_content_is_the_same_revision(
    client: Client, made: Any, tool_id: str
) -> None:
    again = call(client, made.token, "post", "/tools", TOTAL)

    assert (again.status_code, again.json()["id"]) == (200, tool_id)
    assert (again.json()["current"], again.json()["latest"]["status"]) == (None, "proposed")
    assert again.json()["latest"]["kind"] == "unsafe"


@pytest.mark.parametrize(
    ("changed", "place", "said"),
    [
        ({"name": "send_message"}, "/name", "send_message is one of ERL's own tools. Give yours another name."),
        ({"limits": {"seconds": 20}}, "/limits", "The limit seconds is a number above 0, at most 10.0."),
    ],
)
def test_tool_that_cannot_be_stored_is_refused_at_its_place(
    client: Client, made: Any, changed: dict[str, Any], place: str, said: str
) -> None:
    refused = call(client, made.token, "post", "/tools", PRICE | changed)

    assert refused.status_code == 400
    assert refused.json()["error"]["fields"][place] == [said]


def test_approval_is_of_the_hash_that_was_read(client: Client, made: Any, tool_id: str) -> None:
    path = f"/tools/{tool_id}/approve"
    latest = call(client, made.token, "get", f"/tools/{tool_id}").json()["latest"]

    assert call(client, made.token, "post", path, {"sha256": "0" * 64}).status_code == 409
    approved = call(client, made.token, "post", path, {"sha256": latest["sha256"]}).json()
    assert approved["current"]["number"] == 1
    assert approved["current"]["decided_by"].startswith("key:")


def test_proposed_tool_is_rejected_by_its_hash_and_an_approved_one_is_not(
    client: Client, made: Any, tool_id: str
) -> None:
    latest = call(client, made.token, "get", f"/tools/{tool_id}").json()["latest"]
    price = call(client, made.token, "post", "/tools", PRICE).json()

    assert call(client, made.token, "post", f"/tools/{tool_id}/reject", {"sha256": "0" * 64}).status_code == 409
    rejected = call(client, made.token, "post", f"/tools/{tool_id}/reject", {"sha256": latest["sha256"]}).json()
    refused = call(client, made.token, "post", f"/tools/{price['id']}/reject", {"sha256": price["latest"]["sha256"]})

    assert (rejected["current"], rejected["latest"]["status"]) == (None, "rejected")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "already_decided")


@pytest.mark.parametrize(
    ("sent", "status", "value"),
    [
        ({"host": {"price": 7}}, "returned", 9),
        ({"mode": "shadow"}, "returned", 22),
        ({"mode": "dry"}, "raised", None),
    ],
)
def test_tool_is_tried_without_an_effect(
    client: Client, made: Any, tool_id: str, sent: dict[str, Any], status: str, value: Any
) -> None:
    body = {"arguments": {"order_id": "A1", "tip": 2}, **sent}
    tried = call(client, made.token, "post", f"/tools/{tool_id}/try", body).json()

    assert (tried["status"], tried["value"]) == (status, value)
    assert tried["calls"][0]["args"] == ["A1"]


def test_arguments_are_checked_before_a_try(client: Client, made: Any, tool_id: str) -> None:
    refused = call(client, made.token, "post", f"/tools/{tool_id}/try", {"arguments": {"tip": "much"}})

    assert refused.status_code == 400
    assert "order_id is missing." in refused.json()["error"]["fields"]["/arguments"][0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"source": "def total(order_id: str, tip: int = 0) -> int:\n    return 'x'\n"}, "line 2: total: Return type"),
        ({"source": "def other() -> int:\n    return 1\n"}, "does not define a function total"),
        ({"uses": ["nothing"]}, "uses nothing, which is no tool"),
        ({"examples": [{"arguments": {"order_id": "A1"}, "answer": 6, "host": {"price": 5}}]}, "answers 5, and not 6"),
        ({"runtime": "python"}, "Only monty and http"),
        ({"runtime": "http", "source": "", "uses": [], "examples": [], "request": {"method": "GET"}}, "Field required"),
    ],
)
def test_faulty_tool_is_refused(client: Client, made: Any, tool_id: str, change: dict[str, Any], said: str) -> None:
    refused = call(client, made.token, "post", "/tools", TOTAL | change)

    assert refused.status_code == 400
    assert said in refused.json()["error"]["message"]
    assert Tool.objects.get(pk=tool_id).revisions.count() == 1


def test_busy_sandbox_answers_503(client: Client, made: Any, tool_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MAX_WORKERS", 1)
    monkeypatch.setattr(workers, "CHECKOUT_SECONDS", 0.05)
    workers.close_pool()
    try:
        with workers.get_pool().checkout():
            tried = call(client, made.token, "post", f"/tools/{tool_id}/try", {"arguments": {"order_id": "A1"}})
            stored = call(client, made.token, "post", "/tools", PRICE | {"description": "Its price."})
    finally:
        workers.close_pool()

    told = [(each.status_code, each.json()["error"]["code"]) for each in (tried, stored)]
    assert told == [(503, "sandbox_unavailable")] * 2


def test_sandbox_whose_program_is_missing_is_named_by_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pydantic_monty._binary._script_dirs", list)
    monkeypatch.setenv("PATH", "")
    workers.close_pool()

    found = [result for result in check_sandbox() if result.name == "sandbox"]

    assert "Tools cannot run: The sandbox cannot be started" in found[0].message


def test_tools_are_listed_by_name_with_few_queries(
    client: Client, made: Any, tool_id: str, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(12):
        listed = call(client, made.token, "get", "/tools").json()

    assert [each["name"] for each in listed["results"]] == ["price", "total"]


def test_examples_of_a_tool_share_one_time_limit(client: Client, made: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "EXAMPLE_SECONDS", 0.3)
    endless = {
        "name": "endless",
        "source": "def endless(order_id: str) -> int:\n    while True:\n        pass\n",
        "examples": [{"arguments": {"order_id": str(number)}, "answer": 1} for number in range(20)],
        "limits": {"seconds": 0.1},
    }

    refused = call(client, made.token, "post", "/tools", PRICE | endless)

    faults = next(iter(refused.json()["error"]["fields"].values()))
    assert refused.status_code == 400
    assert len(faults) <= 4
    assert "take more than 0.3 seconds together" in faults[-1]
