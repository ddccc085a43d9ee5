"""Gunicorn's ASGI worker with an end to each wait for a client, and a bound on how many there are."""

import asyncio
import os
from contextlib import suppress
from typing import Any

from gunicorn.asgi.protocol import ASGIProtocol
from gunicorn.workers.gasgi import ASGIWorker

from erl_site.web.application import LINGER_SECONDS
from erl_site.web.refusals import address_too_long, head_too_large, malformed, too_slow

HEAD_SECONDS = 10.0
# Gunicorn bounds each field and their number, but not all of them together.
MAX_HEAD_BYTES = 65_536


class WebWorker(ASGIWorker):  # type: ignore[misc]
    """Serves with gunicorn's own protocol, which waits for header fields, and for what was written, without end."""

    @classmethod
    def check_config(cls, cfg: Any, log: Any) -> None:
        if cfg.is_ssl:
            raise RuntimeError("This worker does not terminate TLS. Let a proxy do it (docs/deploying.md).")

    def load_wsgi(self) -> None:
        super().load_wsgi()
        self.asgi.start(threads=self.cfg.threads)

    async def _serve(self) -> None:
        self.waited_for: dict[Connection, None] = {}  # by how long; these may be dropped
        self.told_to_stop = asyncio.Event()
        for listener in self.sockets:
            # One connection a turn, so that the other processes get theirs. The kernel keeps those that wait
            server = await self.loop.create_server(lambda: Connection(self), sock=listener.sock, backlog=1)
            listener.sock.listen(self.cfg.backlog)
            self.servers.append(server)
        while self.alive and self.ppid == os.getppid():
            self.notify()
            try:
                await asyncio.wait_for(self.told_to_stop.wait(), 1.0)
            except TimeoutError:
                continue
        self.asgi.stop()
        for connection in [*self.waited_for]:
            connection.give_up_after(LINGER_SECONDS)
        await self._shutdown()

    def handle_exit_signal(self) -> None:
        super().handle_exit_signal()
        self.told_to_stop.set()


class Connection(ASGIProtocol):  # type: ignore[misc]
    """One client. It sends requests one after the other."""

    def __init__(self, worker: WebWorker) -> None:
        super().__init__(worker)
        self._closed: bool
        self._deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0  # of a request whose header fields are not there yet

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        # With no buffer, gunicorn waits until all of an answer has left.
        transport.set_write_buffer_limits(high=0)
        if self.worker.nr_conns > self.worker.worker_connections and self.worker.waited_for:
            next(iter(self.worker.waited_for)).drop()
        self.worker.waited_for[self] = None
        self.give_up_after(HEAD_SECONDS)

    def data_received(self, data: bytes) -> None:
        if self._closed:
            return
        if self._current_request is None:
            # The deadline begins with the first byte of a request.
            if not self._head_bytes:
                self._cancel_keepalive_timer()
                self.give_up_after(HEAD_SECONDS)
            self._head_bytes += len(data)
        super().data_received(data)
        if self._head_bytes > MAX_HEAD_BYTES:  # and there is no end of them
            self._send_error_response(431, "")
            self._close_transport()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self.worker.waited_for.pop(self, None)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.worker.waited_for.setdefault(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.worker.waited_for.pop(self, None)

    def drop(self) -> None:
        """Close at once."""
        self.worker.waited_for.pop(self, None)
        self.transport.abort()

    def give_up_after(self, seconds: float) -> None:
        """Allow the client so long for its next step."""
        self._cancel_deadline()
        self._deadline = self.worker.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        if self._head_bytes and not self._closed:
            self._send_error_response(408, "")
            self._close_transport()
        else:
            self.drop()

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_headers_complete(self) -> Any:
        self._cancel_deadline()  # the application has one for the body
        self._head_bytes = 0
        return super()._on_headers_complete()

    def _on_message_complete(self) -> None:
        self.worker.waited_for.pop(self, None)
        super()._on_message_complete()

    def _arm_keepalive_timer(self) -> None:
        super()._arm_keepalive_timer()
        self.worker.waited_for.setdefault(self)

    def _send_error_response(self, status: int, message: str, extra_headers: Any = ()) -> None:
        """Send a problem document, like all other errors."""
        match status:
            case 408:
                response = too_slow(HEAD_SECONDS)
            case 414:
                response = address_too_long()
            case 431:
                response = head_too_large()
            case _:
                response = malformed(status)
        response["Connection"] = "close"
        self._safe_write(f"HTTP/1.1 {status} {response.reason_phrase}\r\n".encode() + response.serialize())

    def _close_transport(self) -> None:
        """Close our half, and wait for theirs: a reset could overtake the answer (RFC 9112 §9.6)."""
        if self.transport is None or self._closed:
            return
        self._closed = True
        self._head_bytes = 0
        if not self.worker.alive:  # it has served as many requests as it may
            self.worker.told_to_stop.set()
        if self.transport.get_write_buffer_size():  # the client did not read in time
            self.drop()
            return
        with suppress(OSError):
            self.transport.write_eof()
        self.worker.waited_for.setdefault(self)
        self.give_up_after(LINGER_SECONDS)
