"""Gunicorn's worker of the product: an event loop reads and writes, threads run the application on whole requests."""

import asyncio
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

from gunicorn.http import wsgi
from gunicorn.http.errors import LimitRequestLine, NoMoreData
from gunicorn.http.parser import RequestParser
from gunicorn.workers.base import Worker

from erl_site.web.connections import Connection, Connections
from erl_site.web.framing import RawRequest
from erl_site.web.refusals import address_too_long, too_many_in_flight, too_many_streams
from erl_site.web.streams import Streams
from erl_site.web.turns import Turn, Turns
from memory.api.waiting import MAX_WAITING, step_aside

DEFAULT_BODY_BYTES = 1024 * 1024  # for applications other than ERL
PARSED_BYTES = 65_536  # gunicorn's parser copies what it has not read yet
# Threads of their own, so that they are answered whatever the others do
PROBES = {b"/health": 1, b"/ready": 2, b"/waiting": 1}

# How long the current request waited for a thread
waited_seconds: ContextVar[float] = ContextVar("waited_seconds", default=0.0)
# How many requests of this process wait for a thread
waiting_requests: ContextVar[int] = ContextVar("waiting_requests", default=0)


class WebWorker(Worker):  # type: ignore[misc]
    """Reads requests without a thread, lets keys take turns, and answers probes apart from all others.

    Gunicorn's own threaded worker reads from a thread, and its main loop waits up to two seconds for a client to close:
    ten sockets stop it (docs/adr/0011-no-thread-waits-for-a-client.md).
    """

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        if cfg.is_ssl:
            raise RuntimeError("This worker does not terminate TLS. Let a proxy do it (docs/deploying.md).")

    def init_process(self) -> None:
        self.most_in_flight = 0
        self.max_body_bytes = DEFAULT_BODY_BYTES
        self.cfg.set("sendfile", False)  # answers are collected, then sent by the event loop
        super().init_process()

    def run(self) -> None:
        """Serve until told to stop."""
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_stopping = asyncio.Event()
        self._loop.add_signal_handler(signal.SIGTERM, self._is_stopping.set)
        self._pool = ThreadPoolExecutor(self.cfg.threads + MAX_WAITING, thread_name_prefix="request")
        self._probes = {path: ThreadPoolExecutor(count, path[1:].decode()) for path, count in PROBES.items()}
        self._turns = Turns(
            threads=self.cfg.threads,
            most_in_flight=self.most_in_flight,
            start=lambda turn: self._run(self._pool, turn),
        )
        self._streams = Streams(self._loop)
        self._connections = Connections(
            loop=self._loop,
            most=self.cfg.worker_connections,
            max_body_bytes=self.max_body_bytes,
            keepalive_seconds=self.cfg.keepalive,
            serve=self._serve_request,
        )
        for listener in self.sockets:
            self._connections.listen(listener.sock)
        while not self._is_stopping.is_set() and self.ppid == os.getppid():
            self.notify()
            await self._sleep(1.0)
        await self._stop()

    async def _stop(self) -> None:
        """Accept nothing more, and answer what was sent."""
        self.alive = False
        for listener in self.sockets:
            self._loop.remove_reader(listener.sock.fileno())
        self._connections.stop()
        self._streams.stop()
        end = time.monotonic() + self.cfg.graceful_timeout
        while len(self._connections) and time.monotonic() < end:
            self.notify()
            await asyncio.sleep(0.05)
        for pool in (self._pool, *self._probes.values()):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _sleep(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._is_stopping.wait(), seconds)
        except TimeoutError:
            return

    def _serve_request(self, connection: Connection, request: RawRequest) -> None:
        """Give a whole request to a thread, at once or when it is its turn."""
        turn = Turn(
            request=request,
            connection=connection,
            arrived_at=time.monotonic(),
            credential=request.credential,
        )
        probe = self._probes.get(request.path)
        if probe is not None:
            self._run(probe, turn)
        elif not self._turns.add(turn):
            connection.answer(too_many_in_flight(self.most_in_flight), close=True)

    def _run(self, pool: ThreadPoolExecutor, turn: Turn) -> None:
        def note_done(future: Future[tuple[bytes, bool] | None]) -> None:
            if not future.cancelled():
                self._loop.call_soon_threadsafe(self._finish, pool, turn, future)

        pool.submit(self.answer, turn).add_done_callback(note_done)

    def _finish(self, pool: ThreadPoolExecutor, turn: Turn, future: Future[tuple[bytes, bool] | None]) -> None:
        if pool is self._pool:
            self._turns.finish(turn)
        if future.exception() is not None:
            self.log.error("Error handling request", exc_info=future.exception())
            turn.connection.answer(b"", close=True)
        elif (answer := future.result()) is not None:
            data, close = answer
            turn.connection.answer(data, close=close)
        if self.nr >= self.max_requests and not self._is_stopping.is_set():
            self.log.info("Autorestarting worker after current request.")
            self._is_stopping.set()

    def answer(self, turn: Turn) -> tuple[bytes, bool] | None:
        """Run the application on a request, in a thread; return the bytes of its answer, and whether it is the last.

        None says that the answer lasts, and is sent by a thread of its own.
        """
        waited_seconds.set(time.monotonic() - turn.arrived_at)
        waiting_requests.set(self._turns.count_waiting())
        step_aside.set(lambda: self._loop.call_soon_threadsafe(self._turns.step_aside, turn))
        self.nr += 1
        sink, source = Sink(), _read(turn.request.data)
        parser = RequestParser(self.cfg, source, turn.connection.address)
        parsed = None
        try:
            parsed = next(parser)
            parsed._expected_100_continue = False  # the body is here already
            should_close = self._call(parsed, turn, sink)
            if should_close is None:
                return None
            # A later request begins where the parser stopped, so it has to agree about where this one ends.
            is_whole = parser.finish_body() and not parser.unreader.take_buffered() and next(source, None) is None
            return sink.data, should_close or turn.request.is_cut or not is_whole
        except (NoMoreData, StopIteration):  # the client closed in the middle of the header fields
            return sink.data, True
        except (Exception, SystemExit) as error:
            sink.clear()
            self.handle_error(parsed, sink, turn.connection.address, error)
            return sink.data, True

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer a URL that is too long with a problem document, like all other errors."""
        if not isinstance(exc, LimitRequestLine):
            super().handle_error(req, client, addr, exc)
            return
        self.log.warning("Invalid request: the address is too long")
        client.sendall(address_too_long())

    def _call(self, parsed: Any, turn: Turn, sink: "Sink") -> bool | None:
        response, environ = wsgi.create(parsed, sink, turn.connection.address, turn.connection.server_address, self.cfg)
        environ["wsgi.multithread"] = True
        if not self.alive or not self.cfg.keepalive or turn.request.is_cut or self.nr >= self.max_requests:
            response.force_close()
        parts = self.wsgi(environ, response.start_response)
        if getattr(parts, "is_event_stream", False):
            if not self._streams.seats.take(parts.holders):
                parts.close()
                sink.sendall(too_many_streams())
                return True
            self._streams.send(response, parts, turn.connection)
            return None
        try:
            for part in parts:
                response.write(part)
            response.close()
        finally:
            if hasattr(parts, "close"):
                parts.close()
        return bool(response.should_close())


class Sink:
    """Collects an answer where gunicorn writes to a socket."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    @property
    def data(self) -> bytes:
        return b"".join(self._parts)

    def sendall(self, data: bytes) -> None:
        self._parts.append(bytes(data))

    def clear(self) -> None:
        self._parts.clear()

    def gettimeout(self) -> float:
        """Nothing waits here."""
        return 0.0


def _read(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), PARSED_BYTES):
        yield data[start : start + PARSED_BYTES]
