"""Tools that are requests to services, against a real server on loopback."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from erl_site.checks.services import check_services
from runtime.definitions.storage import save_tool
from runtime.definitions.values import ToolDefinition
from runtime.errors import InvalidArguments, InvalidDefinition
from runtime.http_tools import RequestFailed, read_request, send_request
from runtime.models.effects import Effect
from runtime.revisions import AgentSpec, create_agent
from runtime.tools import custom
from runtime.tools.catalogue import pin_tools
from tests.factories import make_project
from tests.runtime.running import BY, Script, go_on, make_run
from tests.scripted_answers import Behaviour, raw, silence
from tests.scripted_provider import ScriptedProvider

PARAMETERS = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "amount": {"type": "number"}},
    "required": ["order_id"],
    "additionalProperties": False,
}


@pytest.fixture
def shop(settings: Any) -> Iterator[ScriptedProvider]:
    settings.ERL_HTTP_HOSTS = ["127.0.0.1"]
    settings.ERL_TOOL_SECRETS = {"shop": {"host": "127.0.0.1", "value": "Bearer s3cret"}}
    with ScriptedProvider() as server:
        yield server


def request_to(server: ScriptedProvider, **members: Any) -> Any:
    sent = {"method": "POST", "url": f"{server.anthropic_url}/orders/{{order_id}}/refund", **members}
    return read_request(sent, PARAMETERS)


def test_request_has_arguments_key_and_effect_id(shop: ScriptedProvider) -> None:
    shop.script(raw(b'{"paid": 5}'))
    request = request_to(shop, secret_headers={"Authorization": "shop"})

    answer = send_request(request, PARAMETERS, {"order_id": "A/../1", "amount": 5.0}, idempotency_key="effect-1")

    assert answer.value == {"paid": 5}
    sent = shop.requests[-1]
    assert sent.path == "/orders/A%2F..%2F1/refund"
    assert json.loads(sent.data) == {"amount": 5.0}
    headers = {name.lower(): value for name, value in sent.headers.items()}
    assert (headers["authorization"], headers["idempotency-key"]) == ("Bearer s3cret", "effect-1")


@pytest.mark.parametrize(
    ("behaviour", "said", "is_certain"),
    [
        (raw(b"no", status=404), "answered 404: no", True),
        (raw(b"", status=307, headers={"location": "http://127.0.0.1/"}), "a redirect, which is not followed", True),
        (raw(b"", status=303, headers={"location": "http://127.0.0.1/"}), "a redirect, which is not followed", False),
        (raw(b"broken", status=500), "answered 500", False),
    ],
)
def test_other_answer_is_a_failure(shop: ScriptedProvider, behaviour: Any, said: str, is_certain: bool) -> None:
    shop.script(behaviour)

    with pytest.raises(RequestFailed) as raised:
        send_request(request_to(shop, max_bytes=1_000), PARAMETERS, {"order_id": "A1"})
    assert said in str(raised.value)
    assert raised.value.is_certain is is_certain


def test_host_that_is_not_named_is_not_reached(shop: ScriptedProvider, settings: Any) -> None:
    request = request_to(shop)
    settings.ERL_HTTP_HOSTS = []

    with pytest.raises(RequestFailed, match="private network"):
        send_request(request, PARAMETERS, {"order_id": "A1"})
    assert shop.requests == []


@pytest.mark.parametrize("order_id", ["..", ""])
def test_argument_cannot_change_the_path(shop: ScriptedProvider, order_id: str) -> None:
    with pytest.raises(InvalidArguments, match="part of a path"):
        send_request(request_to(shop), PARAMETERS, {"order_id": order_id})


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"url": "http://shop.example/"}, "must start with https"),
        ({"url": "https://{order_id}.example/"}, "Arguments stand in the path"),
        ({"url": "https://shop.example/{other}"}, "'other' is no argument"),
        ({"url": "https://shop.example/{amount}"}, "amount has to be a required argument"),
        ({"url": "https://169.254.169.254/"}, "metadata service"),
        ({"headers": {"Host": "x"}}, "Host is set by ERL"),
        ({"headers": {"X-A": "a\r\nb"}}, "no header can have"),
        ({"secret_headers": {"X-Key": "crm"}}, "no secret 'crm'"),
        ({"url": "https://evil.example/", "secret_headers": {"X-Key": "shop"}}, "is for another host"),
        ({"method": "TRACE"}, "request/method"),
    ],
)
def test_faulty_request_is_refused(shop: ScriptedProvider, members: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidDefinition) as raised:
        request_to(shop, **members)
    assert said in str(raised.value)


def run_refund(shop: ScriptedProvider, kind: str) -> Effect:
    """Let an agent call the shop by a tool of a kind that waits for 0.3 seconds, and return the call."""
    project = make_project()
    sent = {"method": "POST", "url": f"{shop.anthropic_url}/orders/{{order_id}}/refund", "seconds": 0.3}
    definition = ToolDefinition(
        name="refund", description="Pay back.", parameters=PARAMETERS, kind=kind, runtime="http", request=sent
    )
    save_tool(project, definition, by=BY, approve=True)
    run = make_run(
        create_agent(project, name="shop", spec=AgentSpec(tools=tuple(pin_tools(project, ["refund"]))), by=BY)
    )
    go_on(run, Script([("refund", {"order_id": "A1"})], "Done."))
    return run.effects.get()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("script", "status", "times"),
    [
        ([silence(0.6), raw(b"busy", status=409), raw(b'{"paid": 5}')], "succeeded", 3),
        ([raw(b"no", status=503)] * 4, "failed", 3),
        ([raw(b"no such order", status=404)], "failed", 1),
    ],
    ids=["answers late", "does not answer", "refuses"],
)
def test_idempotent_call_without_an_answer_is_sent_again_under_its_id(
    shop: ScriptedProvider, monkeypatch: pytest.MonkeyPatch, script: list[Behaviour], status: str, times: int
) -> None:
    monkeypatch.setattr(custom, "RESEND_AFTER_SECONDS", (0.0, 0.0))
    shop.script(*script)

    effect = run_refund(shop, "idempotent")

    assert (effect.status, len(shop.requests)) == (status, times)
    assert {each.headers["idempotency-key"] for each in shop.requests} == {str(effect.pk)}


@pytest.mark.django_db
def test_unsafe_call_without_an_answer_is_not_sent_again(shop: ScriptedProvider) -> None:
    shop.script(raw(b"no", status=503))

    assert (run_refund(shop, "unsafe").status, len(shop.requests)) == ("unknown", 1)


@pytest.mark.parametrize("secrets", [["shop"], {"shop": "Bearer x"}, {"shop": {"value": "Bearer x"}}])
def test_unusable_secrets_are_found_by_a_check(settings: Any, secrets: Any) -> None:
    settings.ERL_TOOL_SECRETS = secrets

    assert "erl.services.E009" in [message.id for message in check_services()]


def test_answer_that_is_too_long_says_that_it_happened(shop: ScriptedProvider) -> None:
    shop.script(raw(b"x" * 2_000))

    answer = send_request(request_to(shop, max_bytes=1_000), PARAMETERS, {"order_id": "A1"})

    assert (answer.status, answer.value.startswith("x" * 1_000 + "\n[The service answered 200")) == (200, True)
