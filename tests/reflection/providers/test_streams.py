"""Streams that break, stall or never end, and the reading of server-sent events."""

from collections.abc import Iterator

import pytest
from reflection.llm.sse import MAX_LINE_BYTES, MAX_STREAM_BYTES, StreamTooLarge, read_events

from reflection.llm.base import Provider
from tests.reflection.providers.asking import Make
from tests.reflection.providers.chatting import chat_request, failure_of_chat, ignore
from tests.scripted_answers import (
    Behaviour,
    Flood,
    answer,
    begins,
    breaks,
    chunks,
    ends,
    fails,
    resets,
    says,
    silence,
)
from tests.scripted_provider import ScriptedProvider

DONE = 'data: {"choices": [{"delta": {"content": "All."}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


@pytest.mark.parametrize(
    ("behaviour", "code"),
    [
        (begins(ends()), "connection"),
        (begins(resets()), "connection"),
        (begins(ends(), events=0), "connection"),
        (begins(says("data: {not json\n\n")), "bad_envelope"),
        (begins(says("data: [1]\n\n")), "bad_envelope"),
        (begins(says('data: {"cho')), "connection"),
    ],
    ids=["ends", "resets", "ends_at_once", "garbage", "list", "cut_in_an_event"],
)
def test_broken_stream_is_a_transient_error_and_never_half_an_answer(
    behaviour: Behaviour, code: str, server: ScriptedProvider, provider: Provider
) -> None:
    server.script(behaviour)

    error = failure_of_chat(provider)

    assert (error.transient, error.code) == (True, code)


def test_end_without_a_reason_is_no_answer(server: ScriptedProvider, make: Make) -> None:
    server.script(chunks({"content": "Half an"}, finish=None))

    assert failure_of_chat(make("openai")).transient


def test_text_before_the_break_was_passed_on(server: ScriptedProvider, provider: Provider) -> None:
    server.script(begins(ends()))
    pieces: list[str] = []

    failure_of_chat(provider, pieces.append)

    assert "".join(pieces).startswith("Hello")


@pytest.mark.parametrize(
    ("kind", "status", "transient"),
    [
        ("overloaded_error", 529, True),
        ("rate_limit_error", 429, True),
        ("invalid_request_error", 400, False),
        ("something_else", 502, True),
    ],
)
def test_error_in_a_stream_is_classified_by_its_kind(
    kind: str, status: int, transient: bool, server: ScriptedProvider, provider: Provider
) -> None:
    server.script(begins(breaks(kind, message="temperature")))

    error = failure_of_chat(provider)

    assert (error.status, error.transient, error.code) == (status, transient, "stream_failed")
    assert len(server.requests) == 1


def test_call_that_groq_cannot_read_may_be_better_next_time(server: ScriptedProvider, make: Make) -> None:
    server.script(fails(400, kind="tool_use_failed", message="Failed to call a function."))

    assert failure_of_chat(make("groq")).transient


def test_quota_that_ends_in_a_stream_is_final(server: ScriptedProvider, provider: Provider) -> None:
    server.script(begins(breaks("insufficient_quota", message="You exceeded your current quota.")))

    assert not failure_of_chat(provider).transient


def test_refusal_before_a_stream_keeps_its_wait(server: ScriptedProvider, provider: Provider) -> None:
    server.script(fails(429, kind="rate_limit_error", retry_after="7"))

    error = failure_of_chat(provider)

    assert (error.transient, error.code, error.retry_after_seconds) == (True, "rate_limited", 7.0)


def test_stream_that_stalls_ends_before_its_time_limit(server: ScriptedProvider, make: Make) -> None:
    server.script(begins(says(": thinking\n", pause_seconds=1.0, then=says(DONE)), events=0))

    error = failure_of_chat(make("openai", timeout_seconds=1.5))

    assert (error.transient, error.code) == (True, "timeout")
    assert "in the middle of its answer" in str(error)


def test_stream_that_drips_for_ever_ends_at_its_time_limit(server: ScriptedProvider, make: Make) -> None:
    server.script(begins(says(*[": ping\n"] * 50, pause_seconds=0.05)))

    error = failure_of_chat(make("anthropic", timeout_seconds=0.5))

    assert (error.transient, error.code) == (True, "timeout")


def test_whole_answer_is_kept_where_the_stream_stays_open(server: ScriptedProvider, make: Make) -> None:
    server.script(begins(says(DONE, then=silence()), events=0))

    assert make("openai").chat(chat_request(), on_text=ignore).text == "All."


def test_connection_is_used_again_after_a_stream(server: ScriptedProvider, provider: Provider) -> None:
    server.script(answer("One."), answer("Two."))

    for _ in range(2):
        provider.chat(chat_request(), on_text=ignore)

    assert server.connections == 1


def test_flood_is_not_read_to_its_end(server: ScriptedProvider, provider: Provider) -> None:
    flood = Flood(content_type="text/event-stream")
    server.script(flood)

    error = failure_of_chat(provider)

    assert (error.transient, error.code) == (False, "response_too_large")
    assert flood.ended.wait(5)


def test_what_takes_the_text_may_stop_the_call(server: ScriptedProvider, provider: Provider) -> None:
    server.script(answer("Hello, how are you?"))

    def stop(text: str) -> None:
        raise KeyError("cancelled")

    with pytest.raises(KeyError, match="cancelled"):
        provider.chat(chat_request(), on_text=stop)


# ── Server-sent events ────────────────────────────────────────────────────────────────────────────────────────────
@pytest.mark.parametrize(
    ("sent", "events"),
    [
        (b"data: a\n\ndata:b\n\n", ["a", "b"]),
        (b"data: a\r\n\r\n", ["a"]),
        (b"event: x\nid: 1\nretry: 5\ndata: a\ndata: b\n\n", ["a\nb"]),
        (b": comment\n\ndata\n\ndatum: a\n\n", [""]),
        (b"\xef\xbb\xbfdata: a\n\n", ["a"]),
        (b"data: a\xff\n\n", ["a\ufffd"]),
        ("data: é\u2028🎈\n\n".encode(), ["é\u2028🎈"]),
        (b"data: a\n\ndata: cut", ["a"]),
        (b"data: a\n\ndata: cut\n", ["a"]),
        (b"", []),
    ],
)
def test_events_are_read_however_the_bytes_come(sent: bytes, events: list[str]) -> None:
    assert list(read_events([sent])) == events
    assert list(read_events(sent[at : at + 1] for at in range(len(sent)))) == events


def test_line_without_end_is_refused() -> None:
    def pieces() -> Iterator[bytes]:
        while True:
            yield b"x" * 65536

    with pytest.raises(StreamTooLarge, match=str(MAX_LINE_BYTES)):
        list(read_events(pieces()))


def test_stream_without_end_is_refused() -> None:
    def pieces() -> Iterator[bytes]:
        while True:
            yield b":%s\n" % (b"-" * 60_000)

    with pytest.raises(StreamTooLarge, match=str(MAX_STREAM_BYTES)):
        list(read_events(pieces()))
