"""How both adapters classify failures (reliability B9)."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from reflection.llm.base import Provider, ProviderConfig
from reflection.llm.connections import MAX_ANSWER_BYTES
from tests.reflection.providers.asking import KEY, REQUEST, Make, failure_of
from tests.scripted_answers import (
    Behaviour,
    Flood,
    answer,
    drips,
    fails,
    raw,
    redirects,
    resets,
    resets_mid_body,
    silence,
)
from tests.scripted_provider import ScriptedProvider


@pytest.mark.parametrize("status", [408, 409, 425, 429, 499, 500, 502, 503, 504, 529])
def test_status_that_may_pass_is_transient(status: int, server: ScriptedProvider, provider: Provider) -> None:
    server.script(fails(status))

    error = failure_of(provider)

    assert error.transient
    assert error.status == status


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 413, 422])
def test_status_that_stays_is_final(status: int, server: ScriptedProvider, provider: Provider) -> None:
    server.script(fails(status))

    error = failure_of(provider)

    assert not error.transient
    assert len(server.requests) == 1


def test_words_of_a_proxy_are_shown(server: ScriptedProvider, provider: Provider) -> None:
    server.script(raw(b"error code: 1015", status=400))

    assert "error code: 1015" in str(failure_of(provider))


def test_adapter_never_retries_by_itself(server: ScriptedProvider, provider: Provider) -> None:
    server.script(fails(529), answer("Yes."))

    failure_of(provider)

    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("0", 0.0), ("1.5", 1.5), ("-3", 0.0), ("86400", 3600.0), ("soon", None), ("nan", None), ("", None)],
)
def test_retry_after_in_seconds_is_read_and_capped(
    header: str, seconds: float | None, server: ScriptedProvider, provider: Provider
) -> None:
    server.script(fails(429, kind="rate_limit_error", retry_after=header))

    assert failure_of(provider).retry_after_seconds == seconds


def test_retry_after_as_date_is_read(server: ScriptedProvider, provider: Provider) -> None:
    at = datetime.now(UTC) + timedelta(seconds=100)
    server.script(fails(503, retry_after=format_datetime(at, usegmt=True)))

    wait = failure_of(provider).retry_after_seconds

    assert wait is not None
    assert 90 < wait <= 100


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("insufficient_quota", "You exceeded your current quota, please check your plan and billing details."),
        ("rate_limit_error", "Your credit balance is too low."),
    ],
)
def test_exhausted_quota_is_final_although_429(
    kind: str, message: str, server: ScriptedProvider, provider: Provider
) -> None:
    server.script(fails(429, kind=kind, message=message, retry_after="5"))

    error = failure_of(provider)

    assert (error.transient, error.code, error.retry_after_seconds) == (False, "quota", None)


@pytest.mark.parametrize("behaviour", [resets(), resets_mid_body()], ids=["at_once", "mid_body"])
def test_reset_connection_is_transient(behaviour: Behaviour, server: ScriptedProvider, provider: Provider) -> None:
    server.script(behaviour)

    error = failure_of(provider)

    assert (error.transient, error.code) == (True, "connection")


def test_adapter_works_again_after_a_reset(server: ScriptedProvider, provider: Provider) -> None:
    server.script(resets_mid_body(), answer("Yes."))
    failure_of(provider)

    assert provider.chat(REQUEST).text == "Yes."


@pytest.mark.parametrize("name", ["anthropic", "openai"])
@pytest.mark.parametrize("behaviour", [silence(), drips()], ids=["silence", "drips"])
def test_whole_call_ends_at_the_time_limit(
    name: str, behaviour: Behaviour, server: ScriptedProvider, make: Make
) -> None:
    server.script(behaviour)
    provider = make(name, timeout_seconds=0.4)
    started = time.monotonic()

    error = failure_of(provider)

    assert (error.transient, error.code) == (True, "timeout")
    assert time.monotonic() - started < 10  # the server would go on for a minute, or for ever


def test_missing_server_is_transient(make: Make) -> None:
    error = failure_of(make("openai", base_url="http://127.0.0.1:9/v1"))

    assert (error.transient, error.code) == (True, "connection")


@pytest.mark.parametrize("name", ["anthropic", "openai"])
def test_endless_answer_is_cut_at_one_mebibyte(name: str, server: ScriptedProvider, make: Make) -> None:
    flood = Flood()
    server.script(flood)

    error = failure_of(make(name, timeout_seconds=30))

    assert (error.transient, error.code) == (False, "response_too_large")
    assert flood.ended.wait(10)
    # What the sockets buffer on both sides comes on top
    assert flood.sent_bytes < MAX_ANSWER_BYTES + 16 * 1024 * 1024


@pytest.mark.parametrize(
    "body",
    [
        b"Bad gateway",
        b"",
        b"[]",
        b"null",
        b'"text"',
        b"{}",
        b'{"choices": []}',
        b'{"choices": [1]}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": {"content": 7}}]}',
        b'{"choices": {}, "content": "x"}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"content": ',
    ],
)
def test_body_in_no_known_envelope_is_transient(body: bytes, server: ScriptedProvider, provider: Provider) -> None:
    server.script(raw(body))

    error = failure_of(provider)

    assert (error.transient, error.code) == (True, "bad_envelope")


def test_compressed_answer_is_refused(server: ScriptedProvider, provider: Provider) -> None:
    server.script(raw(b"\x1f\x8b", headers={"Content-Encoding": "gzip"}))

    assert failure_of(provider).code == "bad_envelope"


def test_redirect_is_not_followed(server: ScriptedProvider, provider: Provider) -> None:
    server.script(redirects(f"{server.anthropic_url}/elsewhere"))

    error = failure_of(provider)

    assert (error.transient, error.code) == (False, "redirect")
    assert len(server.requests) == 1


def test_gateway_error_inside_a_success_is_classified(server: ScriptedProvider, make: Make) -> None:
    server.script(raw(b'{"error": {"code": 429, "message": "Slow down."}}'))

    error = failure_of(make("openai"))

    assert (error.transient, error.code) == (True, "rate_limited")


@pytest.mark.parametrize("status", [400, 401, 404, 500])
def test_key_shows_in_no_message(status: int, server: ScriptedProvider, provider: Provider) -> None:
    server.script(fails(status, message=f"Incorrect API key provided: {KEY} (sk-te***************mnop)."))

    error = failure_of(provider)

    shown = f"{error} {error.detail} {error!r} {provider!r} {vars(provider)}"
    assert KEY not in shown
    assert "mnop" not in shown


def test_short_placeholder_key_hides_no_letters(server: ScriptedProvider, make: Make) -> None:
    server.script(fails(404, message="The model was not found."))

    assert "The model was not found." in str(failure_of(make("openai", api_key="e")).detail)


def test_key_shows_in_no_repr_of_the_configuration() -> None:
    config = ProviderConfig(name="openai", model="m", base_url="https://x", timeout_seconds=1, api_key=KEY)

    assert KEY not in repr(config)
