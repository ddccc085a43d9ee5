"""A service on loopback that tools call, and that counts what was done to it: the witness of doubled effects."""

import json
import random
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from typing import Any, Self

BEFORE_SECONDS = AFTER_SECONDS = 0.02  # at most, at random: so kills land before, in and after what it does


class CountingService:
    """Does what it is asked: `/pure`, `/keyed` once for each Idempotency-Key, and `/unsafe` every time."""

    def __init__(self, *, seed: int = 0) -> None:
        self.done: Counter[str] = Counter()
        self.keys: dict[str, set[str]] = {}
        self.requests = 0
        self._random = random.Random(seed)
        self._lock = Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def act(self, path: str, key: str) -> None:
        _, kind, token = path.split("/", 2)
        with self._lock:
            before, after = self._random.uniform(0, BEFORE_SECONDS), self._random.uniform(0, AFTER_SECONDS)
        time.sleep(before)
        with self._lock:
            self.requests += 1
            if kind == "keyed":
                known = self.keys.setdefault(token, set())
                self.done[token] += key not in known
                known.add(key)
            else:
                self.done[token] += 1
        time.sleep(after)


class _Server(ThreadingHTTPServer):
    owner: CountingService
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients are killed here."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.owner.act(self.path, self.headers.get("Idempotency-Key", ""))
        body = json.dumps({"done": self.path.rsplit("/", 1)[1]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the output clean."""
