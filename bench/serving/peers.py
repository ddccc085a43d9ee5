"""Search the same lessons with the same embedder in mem0 and in LangGraph's store, as libraries in a process.

Neither has a server in its package, so no HTTP, no API key and no record of the answer is in their figures. Their
packages are not the product's: `uv pip install --target FOLDER mem0ai==2.2.1 langgraph-checkpoint-postgres==3.2.0`.
Reads jobs as lines of JSON and answers each with a line.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import psycopg
import psycopg.sql

from bench.serving.processes import read_cpu_seconds
from memory.embeddings.minilm import MiniLM
from tests.stack import ROOT

TOP = 20
NAMES = ("mem0", "LangGraph store")
Search = Callable[[str], Awaitable[int]]


class Peer:
    """One of them in a process of its own, with a database of its own on the benchmark's server."""

    def __init__(self, name: str, *, url: str, packages: Path, lessons: Sequence[str]) -> None:
        database = "peer_" + name.split()[0].lower()
        with psycopg.connect(url, autocommit=True) as server:
            for statement in ("DROP DATABASE IF EXISTS {}", "CREATE DATABASE {}"):
                server.execute(psycopg.sql.SQL(statement).format(psycopg.sql.Identifier(database)))
            parameters = server.info.get_parameters() | {"dbname": database}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.serving.peers"],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(packages), "MEM0_TELEMETRY": "False", "MEM0_DIR": str(packages)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        url = psycopg.conninfo.make_conninfo(**parameters)
        self._ask({"name": name, "url": url, "lessons": list(lessons)})

    def measure(self, tasks: Sequence[str], *, clients: int, seconds: float) -> dict[str, Any]:
        """Search for tasks for so many seconds; the result has the shape of that of a web server."""
        return self._ask({"tasks": list(tasks), "clients": clients, "seconds": seconds})

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _ask(self, job: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("A peer ended; its error is above.")
        result: dict[str, Any] = json.loads(line)
        return result


async def open_mem0(url: str, lessons: Sequence[str]) -> Search:
    """Store the lessons as memories of one user, without a language model, and return the search for them."""
    from mem0 import AsyncMemory

    store = {"connection_string": url, "embedding_model_dims": MiniLM.dimensions, "collection_name": "lessons"}
    unused = {"provider": "openai", "config": {"api_key": "unused"}}
    memory = AsyncMemory.from_config(
        {"vector_store": {"provider": "pgvector", "config": store}, "llm": unused, "embedder": unused}
    )
    embedder = MiniLM()
    # The same embedder as the product's, so that only the search differs.
    memory.embedding_model.embed = lambda text, *_: embedder.embed([text])[0].tolist()
    memory.embedding_model.embed_batch = lambda texts, *_: embedder.embed(texts).tolist()
    for lesson in lessons:
        # With `infer`, a language model would rewrite the lessons.
        await memory.add(lesson, user_id="bench", infer=False)

    async def search(task: str) -> int:
        memories = await memory.search(task, filters={"user_id": "bench"}, top_k=TOP, threshold=0.0)
        return len(memories["results"])

    return search


async def open_langgraph(url: str, lessons: Sequence[str]) -> Search:
    """Store the lessons in one namespace and return the search for them."""
    from langgraph.store.postgres import AsyncPostgresStore

    embedder = MiniLM()

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        return (await asyncio.to_thread(embedder.embed, texts)).tolist()  # type: ignore[no-any-return]

    opened = AsyncPostgresStore.from_conn_string(
        url, pool_config={"max_size": 8}, index={"dims": MiniLM.dimensions, "embed": embed, "fields": ["text"]}
    )
    # Never closed: the store is open until the process ends.
    store = await opened.__aenter__()
    await store.setup()
    for number, lesson in enumerate(lessons):
        await store.aput(("bench",), str(number), {"text": lesson})

    async def search(task: str) -> int:
        return len(await store.asearch(("bench",), query=task, limit=TOP))

    search.opened = opened  # type: ignore[attr-defined]  # else it is closed here
    return search


OPEN = dict(zip(NAMES, (open_mem0, open_langgraph), strict=True))


async def measure(search: Search, job: dict[str, Any], server: psycopg.AsyncConnection[Any]) -> dict[str, Any]:
    """Let clients search until the time is over; CPU is that of this process and of its connections to PostgreSQL."""
    tasks, latencies = iter(job["tasks"]), list[float]()

    async def ask() -> None:
        while (started := time.perf_counter()) < end:
            # An answer with fewer results would have been cheaper.
            assert await search(next(tasks)) == TOP
            latencies.append((time.perf_counter() - started) * 1000)

    async def read_served() -> float:
        rows = await server.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()")
        return read_cpu_seconds([pid for (pid,) in await rows.fetchall()])

    for _ in range(5):
        await search(next(tasks))
    served, used, begun = await read_served(), time.process_time(), time.perf_counter()
    end = begun + job["seconds"]
    await asyncio.gather(*(ask() for _ in range(job["clients"])))
    took = time.perf_counter() - begun
    parts = time.process_time() - used, await read_served() - served
    own, postgres = (part * 1000 / len(latencies) for part in parts)
    figures = {"web_ms": own, "postgres_ms": postgres, "cpu_ms": own + postgres, "seconds": took}
    return {"latencies_ms": latencies, "refused_ms": [], "statuses": {"200": len(latencies)}, **figures}


async def serve() -> None:
    """Do the jobs that come on standard input."""
    first = json.loads(sys.stdin.readline())
    search = await OPEN[first["name"]](first["url"], first["lessons"])
    server = await psycopg.AsyncConnection.connect(first["url"], autocommit=True)
    print("{}", flush=True)
    for line in sys.stdin:
        print(json.dumps(await measure(search, json.loads(line), server)), flush=True)


if __name__ == "__main__":
    asyncio.run(serve())
