"""Ask a web server and time its answers. A process of its own, on plain sockets, so that it costs little.

Reads one job as a line of JSON, connects and warms up, says `ready`, waits for a line, then writes the result.
"""

import json
import socket
import sys
import threading
import time
from itertools import count
from typing import Any

TIMEOUT_SECONDS = 30.0


class Connection:
    """One keep-alive connection; opened again where the server closed it."""

    def __init__(self, port: int, path: str, headers: dict[str, str]) -> None:
        self._port = port
        lines = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Content-Type: application/json"]
        self._head = "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), ""]).encode()
        self._socket: socket.socket | None = None

    def ask(self, body: bytes, key: str = "") -> int:
        """Send a body and return the status of the answer, which is read whole."""
        extra = f"Idempotency-Key: {key}\r\n" if key else ""
        request = self._head + f"{extra}Content-Length: {len(body)}\r\n\r\n".encode() + body
        try:
            return self._exchange(request)
        except (ConnectionError, EOFError):
            # The server has closed the connection since the last answer.
            self._socket = None
            return self._exchange(request)

    def _exchange(self, request: bytes) -> int:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), TIMEOUT_SECONDS)
            # Without it a small request may wait for 40 ms (Nagle's algorithm).
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(request)
        received = b""
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._receive()
        head = received[:end].lower()
        # Every answer here has a length, so chunks need not be read.
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        missing = length - (len(received) - end - 4)
        while missing > 0:
            missing -= len(self._receive())
        if b"connection: close" in head:
            self._socket.close()
            self._socket = None
        return int(head[9:12])

    def _receive(self) -> bytes:
        assert self._socket is not None
        chunk = self._socket.recv(65536)
        if not chunk:
            raise EOFError
        return chunk


def run(job: dict[str, Any]) -> dict[str, Any]:
    """Ask for so many seconds: each client as soon as it has its answer, or all together at a fixed rate."""
    bodies = [body.encode() for body in job["bodies"]]
    warm_up = [body.encode() for body in job["warm_up"]]
    connections = [Connection(job["port"], job["path"], job["headers"]) for _ in range(job["clients"])]
    lock, numbers = threading.Lock(), count()
    latencies: list[float] = []
    refused: list[float] = []
    statuses: dict[str, int] = {}
    begun = time.perf_counter()
    rate, seconds, cycle = job["rate"], job["seconds"], job["cycle"]

    def key(number: int) -> str:
        return f"{job['key']}-{number}" if job["key"] else ""

    def warm(connection: Connection, client: int) -> None:
        for index, body in enumerate(warm_up):
            # Negative numbers, so that no key of the warm-up comes again in the measurement.
            connection.ask(body, key(-1 - client * len(warm_up) - index))

    def work(connection: Connection) -> None:
        while True:
            with lock:
                number = next(numbers)
            # At a fixed rate, time counts from when a request was due: waiting in the client is not left out.
            due = begun + number / rate if rate else time.perf_counter()
            if due - begun >= seconds or (number >= len(bodies) and not cycle):
                return
            if (wait := due - time.perf_counter()) > 0:
                time.sleep(wait)
            status = connection.ask(bodies[number % len(bodies)], key(number))
            took = (time.perf_counter() - due) * 1000
            with lock:
                # Of requests that were turned away, only the number counts.
                if status < 300:
                    latencies.append(took)
                else:
                    refused.append(took)
                statuses[str(status)] = statuses.get(str(status), 0) + 1

    _in_threads([(warm, (connection, client)) for client, connection in enumerate(connections)])
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.perf_counter()
    _in_threads([(work, (connection,)) for connection in connections])
    return {
        "latencies_ms": latencies,
        "refused_ms": refused,
        "seconds": time.perf_counter() - begun,
        "statuses": statuses,
    }


def _in_threads(calls: list[tuple[Any, tuple[Any, ...]]]) -> None:
    threads = [threading.Thread(target=function, args=arguments) for function, arguments in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    print(json.dumps(run(json.loads(sys.stdin.readline()))), flush=True)
