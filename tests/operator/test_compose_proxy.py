"""The proxy of compose.yaml as Caddy reads it: TLS under the one name that is set, and nothing else to configure."""

import re
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.erl_site.test_compose import PROXY
from tests.programs import require_program
from tests.stack import free_port
from tests.waiting import wait_until

pytestmark = pytest.mark.nightly


class Web(BaseHTTPRequestHandler):
    """Answers with what the proxy tells it of the request."""

    def do_GET(self) -> None:
        body = f"{self.headers['Host']} {self.headers['X-Forwarded-Proto']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture
def web() -> Iterator[int]:
    """The port of a web server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Web) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture
def proxy(web: int, tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """The port of a Caddy with the configuration of compose.yaml, and the file of its own authority."""
    port = free_port()
    # Where compose.yaml has the variable of the name, and the ports and the host of the containers' network.
    configuration = re.sub(r"\$\{ERL_ALLOWED_HOSTS:\?[^}]*\}", "localhost", PROXY)
    configuration = configuration.replace("web:8000", f"127.0.0.1:{web}")
    ports = f"{{\n\thttps_port {port}\n\thttp_port {free_port()}\n\tadmin off\n\tskip_install_trust\n"
    file = tmp_path / "Caddyfile"
    file.write_text(configuration.replace("{\n", ports, 1))
    command = [require_program("caddy"), "run", "--config", str(file), "--adapter", "caddyfile"]
    environment = {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    root = tmp_path / "caddy" / "pki" / "authorities" / "local" / "root.crt"
    try:
        wait_until(lambda: process.poll() is not None or (root.exists() and answers(port, root)), seconds=90)
        assert process.poll() is None, "Caddy ended"
        yield port, root
    finally:
        process.terminate()
        process.wait(20)


def fetch(port: int, root: Path) -> str:
    trust = ssl.create_default_context(cafile=str(root))
    with urllib.request.urlopen(f"https://localhost:{port}/", context=trust, timeout=10) as answer:
        return str(answer.read().decode())


def answers(port: int, root: Path) -> bool:
    with suppress(OSError):
        return bool(fetch(port, root))
    return False


def test_proxy_ends_tls_under_the_name_that_is_set(proxy: tuple[int, Path]) -> None:
    assert fetch(*proxy) == f"localhost:{proxy[0]} https"
