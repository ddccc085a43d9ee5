"""An OpenAI-compatible embedding service on loopback that answers what a test tells it to."""

import json
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from memory.embeddings.http import HttpEmbedder


class EmbeddingService:
    """An embedding service on loopback that answers what the test tells it to."""

    def __init__(self) -> None:
        self.status = 200
        self.answer: Any = None
        self.delay_seconds = 0.0
        self.trickle_seconds = 0.0
        self.requests: list[dict[str, Any]] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.requests.append({"path": self.path, "key": self.headers.get("Authorization"), **body})
                if service.delay_seconds:
                    service.stopped.wait(service.delay_seconds)
                content = json.dumps(service.answer if service.answer is not None else vectors(body["input"])).encode()
                self.send_response(service.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if service.trickle_seconds:
                    for byte in content:
                        if service.stopped.wait(service.trickle_seconds):
                            return
                        with suppress(OSError):
                            self.wfile.write(bytes([byte]))
                    return
                self.wfile.write(content)

            def log_message(self, *args: Any) -> None:
                pass

        self.stopped = Event()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/v1/"

    def embedder(self, dimensions: int = 2) -> HttpEmbedder:
        return HttpEmbedder(base_url=self.base_url, api_key="secret", model="some-model", dimensions=dimensions)

    def stop(self) -> None:
        self.stopped.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def vectors(texts: list[str]) -> dict[str, Any]:
    """Answer the length of each text and 1, in reverse order."""
    rows = [{"index": index, "embedding": [len(text), 1]} for index, text in enumerate(texts)]
    return {"data": rows[::-1]}
