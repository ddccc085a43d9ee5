"""Connections of clients, read and written by one event loop: no thread waits for a client.

A request gets a thread once all of it has arrived, and gives the thread back before its answer has left. Each step has
a deadline for the whole of it, so a client that sends a byte now and then gains nothing. Where there is no room for one
more connection, the one whose client we have waited for the longest gives way.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from erl_site.web.framing import HeadTooLarge, RawRequest, RequestBuffer
from erl_site.web.refusals import head_too_large, too_slow

HEAD_SECONDS = 10.0
BODY_SECONDS = 30.0
WRITE_SECONDS = 30.0
LINGER_SECONDS = 2.0  # after the last answer, until the client closes
MAX_HELD_BYTES = 64 * 1024 * 1024  # of requests and answers that clients are slow to send and read, or
MAX_HELD_BODIES = 4  # of the largest bodies if that is more
READ_BYTES = 65_536
ACCEPT_PAUSE_SECONDS = 0.1  # where no file can be opened and no connection gives way
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connections:
    """The connections of a process."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        most: int,
        max_body_bytes: int,
        keepalive_seconds: float,
        serve: Callable[["Connection", RawRequest], None],
    ) -> None:
        self.loop = loop
        self.max_body_bytes = max_body_bytes
        self.keepalive_seconds = keepalive_seconds
        self.serve = serve
        self.scratch = memoryview(bytearray(READ_BYTES))
        self.is_stopping = False
        self._most = most
        self._max_held_bytes = max(MAX_HELD_BYTES, MAX_HELD_BODIES * max_body_bytes)
        self._held_bytes = 0
        self._open: set[Connection] = set()
        self._waited_for: dict[Connection, None] = {}  # by how long; these may be dropped
        self._being_made: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._open) + len(self._being_made)

    def listen(self, listener: socket.socket) -> None:
        """Accept the connections of a socket, which other processes may share."""
        listener.setblocking(False)
        self.loop.add_reader(listener.fileno(), self._accept, listener)

    def stop(self) -> None:
        """Let connections end: what was sent is answered, others close after a moment."""
        self.is_stopping = True
        for connection in [*self._waited_for]:
            connection.hurry()

    def add(self, connection: "Connection") -> None:
        self._open.add(connection)

    def discard(self, connection: "Connection") -> None:
        self._open.discard(connection)
        self._waited_for.pop(connection, None)

    def wait_for(self, connection: "Connection", *, is_waited_for: bool) -> None:
        """Note whether the next step is the client's."""
        if is_waited_for:
            self._waited_for.setdefault(connection)
        else:
            self._waited_for.pop(connection, None)

    def hold(self, change: int) -> None:
        """Count bytes held in memory; above the limit, connections that are waited for give way."""
        self._held_bytes += change
        while self._held_bytes > self._max_held_bytes and self._waited_for:
            max(self._waited_for, key=lambda connection: connection.held_bytes).drop()

    def _accept(self, listener: socket.socket) -> None:
        try:
            client, address = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):  # another process was faster
            return
        except OSError:  # no more files can be opened
            if not self._drop_longest():
                self.loop.remove_reader(listener.fileno())
                self.loop.call_later(ACCEPT_PAUSE_SECONDS, self._listen_again, listener)
            return
        if len(self) >= self._most:
            self._drop_longest()
        client.setblocking(False)
        connection = Connection(self, address=address, server_address=listener.getsockname())
        task = self.loop.create_task(self.loop.connect_accepted_socket(lambda: connection, client))
        self._being_made.add(task)
        task.add_done_callback(self._being_made.discard)

    def _listen_again(self, listener: socket.socket) -> None:
        if not self.is_stopping:
            self.listen(listener)

    def _drop_longest(self) -> bool:
        for connection in self._waited_for:
            connection.drop()
            return True
        return False


class Connection(asyncio.BufferedProtocol):
    """One client. It sends requests one after the other; the next is read when the last answer has left."""

    def __init__(self, connections: Connections, *, address: Any, server_address: Any) -> None:
        self.address = address
        self.server_address = server_address
        self.held_bytes = 0
        self._connections = connections
        self._buffer = RequestBuffer(max_body_bytes=connections.max_body_bytes)
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._is_served = False
        self._is_blocked = False  # the client does not read what we write
        self._is_last = False  # nothing is read after this answer
        self._asked_for_body = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(0)
        self._connections.add(self)
        self._wait_for_client(HEAD_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        self._hold(0)
        self._connections.discard(self)
        self._transport = None

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._connections.scratch  # one for all: it is emptied before anything else is read

    def buffer_updated(self, nbytes: int) -> None:
        if self._is_last:
            return
        if not self._buffer:  # the deadline of a request begins with its first byte
            self._wait_for_client(HEAD_SECONDS)
        self._buffer.feed(self._connections.scratch[:nbytes])
        self._hold(len(self._buffer))
        self._read_request()

    def eof_received(self) -> bool:
        """Answer a request that was cut off, if the client still listens; otherwise close."""
        if self._is_last or not self._buffer.has_head:
            return False
        self._serve(self._buffer.cut())
        return True

    def pause_writing(self) -> None:
        self._is_blocked = True
        if self._transport is not None:
            self._hold(self._transport.get_write_buffer_size())
            self._wait_for_client(WRITE_SECONDS)

    def resume_writing(self) -> None:
        self._is_blocked = False
        self._hold(0)
        if self._is_served:  # a part of an answer that goes on was read
            self._cancel_deadline()
            self._connections.wait_for(self, is_waited_for=False)
        self._note_sent()

    def answer(self, data: bytes, *, close: bool) -> None:
        """Send an answer; read on when it has left, or close."""
        if self._transport is None or self._transport.is_closing():
            return
        self._is_served = False
        self._is_last = close or self._is_last
        self._hold(0)
        if data:
            self._transport.write(data)
        if not self._is_blocked:
            self._note_sent()

    @property
    def is_gone(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport is None or self._transport.is_closing()

    def send_part(self, data: bytes) -> None:
        """Send a part of an answer that goes on."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def drop(self) -> None:
        """Close at once."""
        self._connections.discard(self)
        self._hold(0)
        if self._transport is not None:
            self._transport.abort()

    def hurry(self) -> None:
        """Allow the client no more than a moment."""
        self._set_deadline(min(LINGER_SECONDS, self._connections.keepalive_seconds), self._give_up)

    def _read_request(self) -> None:
        try:
            request = self._buffer.take()
        except HeadTooLarge:
            self.answer(head_too_large(), close=True)
            return
        if request is not None:
            self._serve(request)
        elif self._buffer.has_head and not self._asked_for_body:
            self._asked_for_body = True
            self._set_deadline(BODY_SECONDS, self._give_up)
            if self._buffer.expects_continue and self._transport is not None:
                self._transport.write(_CONTINUE)

    def _serve(self, request: RawRequest) -> None:
        self._cancel_deadline()
        self._is_served, self._is_last, self._asked_for_body = True, request.is_cut, False
        self._hold(len(request.data) + len(self._buffer))
        self._connections.wait_for(self, is_waited_for=False)
        if self._transport is not None:
            self._transport.pause_reading()
        self._connections.serve(self, request)

    def _note_sent(self) -> None:
        if self._is_served or self._transport is None or self._transport.is_closing():
            return
        self._transport.resume_reading()
        if self._is_last:  # close our half, and wait for theirs: a reset could overtake the answer (RFC 9112 §9.6)
            with suppress(OSError):
                self._transport.write_eof()
            self._wait_for_client(LINGER_SECONDS)
        elif self._buffer:
            self._wait_for_client(HEAD_SECONDS)
            self._hold(len(self._buffer))
            self._read_request()
        else:
            self._wait_for_client(self._connections.keepalive_seconds)

    def _wait_for_client(self, seconds: float) -> None:
        self._connections.wait_for(self, is_waited_for=True)
        self._set_deadline(seconds, self._give_up)
        if self._connections.is_stopping:
            self.hurry()

    def _give_up(self) -> None:
        """End a wait: with an answer if the client began a request, silently otherwise."""
        if self._buffer and not self._is_last and not self._is_blocked:
            self.answer(too_slow(BODY_SECONDS if self._buffer.has_head else HEAD_SECONDS), close=True)
        else:
            self.drop()

    def _hold(self, held_bytes: int) -> None:
        change, self.held_bytes = held_bytes - self.held_bytes, held_bytes
        self._connections.hold(change)

    def _set_deadline(self, seconds: float, action: Callable[[], None]) -> None:
        self._cancel_deadline()
        self._deadline = self._connections.loop.call_later(seconds, action)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
