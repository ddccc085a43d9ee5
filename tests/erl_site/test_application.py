"""What the web server does with a request before and after a thread answers it."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from django.http import HttpRequest, StreamingHttpResponse
from django.test import override_settings
from django.urls import path

from erl_site import urls
from erl_site.web import application as web
from erl_site.web.application import Application, Held

Message = Mapping[str, Any]


class Stream(StreamingHttpResponse):
    holders = ("key:a",)


async def tick() -> AsyncIterator[bytes]:
    while True:
        yield b"tick"
        await asyncio.sleep(0.01)


def follow(request: HttpRequest) -> Stream:
    return Stream(tick())


urlpatterns = [path("follow", follow), *urls.urlpatterns]


class Client:
    """A client that sends its messages, then nothing, and reads so many before it stops reading."""

    def __init__(self, *messages: Message, reads: int = 100) -> None:
        self.messages = list(messages)
        self.reads = reads
        self.received: list[Message] = []

    async def receive(self) -> Message:
        if not self.messages:
            await asyncio.Event().wait()
        return self.messages.pop(0)

    async def send(self, message: Message) -> None:
        self.received.append(message)
        if len(self.received) > self.reads:
            await asyncio.Event().wait()

    @property
    def status(self) -> int:
        return int(self.received[0]["status"])

    @property
    def code(self) -> str:
        body = b"".join(message.get("body", b"") for message in self.received[1:])
        return str(json.loads(body)["error"]["code"])


def part(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def make_scope(method: str = "POST", path: str = "/nothing", **fields: str) -> dict[str, Any]:
    headers = [(b"host", b"localhost"), *((name.encode(), value.encode()) for name, value in fields.items())]
    return {"type": "http", "method": method, "path": path, "query_string": b"", "headers": headers}


def ask(client: Client, scope: dict[str, Any], *, max_body_bytes: int = 1000) -> Client:
    asyncio.run(Application(max_body_bytes=max_body_bytes)(scope, client.receive, client.send))
    return client


CHUNKED = {"transfer-encoding": "chunked"}


def test_body_that_does_not_come_is_refused_after_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "BODY_SECONDS", 0.05)

    client = ask(Client(part(b"{", more=True)), make_scope(**CHUNKED))

    assert (client.status, client.code) == (408, "request_too_slow")


def test_each_part_of_a_body_gives_no_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "BODY_SECONDS", 0.1)
    client = Client()

    async def drip() -> Message:
        await asyncio.sleep(0.01)
        return part(b"x", more=True)

    asyncio.run(Application(max_body_bytes=10_000)(make_scope(**CHUNKED), drip, client.send))

    assert client.status == 408


def test_body_larger_than_any_view_takes_is_not_kept() -> None:
    parts = [part(b"x" * 600, more=True) for _ in range(2)]
    client = ask(Client(*parts, part(b"x", more=True), part(b"x")), make_scope(**CHUNKED))

    assert client.status == 404, "a view says how large a body may be"
    assert client.messages == [], "the rest is read, so that no reset overtakes the answer"


def test_body_announced_as_too_large_is_not_asked_for() -> None:
    client = Client(part(b"x"))

    ask(client, make_scope(**{"content-length": "1001"}))

    assert client.status == 404


def test_client_that_went_away_gets_no_answer() -> None:
    assert ask(Client({"type": "http.disconnect"}), make_scope(**CHUNKED)).received == []


def test_client_that_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "WRITE_SECONDS", 0.05)

    with pytest.raises(asyncio.CancelledError):
        ask(Client(reads=0), make_scope("GET"))


def test_query_that_is_not_utf8_is_a_problem() -> None:
    client = ask(Client(), make_scope("GET") | {"query_string": b"task=\xff"})

    assert (client.status, client.code) == (400, "invalid_query")


@override_settings(ROOT_URLCONF=__name__)
def test_stream_ends_when_the_server_stops() -> None:
    client = Client()

    async def follow_and_stop() -> None:
        application = Application(max_body_bytes=1000)
        following = asyncio.ensure_future(application(make_scope("GET", "/follow"), client.receive, client.send))
        while len(client.received) < 5:
            await asyncio.sleep(0.01)
        application.stop()
        await following

    asyncio.run(follow_and_stop())

    assert client.status == 200
    assert {message["body"] for message in client.received[1:5]} == {b"tick"}
    assert client.received[-1] == {"type": "http.response.body"}


def test_one_with_most_bytes_gives_way() -> None:
    held = Held(100)

    async def hold(size: int) -> str:
        try:
            async with asyncio.timeout(0.2) as deadline:
                held.note(deadline, size)
                await asyncio.sleep(0.1)
        except TimeoutError:
            return "gave way"
        finally:
            held.note(deadline, 0)
        return "stayed"

    async def hold_all() -> list[str]:
        return [*await asyncio.gather(hold(30), hold(60), hold(20))]

    assert asyncio.run(hold_all()) == ["stayed", "gave way", "stayed"]
