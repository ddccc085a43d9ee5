"""Django as an ASGI application: the event loop reads and writes, threads answer whole requests.

No thread waits for a client: a request gets one when all of it has arrived, and its answer is sent without one. Each
step has one deadline for the whole of it, so a client that sends a byte now and then gains nothing.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, suppress
from contextvars import ContextVar
from io import BytesIO
from typing import Any, TypeAlias

from django.conf import settings
from django.core import signals
from django.core.handlers.asgi import ASGIHandler, ASGIRequest, get_script_prefix
from django.core.handlers.base import BaseHandler
from django.http import FileResponse, HttpResponse, HttpResponseBase
from django.urls import set_script_prefix
from django.utils.http import parse_header_parameters

from erl_site.web.refusals import not_utf8, too_many_in_flight, too_many_streams, too_slow
from erl_site.web.streams import Seats
from erl_site.web.turns import Turn, Turns, read_credential
from memory.api.waiting import MAX_WAITING, step_aside

Scope: TypeAlias = dict[str, Any]
Message: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]

BODY_SECONDS = 30.0
WRITE_SECONDS = 30.0
LINGER_SECONDS = 2.0  # for the rest of a body that is not read to its end
MAX_HELD_BYTES = 64 * 1024 * 1024  # of bodies and answers that clients are slow to send and read, or
MAX_HELD_BODIES = 4  # of the largest bodies if that is more
# Threads of their own, so that they are answered whatever the others do
PROBES = {"/health": 1, "/ready": 2, "/waiting": 1}

# How long the current request waited for a thread
waited_seconds: ContextVar[float] = ContextVar("waited_seconds", default=0.0)
# How many requests of this process wait for a thread
waiting_requests: ContextVar[int] = ContextVar("waiting_requests", default=0)


class WholeRequest(ASGIRequest):
    """A request whose body is there. It is decoded as UTF-8, whatever charset its content type names.

    Django would decode the query with that charset outside its error handling, so that a malformed content type or a
    query with more than 1,000 parameters would raise an exception that no view can answer.
    """

    def __init__(self, scope: Scope, body: BytesIO) -> None:
        super().__init__(scope, body)
        # As views read them behind any server
        self.META |= {"wsgi.input": body, "wsgi.url_scheme": scope.get("scheme", "http")}
        self.META.setdefault("REMOTE_ADDR", "")  # of a client on a Unix socket

    def _set_content_type_params(self, meta: dict[str, Any]) -> None:
        try:
            self.content_type, self.content_params = parse_header_parameters(meta.get("CONTENT_TYPE", ""))
        # A parameter may name a charset that does not exist (RFC 2231).
        except (ValueError, LookupError):
            self.content_type, self.content_params = "", {}


class Application(ASGIHandler):
    """Django's handler, whose views and middleware run in threads that keep their connections to the database.

    Stock ASGIHandler makes a thread for each request, which is as much work as half of a short request.
    """

    request_class = WholeRequest

    def __init__(self, *, max_body_bytes: int, most_in_flight: int = 0) -> None:
        BaseHandler.__init__(self)
        self.load_middleware()
        self.is_stopping = False
        self._max_body_bytes = max_body_bytes
        self._most_in_flight = most_in_flight
        self._held = Held(max(MAX_HELD_BYTES, MAX_HELD_BODIES * max_body_bytes))
        self._seats = Seats()
        self.start(threads=4)

    def start(self, *, threads: int) -> None:
        """Say how many threads there are. Each starts with its first request, so a process may fork meanwhile."""
        # Requests that only wait have given up their turn but keep their thread.
        self._pool = ThreadPoolExecutor(threads + MAX_WAITING, thread_name_prefix="request")
        self._probes = {path: ThreadPoolExecutor(count, path[1:]) for path, count in PROBES.items()}
        self._turns = Turns(
            threads=threads, most_in_flight=self._most_in_flight, start=lambda turn: self._run(self._pool, turn)
        )

    def stop(self) -> None:
        """End the streams within a second; their readers go on elsewhere."""
        self.is_stopping = True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            raise ValueError("Only HTTP is served.")
        scope = _with_prefix(scope)
        try:
            body, is_whole = await self._read_body(scope, receive)
        except TimeoutError:
            await self.send_response(too_slow(BODY_SECONDS), send)
            return
        except ConnectionError:
            return
        response = await self._answer(scope, body)
        try:
            if response.streaming:
                await self._send_stream(response, send)
            else:
                await self._send_whole(response, send)
        except TimeoutError:
            # This tells the server to close the connection, without an entry in the log.
            raise asyncio.CancelledError from None
        # Closing now would reset the connection, which could overtake the answer (RFC 9112 §9.6).
        if not is_whole:
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_SECONDS):
                    while (await receive()).get("more_body"):
                        pass

    async def _read_body(self, scope: Scope, receive: Receive) -> tuple[bytes, bool]:
        """Return the body as far as the server takes one, and whether it is whole.

        Raises:
            ConnectionError: the client is gone.
            TimeoutError: it did not send all of it in time.
        """
        fields = dict(scope["headers"])
        length = int(fields.get(b"content-length", b"0"))  # digits, as the server has checked
        if length > self._max_body_bytes:
            return b"", False  # the view refuses what was announced
        if not length and b"transfer-encoding" not in fields:
            return b"", True
        parts: list[bytes] = []
        size, more = 0, True
        async with asyncio.timeout(BODY_SECONDS) as deadline:
            try:
                while more and size <= self._max_body_bytes:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ConnectionError
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    more = message.get("more_body", False)
                    if more:
                        self._held.note(deadline, size)
            finally:
                self._held.note(deadline, 0)
        return b"".join(parts), not more

    async def _answer(self, scope: Scope, body: bytes) -> HttpResponseBase:
        """Let a thread answer a whole request, at once or when it is its turn."""
        turn = Turn(
            scope=scope,
            body=body,
            credential=read_credential(scope["headers"]),
            answer=asyncio.get_running_loop().create_future(),
        )
        probe = self._probes.get(scope["path"].removeprefix(settings.ERL_PATH_PREFIX))
        if probe is not None:
            self._run(probe, turn)
        elif not self._turns.add(turn):
            return too_many_in_flight(self._most_in_flight)
        response: HttpResponseBase = await turn.answer
        return response

    def _run(self, pool: ThreadPoolExecutor, turn: Turn) -> None:
        loop = turn.answer.get_loop()

        def note_done(future: "Future[HttpResponseBase]") -> None:
            if not future.cancelled():
                loop.call_soon_threadsafe(self._finish, pool, turn, future)

        pool.submit(self._respond_in_turn, turn, loop).add_done_callback(note_done)

    def _finish(self, pool: ThreadPoolExecutor, turn: Turn, future: "Future[HttpResponseBase]") -> None:
        if pool is self._pool:
            self._turns.finish(turn)
        if turn.answer.done():  # the client is gone
            return
        if (error := future.exception()) is not None:
            turn.answer.set_exception(error)
        else:
            turn.answer.set_result(future.result())

    def _respond_in_turn(self, turn: Turn, loop: asyncio.AbstractEventLoop) -> HttpResponseBase:
        waited_seconds.set(time.monotonic() - turn.arrived_at)
        waiting_requests.set(self._turns.count_waiting())
        step_aside.set(lambda: loop.call_soon_threadsafe(self._turns.step_aside, turn))
        return self.respond(turn.scope, turn.body)

    def respond(self, scope: Scope, body: bytes) -> HttpResponseBase:
        """Run views and middleware on a request, in this thread; return the answer whole, or a stream."""
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        try:
            request = self.request_class(scope, BytesIO(body))
        except UnicodeDecodeError:  # of the query
            return not_utf8()
        response = self.get_response(request)
        try:
            return response if getattr(response, "is_async", False) else _read_whole(response)
        finally:
            # In this thread, which has the connection to the database.
            response.close()

    async def _send_whole(self, response: Any, send: Send) -> None:
        async with asyncio.timeout(WRITE_SECONDS) as deadline:
            try:
                self._held.note(deadline, len(response.content))
                await self.send_response(response, send)
            finally:
                self._held.note(deadline, 0)

    async def _send_stream(self, response: Any, send: Send) -> None:
        """Send the parts of an answer that goes on as they come. It needs no thread."""
        if not self._seats.take(response.holders):
            await self.send_response(too_many_streams(), send)
            return

        async def send_in_time(message: Message) -> None:
            if message.get("body", b"") or not message.get("more_body"):
                async with asyncio.timeout(WRITE_SECONDS):
                    await send(message)

        async def go_on() -> Any:
            async with aclosing(parts) as left:
                async for part in left:
                    if self.is_stopping:
                        break
                    yield part

        parts = response.streaming_content
        response.streaming_content = go_on()
        try:
            await self.send_response(response, send_in_time)
        finally:
            self._seats.give_back(response.holders)


class Held:
    """Bytes in memory that clients are slow to send or read. Above the limit, the largest holder gives way."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sum = 0
        self._sizes: dict[asyncio.Timeout, int] = {}

    def note(self, deadline: asyncio.Timeout, size: int) -> None:
        """Say how many bytes there are until a deadline."""
        self._sum += size - self._sizes.pop(deadline, 0)
        if size:
            self._sizes[deadline] = size
        while self._sum > self._most and self._sizes:
            largest = max(self._sizes, key=self._sizes.__getitem__)
            self._sum -= self._sizes.pop(largest)
            if not largest.expired():
                largest.reschedule(0.0)


def _with_prefix(scope: Scope) -> Scope:
    """Return a request with the whole path that its client asked for: some proxies remove the prefix, others do not.

    Probes that ask the web server itself need not know the prefix either.
    """
    prefix, path = settings.ERL_PATH_PREFIX, scope["path"]
    if not prefix or path == prefix or path.startswith(f"{prefix}/"):
        return scope
    return scope | {"path": prefix + path}


def _read_whole(response: Any) -> HttpResponse:
    """Read an answer that is a file, so that no thread waits for those who read it slowly."""
    if not response.streaming:
        return response  # type: ignore[no-any-return]
    if isinstance(response, FileResponse):
        response.block_size = ASGIHandler.chunk_size
    whole = HttpResponse(b"".join(response), status=response.status_code, headers=response.headers)
    whole.cookies = response.cookies
    return whole
