"""The servers of the benchmark and the loads put on them."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID

from bench.serving.corpus import Corpus
from bench.serving.floor import measure_floor
from bench.serving.peers import Peer
from bench.serving.processes import children, read_cpu_seconds, read_memory_mb
from erl_site.embedded import postgres
from erl_site.quickstart.stack import WEB_PROCESSES, WEB_THREADS
from tests.stack import ROOT, free_port

KNOWN_TASKS = 40
MOST_PER_SECOND = 500  # distinct bodies prepared for each second
OPEN_LOOP_CONNECTIONS = 64  # requests that are due wait at the server, not in the client


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """What is asked of which server; `known` asks a few tasks over and over, which the server has met before."""

    name: str
    server: str
    path: str
    known: bool = False
    runs: bool = False

    @property
    def tasks(self) -> str:
        return "known" if self.known else "new"


ANCHORS = (
    Call(name="A uncached", server="anchor", path="/uncached"),
    Call(name="A cached", server="anchor", path="/cached", known=True),
)
CALLS = (
    Call(name="POST /retrieve uncached", server="product", path="/api/v1/retrieve"),
    Call(name="POST /retrieve cached", server="product", path="/api/v1/retrieve", known=True),
    Call(name="POST /trajectories", server="product", path="/api/v1/trajectories", runs=True),
)
_MODULES = {"product": "erl_site.asgi", "anchor": "bench.serving.anchor:application"}


@dataclass(kw_only=True)
class Bench:
    """One filled project, the web servers on it, and the figures taken from them."""

    home: Path
    token: str
    project: UUID | None = None  # that F and A search; a product that is compared has none
    root: Path = ROOT  # the checkout that the product is started from
    seconds: float
    rounds: int
    peers: dict[str, Peer] = field(default_factory=dict)
    _servers: dict[str, tuple[subprocess.Popen[bytes], int]] = field(default_factory=dict)
    # Other tasks in every run: the vectors of those of an earlier one may still be at the broker's server.
    _seeds: Any = field(default_factory=lambda: count(time.time_ns()))

    def start(self) -> None:
        for name in _MODULES:
            self._start(name)

    def start_product(
        self, *, processes: int = WEB_PROCESSES, threads: int = WEB_THREADS, options: Sequence[str] = ()
    ) -> None:
        """Start the product alone."""
        self._start("product", processes=processes, threads=threads, options=options)

    def ask(self, call: Call, *, clients: int) -> dict[str, Any]:
        """Let clients ask as fast as they are answered, for the seconds of one round."""
        return self._measure(call, clients=clients, rate=0.0)

    def stop(self) -> None:
        for peer in self.peers.values():
            peer.stop()
        for process, _ in self._servers.values():
            process.terminate()
        for process, _ in self._servers.values():
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()

    def warm_up(self, seconds: float) -> None:
        """Let new tasks be asked before anything is measured, so that no call pays for pages that all of them use."""
        (new,) = (call for call in CALLS if call.name == "POST /retrieve uncached")
        self._measure(new, clients=2, rate=0.0, seconds=seconds)

    def measure(self, *, rates: Sequence[float], only: list[str] | None) -> dict[str, Any]:
        """Let all calls take turns, in every mode; CPU is that of the web processes and of PostgreSQL."""
        modes: list[tuple[str, int, float]] = [("1 client", 1, 0.0), ("8 clients", 8, 0.0)]
        modes += [(f"{rate:g}/s", OPEN_LOOP_CONNECTIONS, rate) for rate in rates if rate]
        calls = [call for call in (*ANCHORS, *CALLS) if not only or call.name in only]
        parts: dict[tuple[str, str], list[dict[str, Any]]] = {}
        floors = []
        for _ in range(self.rounds):
            floors.append(self.measure_floor())
            # In turns, so that a machine that slows down meanwhile slows all of them.
            for mode, clients, each_second in modes:
                for call in calls:
                    part = self._measure(call, clients=clients, rate=each_second)
                    parts.setdefault((call.name, mode), []).append(part)
                for name, peer in self.peers.items() if not each_second else ():
                    seconds = self.seconds / self.rounds
                    tasks = self._write(lambda corpus: corpus.write_task(), int(seconds * MOST_PER_SECOND))
                    part = peer.measure(tasks, clients=clients, seconds=seconds)
                    parts.setdefault((name, mode), []).append(part)
        memory = {name: read_memory_mb(self.workers(name)) for name in self._servers}
        return {
            "load_average": os.getloadavg(),
            "floor": merge(floors) | {"embedding_p50_ms": _quantile(_all(floors, "embedding_ms"), 0.5)},
            "rows": [{"call": call, "mode": mode, **merge(times)} for (call, mode), times in parts.items()],
            "worker_rss_mb": {name: round(sizes[0]) for name, sizes in memory.items()},
            "worker_pss_mb": {name: round(sizes[1]) for name, sizes in memory.items()},
        }

    def measure_floor(self) -> dict[str, Any]:
        """Take F for the seconds of one round."""
        assert self.project is not None
        seconds = self.seconds / self.rounds
        tasks = self._write(lambda corpus: corpus.write_task(), int(seconds * MOST_PER_SECOND))
        return measure_floor(self._database_url(), self.project, tasks, seconds=seconds)

    def _measure(self, call: Call, *, clients: int, rate: float, seconds: float = 0.0) -> dict[str, Any]:
        seconds = seconds or self.seconds / self.rounds
        process, port = self._servers[call.server]
        most = int(seconds * (rate or MOST_PER_SECOND)) + 1
        if call.runs:
            bodies = self._write(lambda corpus: json.dumps(corpus.write_run()), most)
        else:
            number = KNOWN_TASKS if call.known else most
            bodies = self._write(lambda corpus: json.dumps({"task": corpus.write_task()}), number)
        # Known tasks are all asked once before; of new ones only the connection is warmed.
        warm_up = bodies if call.known else bodies[:5]
        job = {
            "port": port,
            "path": call.path,
            "headers": {"Authorization": f"Bearer {self.token}"},
            "bodies": bodies if call.known else bodies[5:],
            "warm_up": warm_up[:KNOWN_TASKS],
            "clients": clients,
            "rate": rate,
            "seconds": seconds,
            "cycle": call.known,
            "key": f"bench-{next(self._seeds)}" if call.runs else "",
        }
        command = [sys.executable, "-m", "bench.serving.load"]
        with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as load:
            assert load.stdin is not None
            assert load.stdout is not None
            load.stdin.write(json.dumps(job) + "\n")
            load.stdin.flush()
            # CPU is read after the load has started up, so that its start is not counted.
            if load.stdout.readline() != "ready\n":
                raise SystemExit(f"The load for {call.name} did not get ready.")
            before = self._read_cpu(process.pid)
            load.stdin.write("go\n")
            load.stdin.flush()
            result: dict[str, Any] = json.loads(load.stdout.readline())
            after = self._read_cpu(process.pid)
        refuse_faults(call.name, result["statuses"], log=self.home / f"{call.server}.log")
        requests = len(result["latencies_ms"]) + len(result["refused_ms"])
        # Refused requests cost CPU, too, so they count among the requests.
        used = [(new - old) * 1000 / requests for new, old in zip(after, before, strict=True)]
        return result | {"web_ms": used[0], "postgres_ms": used[1], "cpu_ms": sum(used)}

    def _read_cpu(self, web: int) -> tuple[float, float]:
        # The first line of PostgreSQL's pid file is the process that all its others descend from.
        postmaster = int((self.home / "postgres" / "data" / "postmaster.pid").read_text().split()[0])
        return read_cpu_seconds(children(web)), read_cpu_seconds(children(postmaster))

    def _write(self, write: Callable[[Corpus], str], number: int) -> list[str]:
        corpus = Corpus(seed=next(self._seeds))
        return [write(corpus) for _ in range(number)]

    def _database_url(self) -> str:
        return postgres.ensure(self.home / "postgres")

    def workers(self, name: str) -> list[int]:
        """Return the processes of a server without its master."""
        return children(self._servers[name][0].pid)[1:]

    def _start(
        self, name: str, *, processes: int = WEB_PROCESSES, threads: int = WEB_THREADS, options: Sequence[str] = ()
    ) -> None:
        port = free_port()
        # Earlier checkouts do not have it.
        has_asgi = (self.root / "erl_site" / "asgi.py").exists()
        module = _MODULES[name] if has_asgi else "erl_site.wsgi"
        # Another checkout may have it elsewhere.
        (config, *_) = self.root.glob("erl_site/**/gunicorn_config.py")
        listening = [f"--config={config}", "--no-control-socket", "--bind", f"127.0.0.1:{port}"]
        size = ["--workers", str(processes), "--threads", str(threads)]
        # Requests are counted as usual, and the limit is never reached.
        never = "retrieve=100000000/60,trajectories:write=100000000/60"
        environment = {"ERL_HOME": str(self.home), "ERL_RATE_LIMITS": never}
        if name == "anchor":
            environment |= {"ERL_BENCH_DATABASE_URL": self._database_url(), "ERL_BENCH_PROJECT": str(self.project)}
        with (self.home / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "gunicorn", module, *listening, *size, *options],
                cwd=self.root,
                env=os.environ | environment,
                stdout=log,
                stderr=log,
            )
        self._servers[name] = process, port
        end = time.monotonic() + 60
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{name} does not answer:\n{(self.home / f'{name}.log').read_text()[-3000:]}")
            time.sleep(0.2)


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
    # Any answer will do: the server is up.
    except urllib.error.HTTPError as error:
        error.close()
    except OSError:
        return False
    return True


def refuse_faults(call: str, statuses: dict[str, int], *, log: Path) -> None:
    """End the run where answers failed: their times would be those of an error page.

    A 503 is the product's answer to too much load and stays in the table, without ratios.

    Raises:
        SystemExit: it says what was answered and where to read why.
    """
    faults = {status: n for status, n in statuses.items() if not status.startswith("2") and status != "503"}
    if not faults:
        return
    told = [line for line in log.read_text(errors="replace").splitlines() if '"level": "error"' in line]
    answered = ", ".join(f"{n} times {status}" for status, n in sorted(faults.items()))
    raise SystemExit(
        f"{call} was answered {answered}, so there are no ratios. The server's log is {log}; --home keeps it. "
        f"Its last error:\n{(told or ['none'])[-1][:1500]}"
    )


def merge(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Put the rounds together: latencies as one sample, CPU as the mean by request."""
    latencies = _all(parts, "latencies_ms")
    refused = sum(len(part.get("refused_ms", ())) for part in parts)
    merged: dict[str, Any] = {"requests": len(latencies), "refused": refused}
    for name, share in (("p50_ms", 0.5), ("p95_ms", 0.95), ("p99_ms", 0.99)):
        merged[name] = _quantile(latencies, share)
    for name in ("web_ms", "postgres_ms", "cpu_ms"):
        if name in parts[0]:
            counts = [len(part["latencies_ms"]) + len(part.get("refused_ms", ())) for part in parts]
            total = sum(part[name] * count for part, count in zip(parts, counts, strict=True))
            merged[name] = round(total / sum(counts), 3)
    if "seconds" in parts[0]:
        merged["per_second"] = round(len(latencies) / sum(part["seconds"] for part in parts), 1)
        merged["statuses"] = {}
        for part in parts:
            for status, number in part["statuses"].items():
                merged["statuses"][status] = merged["statuses"].get(status, 0) + number
    return merged


def _all(parts: list[dict[str, Any]], name: str) -> list[float]:
    return [value for part in parts for value in part[name]]


def _quantile(values: list[float], share: float) -> float:
    # Every request was turned away.
    if not values:
        return 0.0
    return round(sorted(values)[min(len(values) - 1, int(share * len(values)))], 2)
