"""A network between two parts of ERL that a test can break: a TCP proxy on loopback (after Toxiproxy).

    with FaultProxy(upstream=("127.0.0.1", 5432)) as proxy:   # or the path of a Unix socket
        proxy.fault = Fault.HALF_OPEN

A fault counts for what passes from then on, on connections that are open already too.
"""

import math
import re
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Self

CHUNK = 65536
ANSWER_SECONDS = 5.0
_RESET = struct.pack("ii", 1, 0)


class Fault(StrEnum):
    """What the network does."""

    NONE = "none"
    SLOW = "slow"  # every piece waits before it is passed on
    HALF_OPEN = "half_open"  # connections are taken and stay open, and nothing passes
    REFUSED = "refused"  # nobody listens, and what was open is reset
    RESET = "reset"  # connections are taken and reset
    CUT = "cut"  # reset after so many bytes of answer
    LOSE_ANSWERS = "lose_answers"  # questions pass; the connection is reset when the answer comes


class FaultProxy:
    """Passes bytes both ways, as its `fault` lets it."""

    def __init__(self, *, upstream: tuple[str, int] | Path) -> None:
        self.fault = Fault.NONE
        self.delay_seconds = 2.0
        self.cut_after_bytes = 64
        self.on_lost_answer: Callable[[bytes], None] | None = None
        self.connections = 0
        self.lost_answers = 0
        self._upstream = upstream
        self._stop = threading.Event()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = self._listen(0)
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name="fault-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(timeout=5)
        self.reset_all()
        self._listener.close()

    def break_with(self, fault: Fault) -> None:
        """Let a fault begin; one that refuses or resets ends what is open at once."""
        self.fault = fault
        if fault in (Fault.REFUSED, Fault.RESET):
            self.reset_all()

    def heal(self) -> None:
        """Let bytes pass again. What stood still on open connections goes on."""
        self.fault = Fault.NONE

    def reset_all(self) -> None:
        """Reset every connection that is open."""
        with self._lock:
            ends, self._open = list(self._open), set()
        for end in ends:
            _reset(end)

    def _listen(self, port: int) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", port), backlog=128)
        listener.settimeout(0.02)
        return listener

    def _accept(self) -> None:
        while not self._stop.is_set():
            if self.fault is Fault.REFUSED:
                self._listener.close()
                while self.fault is Fault.REFUSED and not self._stop.is_set():
                    time.sleep(0.02)
                self._listener = self._listen(self.port)
            try:
                client, _ = self._listener.accept()
            except OSError:
                continue
            self.connections += 1
            if self.fault in (Fault.RESET, Fault.REFUSED):
                _reset(client)
                continue
            threading.Thread(target=self._pass, args=[client], daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self._upstream, Path):
            there = socket.socket(socket.AF_UNIX)
            try:
                there.connect(str(self._upstream))
            except OSError:
                there.close()
                raise
            return there
        return socket.create_connection(self._upstream, timeout=10)

    def _pass(self, client: socket.socket) -> None:
        while self.fault is Fault.HALF_OPEN and not self._stop.is_set():
            time.sleep(0.02)
        try:
            server = self._connect()
        except OSError:
            _reset(client)
            return
        with self._lock:
            self._open |= {client, server}
        try:
            with selectors.DefaultSelector() as ready:
                ready.register(client, selectors.EVENT_READ, server)
                ready.register(server, selectors.EVENT_READ, client)
                self._pump(ready, client=client)
        except (OSError, ValueError):
            pass  # one of the two went away, or a fault took both
        finally:
            with self._lock:
                self._open -= {client, server}
            for end in (client, server):
                with suppress(OSError):
                    end.close()

    def _pump(self, ready: selectors.BaseSelector, *, client: socket.socket) -> None:
        answered = 0
        while not self._stop.is_set():
            for key, _ in ready.select(timeout=0.05):
                source: socket.socket = key.fileobj  # type: ignore[assignment]
                is_answer = source is not client
                if self.fault is Fault.HALF_OPEN:
                    time.sleep(0.02)
                    continue
                data = source.recv(CHUNK)
                if not data:
                    return
                if self.fault is Fault.SLOW:
                    self._stop.wait(self.delay_seconds)
                if is_answer and self.fault is Fault.LOSE_ANSWERS:
                    self.lost_answers += 1
                    if self.on_lost_answer is not None:
                        self.on_lost_answer(_read_on(source, data))
                    _reset(client)
                    return
                if is_answer and self.fault is Fault.CUT:
                    key.data.sendall(data[: max(0, self.cut_after_bytes - answered)])
                    answered += len(data)
                    if answered >= self.cut_after_bytes:
                        _reset(client)
                        return
                else:
                    key.data.sendall(data)


def _read_on(source: socket.socket, data: bytes) -> bytes:
    """Return the whole of an HTTP answer that has begun; of anything else what came at once."""
    source.settimeout(ANSWER_SECONDS)
    with suppress(OSError):
        while len(data) < _length(data) and (more := source.recv(CHUNK)):
            data += more
    return data


def _length(data: bytes) -> float:
    """Return how long an answer will be: unknown until its head is there."""
    if not data.startswith(b"HTTP/"):
        return 0
    head, end, _ = data.partition(b"\r\n\r\n")
    found = re.search(rb"(?i)content-length: *([0-9]+)", head)
    return len(head) + len(end) + int(found[1]) if end and found else math.inf


def _reset(end: socket.socket) -> None:
    with suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    with suppress(OSError):
        end.close()
