"""The serving benchmark prints no ratio of answers that failed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest

from bench.serving.bench import CALLS, Bench
from bench.serving.report import print_report
from tests.stack import ROOT

pytestmark = pytest.mark.nightly


NEW = CALLS[0]


class _Failing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def failing_port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Failing)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server.server_address[1]
    server.shutdown()
    thread.join()
    server.server_close()


def test_bench_ends_with_the_reason_where_answers_fail(tmp_path: Path, failing_port: int) -> None:
    (tmp_path / "postgres" / "data").mkdir(parents=True)
    (tmp_path / "postgres" / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n")
    (tmp_path / "product.log").write_text('{"level": "info"}\n{"level": "error", "event": "no such table"}\n')
    bench = Bench(home=tmp_path, token="", seconds=0.2, rounds=1)
    bench._servers["product"] = SimpleNamespace(pid=os.getpid()), failing_port  # type: ignore[assignment]

    with pytest.raises(SystemExit, match=r"times 500.*no ratios.*product\.log.*\n.*no such table"):
        bench.ask(NEW, clients=1)


def test_report_has_no_ratios_of_a_call_that_was_turned_away(capsys: pytest.CaptureFixture[str]) -> None:
    times = {"cpu_ms": 2.0, "p50_ms": 2.0, "p95_ms": 2.0, "p99_ms": 2.0}
    row = {"call": NEW.name, "mode": "8 clients", "web_ms": 1.0, "postgres_ms": 1.0, "per_second": 9.0}
    print_report(
        {
            "heuristics": 1000,
            "asked": 500,
            "load_average": [1.0],
            "searched": "without an index",
            "floor": times,
            "rows": [row | times | {"requests": 9, "refused": 1}],
            "worker_rss_mb": {"product": 1, "anchor": 1},
            "worker_pss_mb": {"product": 1, "anchor": 1},
        }
    )

    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith(NEW.name))
    assert line.rstrip().endswith("10%")


def test_bench_leaves_the_environment_of_its_servers_alone(tmp_path: Path) -> None:
    home = str(tmp_path)
    code = f"from os import environ; environ['ERL_HOME'] = {home!r}; import tests.stack"
    code += f"; assert environ['ERL_HOME'] == {home!r}"

    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
