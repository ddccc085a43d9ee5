"""What an agent sees while something behind retrieval fails, and while the embedding model is changed.

    uv run python -m bench.retrieval_faults [--lessons 200] [--rate 20] [--seconds 20] [--json FILE]

Asks `POST /api/v1/retrieve` in an open loop, the whole of Django and the API included, in a scratch database:
with nothing wrong, with the embedder killed, the language model hanging, the search's indexes being rebuilt, the
database at its connection limit (with the connections a web process holds, and with none), and while `manage.py
reembed` changes the model there and back. Prints errors, answers without a block, what the answers say was missing,
p50 and p99. Latency counts from the moment a request was due.
"""

import argparse
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg
from django.core.management import call_command
from django.db import connection, connections
from django.test.utils import override_settings

from bench.api_memory import ApiMemory, Lesson, connect
from bench.retrieval_quality import scratch_database  # sets Django up
from memory.api import authentication
from memory.embeddings.registry import forget_embedders
from memory.retrieval import llm_ranking
from memory.retrieval.task_vector import breaker
from tests.memory.embedding_service import EmbeddingService
from tests.scripted_answers import silence
from tests.scripted_provider import ScriptedProvider

THREADS = 8
SUBJECTS = ["flight", "hotel", "train", "invoice", "refund", "exchange", "delivery", "password", "address", "contract"]
VERBS = ["cancel", "change", "book", "confirm", "check", "repeat", "explain", "escalate", "search", "compare"]


class Load:
    """An open loop of requests, each for a task of its own, by a fixed number of threads with one connection each.

    The threads and their connections stay from one situation to the next, as they do in a web process.
    """

    def __init__(self, key: str, *, rate: float) -> None:
        self._key = key
        self._rate = rate
        self._number = 0
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(THREADS, initializer=self._begin)

    def connect(self) -> None:
        """See to it that every thread has a connection."""
        self._in_every_thread(connection.ensure_connection)

    def disconnect(self) -> None:
        """Take the connections of all threads away, as if every web process had just been started."""
        self._in_every_thread(connections.close_all)

    def run(self, *, seconds: float) -> list[tuple[int, float, dict[str, Any]]]:
        """Return status, milliseconds since the request was due, and body of every request."""
        begun = time.perf_counter()
        futures = []
        for count in range(round(seconds * self._rate)):
            # An open loop: requests come when they are due, however slow the answers are.
            due = begun + count / self._rate
            time.sleep(max(0.0, due - time.perf_counter()))
            self._number += 1
            futures.append(self._pool.submit(self._ask, self._number, due))
        return [future.result() for future in futures]

    def _begin(self) -> None:
        self._local.client = connect(self._key)

    def _in_every_thread(self, action: Callable[[], Any]) -> None:
        together = threading.Barrier(THREADS)

        def act() -> None:
            together.wait()  # so that no thread takes two of them
            action()

        for future in [self._pool.submit(act) for _ in range(THREADS)]:
            future.result()

    def _ask(self, number: int, due: float) -> tuple[int, float, dict[str, Any]]:
        verb, subject = VERBS[number % len(VERBS)], SUBJECTS[number // len(VERBS) % len(SUBJECTS)]
        body = {"task": f"{verb} the {subject} of customer number {number}", "record": False}
        response = self._local.client.post("/api/v1/retrieve", json.dumps(body), content_type="application/json")
        # From when it was due: waiting for a free thread is part of what an agent sees.
        elapsed_ms = (time.perf_counter() - due) * 1000
        return response.status_code, elapsed_ms, response.json()


def report(name: str, answers: list[tuple[int, float, dict[str, Any]]]) -> dict[str, Any]:
    """Print and return the figures of one situation."""
    times = sorted(elapsed for _, elapsed, _ in answers)
    reasons = Counter(body.get("degraded_reason") or "-" for status, _, body in answers if status == 200)
    figures = {
        "situation": name,
        "requests": len(answers),
        "errors": sum(status != 200 for status, _, _ in answers),
        "statuses": dict(Counter(status for status, _, _ in answers)),
        "empty": sum(status == 200 and not body["context"] for status, _, body in answers),
        "said": dict(reasons.most_common()),
        "p50_ms": round(times[len(times) // 2], 1),
        "p99_ms": round(times[min(len(times) - 1, int(len(times) * 0.99))], 1),
    }
    print(
        f"{name:32} n={figures['requests']:<5} errors {figures['errors']:<3} empty {figures['empty']:<4} "
        f"p50 {figures['p50_ms']:>7} ms  p99 {figures['p99_ms']:>8} ms  said {figures['said']}  {figures['statuses']}",
        flush=True,
    )
    return figures


@contextmanager
def embedder_killed() -> Iterator[None]:
    with other_model():
        call_command("reembed", verbosity=0)
        SERVICES.pop().stop()
        yield
    back_to_bundled()


SERVICES: list[EmbeddingService] = []


@contextmanager
def other_model() -> Iterator[None]:
    service = EmbeddingService()
    SERVICES.append(service)
    with override_settings(ERL_EMBEDDER=f"{service.base_url}?model=other&dimensions=2"):
        forget_embedders()
        yield
    forget_embedders()
    if service in SERVICES:
        SERVICES.remove(service)
        service.stop()


def back_to_bundled() -> None:
    call_command("reembed", verbosity=0)
    breaker.reset()


@contextmanager
def model_hangs() -> Iterator[None]:
    with (
        ScriptedProvider(otherwise=silence()) as provider,
        patch.object(llm_ranking, "DEADLINE_SECONDS", 2.0),
        override_settings(
            ERL_LLM_PROVIDER="openai-compatible",
            ERL_LLM_MODEL="scripted-1",
            ERL_LLM_BASE_URL=provider.openai_url,
            ERL_RETRIEVE_MODE="erl",
        ),
    ):
        yield
    llm_ranking.breaker.reset()


@contextmanager
def no_connection_left(before: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Take every connection the server has left; the superuser's reserved ones too."""
    held: list[psycopg.Connection[Any]] = []
    before()
    try:
        while True:
            try:
                held.append(psycopg.connect(**_plain_parameters()))
            except psycopg.OperationalError:
                break
        yield
    finally:
        for connection in held:
            connection.close()


@contextmanager
def indexes_rebuilt() -> Iterator[None]:
    done = threading.Event()

    def rebuild() -> None:
        with psycopg.connect(**_plain_parameters(), autocommit=True) as other:
            while not done.is_set():
                other.execute("REINDEX TABLE CONCURRENTLY memory_heuristicembedding")

    worker = threading.Thread(target=rebuild)
    worker.start()
    try:
        yield
    finally:
        done.set()
        worker.join()


@contextmanager
def model_switched(seconds: float) -> Iterator[None]:
    with other_model():
        switches = threading.Timer(seconds / 4, _switch)
        switches.start()
        yield
        switches.join()
    back_to_bundled()


def _switch() -> None:
    call_command("reembed", verbosity=0)
    connections.close_all()


def _plain_parameters() -> dict[str, Any]:
    left_out = ("cursor_factory", "context", "prepare_threshold")
    return {name: value for name, value in connection.get_connection_params().items() if name not in left_out}


def read_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--lessons", type=int, default=200)
    parser.add_argument("--rate", type=float, default=20.0, help="Requests a second.")
    parser.add_argument("--seconds", type=float, default=20.0, help="How long each situation lasts.")
    parser.add_argument("--only", nargs="+", metavar="WORD", help="Only situations with one of these words.")
    parser.add_argument("--json", type=Path, help="Write the figures to this file.")
    return parser.parse_args(arguments)


def make_lessons(count: int) -> Iterator[Lesson]:
    """Yield different lessons, some of which fit any task that the load asks for."""
    for number in range(count):
        verb, subject = VERBS[number % 10], SUBJECTS[number // 10 % 10]
        trigger = f"Asked to {verb} a {subject} ({number})"
        yield Lesson(id=str(number), trigger=trigger, guideline=f"Look up the {subject}.")


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Go through the situations, and return the figures of each."""
    memory = ApiMemory("Faults")
    memory.load(make_lessons(options.lessons))
    load = Load(memory.agent_key, rate=options.rate)
    load.connect()
    load.run(seconds=min(2.0, options.seconds))
    situations: list[tuple[str, Callable[[], Any]]] = [
        ("nothing wrong", nullcontext),
        ("embedder killed", embedder_killed),
        ("language model hangs", model_hangs),
        ("indexes being rebuilt", indexes_rebuilt),
        ("database at its limit", no_connection_left),
        ("… and no connection at hand", lambda: no_connection_left(load.disconnect)),
        ("model switched", lambda: model_switched(options.seconds)),
    ]
    rows = []
    wanted = [state for state in situations if not options.only or any(word in state[0] for word in options.only)]
    for name, situation in wanted:
        load.connect()
        with situation():
            rows.append(report(name, load.run(seconds=options.seconds)))
    load.disconnect()
    return rows


def main() -> None:
    options = read_options()
    # Without the database a key is known only as long as this.
    authentication.CACHE_SECONDS = 600.0
    with scratch_database(patient=False):
        rows = measure(options)
        print(f"load average {os.getloadavg()[0]:.1f}")
        if options.json:
            options.json.write_text(json.dumps(rows, indent=2) + "\n")
        # Threads of the load that have ended left theirs open.
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )


if __name__ == "__main__":
    main()
