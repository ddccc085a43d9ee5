"""Which servers slow clients can stop: gunicorn's ASGI worker as it is and with our deadlines, uvicorn and granian.

    uv run --with httptools --with granian python -m bench.slow_clients [--clients 12]

Starts each server with one process and a tiny application, lets clients attack it in six ways, and asks
/health meanwhile. Prints for each attack the seconds until it was answered, "no" if it was not within five; of clients
that send a byte a second also how many are still connected after 20 seconds. Servers that are not installed are left
out.
"""

import argparse
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

from django.conf import settings

from tests.stack import ROOT, free_port
from tests.waiting import wait_until

if not settings.configured:
    settings.configure()  # for the words of our refusals

PATIENCE_SECONDS = 5.0
DRIP_SECONDS = 20
LARGE = b"x" * 8_000_000
HEAD = b"GET /small HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /small HTTP/1.1\r\nHost: localhost\r\n"
ATTACKS = {
    "half a header block": HEAD + b"X-Slow: ",
    "half a body": POST + b"Content-Length: 100\r\n\r\nabc",
    "half a chunk": POST + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab",
    "does not close": HEAD + b"Connection: close\r\n\r\n",
    "does not read": HEAD.replace(b"small", b"large") + b"\r\n",
}
APPLICATION = "bench.slow_clients:application"
SERVERS: dict[str, tuple[str, Callable[[int], list[str]]]] = {
    "gunicorn, its ASGI worker": ("gunicorn", lambda port: _gunicorn(port, "asgi")),
    "uvicorn": ("uvicorn", lambda port: ["uvicorn", APPLICATION, f"--port={port}", "--http=httptools"]),
    "granian": ("granian", lambda port: ["granian", "--interface=asgi", f"--port={port}", APPLICATION]),
    "ours": ("gunicorn", lambda port: _gunicorn(port, "erl_site.web.worker.WebWorker")),
}


class Tiny:
    """Reads the body, and answers a little or much."""

    def start(self, *, threads: int) -> None:
        """It needs none."""

    def stop(self) -> None:
        """It has no streams."""

    async def __call__(self, scope: dict[str, Any], receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        if scope["type"] != "http":
            raise ValueError("Only HTTP is served.")
        while (await receive()).get("more_body"):
            pass
        body = LARGE if scope["path"] == "/large" else b"ok"
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


application = Tiny()


def _gunicorn(port: int, worker: str) -> list[str]:
    options = [f"--bind=127.0.0.1:{port}", "--workers=1", f"--worker-class={worker}"]
    return ["gunicorn", APPLICATION, *options, "--no-control-socket"]


def ask_health(port: int) -> float | None:
    """Return the seconds until /health was answered; None if it was not."""
    started = time.monotonic()
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return time.monotonic() - started if client.recv(100).startswith(b"HTTP/1.1 200") else None
    except OSError:
        return None


def attack(port: int, sent: bytes, *, clients: int, drips: bool = False) -> str:
    """Attack with so many clients and say how /health was answered meanwhile."""
    with ExitStack() as opened:
        attackers = []
        for _ in range(clients):
            client = opened.enter_context(socket.socket())
            # A small buffer, so that a client that does not read blocks the server soon.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", port))
            client.sendall(sent)
            attackers.append(client)
        time.sleep(1)
        seconds = ask_health(port)
        shown = "no" if seconds is None else f"{seconds:.2f}"
        if not drips:
            return shown
        for _ in range(DRIP_SECONDS):
            attackers = [client for client in attackers if _drip(client)]
            time.sleep(1)
        return f"{shown}, {len(attackers)} left"


def _drip(client: socket.socket) -> bool:
    """Send a byte; return whether the server still listens."""
    client.setblocking(False)
    try:
        client.send(b"a")
        # Nothing to read means that the connection is still open.
        client.recv(1)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def measure(name: str, *, clients: int) -> list[str]:
    """Start a new server for each attack, and return what was seen."""
    _, command = SERVERS[name]
    cells = []
    # A new server for each attack, so that one attack does not weaken the next.
    for sent, drips in [*((sent, False) for sent in ATTACKS.values()), (HEAD + b"X-Slow: ", True)]:
        port = free_port()
        server = subprocess.Popen(
            [sys.executable, "-m", *command(port)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_until(lambda port=port: ask_health(port) is not None)  # type: ignore[misc]
            cells.append(attack(port, sent, clients=clients, drips=drips))
        finally:
            server.kill()
            server.wait()
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--clients", type=int, default=12)
    options = parser.parse_args()
    print(f"| server | {' | '.join([*ATTACKS, 'a byte a second'])} |")
    print(f"| --- |{' --- |' * (len(ATTACKS) + 1)}")
    for name, (module, _) in SERVERS.items():
        if find_spec(module):
            print(f"| {name} | {' | '.join(measure(name, clients=options.clients))} |", flush=True)


if __name__ == "__main__":
    main()
