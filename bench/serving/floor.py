"""The least a retrieve call can cost: embed one task, run one filtered top-20 statement, prepared and in binary.

The task is embedded in floats, as the model's package does it, so that F is the same in every version.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg
from psycopg.types import TypeInfo

from bench.serving.processes import read_cpu_seconds
from memory.embeddings.base import Vectors
from memory.embeddings.minilm import FloatMiniLM
from memory.retrieval.database_search import INDEX_FROM_TEXTS

STATEMENT = """
SELECT r.heuristic_id, r.trigger, r.guideline, r.avoid, found.distance
FROM (SELECT v.revision_id, v.vector <#> %b::halfvec AS distance
      FROM memory_heuristicembedding v
      WHERE v.project_id = %b AND v.served AND v.embedding_model_id = %b AND v.kind = 'lesson'
      ORDER BY distance LIMIT 20) found
JOIN memory_heuristicrevision r ON r.id = found.revision_id
ORDER BY found.distance
"""
# The same through the index of vectors, which only a statement that names the model can use.
INDEXED_STATEMENT = """
SELECT r.heuristic_id, r.trigger, r.guideline, r.avoid, found.distance
FROM (SELECT v.revision_id, v.vector::halfvec(384) <#> %b::halfvec(384) AS distance
      FROM memory_heuristicembedding v
      WHERE v.project_id = '{project}' AND v.served AND v.embedding_model_id = '{model}' AND v.kind = 'lesson'
      ORDER BY distance LIMIT 20) found
JOIN memory_heuristicrevision r ON r.id = found.revision_id
ORDER BY found.distance
"""


class TopTwenty:
    """The statement on a plain connection, one for each thread that asks."""

    def __init__(self, url: str, project: UUID) -> None:
        self._url = url
        self._project = project
        self._local = threading.local()

    @property
    def connection(self) -> psycopg.Connection[Any]:
        connection: psycopg.Connection[Any] | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = psycopg.connect(self._url, autocommit=True)
            info = TypeInfo.fetch(connection, "halfvec")
            assert info is not None
            info.register(connection)
            dumper = {"oid": info.oid, "format": psycopg.pq.Format.BINARY, "dump": lambda _, half: half.bytes}
            # In binary, as F is the least that a call can cost.
            connection.adapters.register_dumper(Half, type("HalfDumper", (psycopg.adapt.Dumper,), dumper))
            # With less it finds under 0.95 of the 20 nearest, which is what is wanted of the product.
            connection.execute("SET hnsw.ef_search = 100")
            connection.execute("SET hnsw.iterative_scan = relaxed_order")
            active = connection.execute("SELECT id FROM memory_embeddingmodel WHERE active").fetchone()
            self._local.model = active[0] if active else ""
            sizes = "SELECT 1 FROM memory_searchstatistics WHERE project_id = %s AND texts >= %s"
            self._local.indexed = connection.execute(sizes, [self._project, INDEX_FROM_TEXTS]).fetchone() is not None
        return connection

    def search(self, vector: Vectors) -> list[tuple[Any, ...]]:
        connection = self.connection
        if self._local.indexed:
            statement = INDEXED_STATEMENT.format(project=self._project, model=self._local.model)
            return connection.execute(statement, (Half(vector),), prepare=True, binary=True).fetchall()
        parameters = (Half(vector), self._project, self._local.model)
        return connection.execute(STATEMENT, parameters, prepare=True, binary=True).fetchall()


class Half:
    """A halfvec in PostgreSQL's binary form."""

    __slots__ = ("bytes",)

    def __init__(self, vector: Vectors) -> None:
        self.bytes = len(vector).to_bytes(2, "big") + b"\0\0" + vector.astype(">f2").tobytes()


def measure_floor(url: str, project: UUID, tasks: Sequence[str], *, seconds: float) -> dict[str, Any]:
    """Do nothing but embed and search for so long; return the milliseconds of each call and of the processor."""
    embedder, top = FloatMiniLM(), TopTwenty(url, project)
    for task in tasks[:20]:
        assert len(top.search(embedder.embed([task])[0])) == 20
    backend = top.connection.info.backend_pid
    embedding: list[float] = []
    whole: list[float] = []
    begun = time.perf_counter()
    cpu = time.process_time() + read_cpu_seconds([backend])
    for task in tasks[20:]:
        started = time.perf_counter()
        vector = embedder.embed([task])[0]
        embedded = time.perf_counter()
        top.search(vector)
        ended = time.perf_counter()
        embedding.append((embedded - started) * 1000)
        whole.append((ended - started) * 1000)
        if ended - begun > seconds:
            break
    cpu = time.process_time() + read_cpu_seconds([backend]) - cpu
    top.connection.close()
    return {"latencies_ms": whole, "embedding_ms": embedding, "cpu_ms": cpu * 1000 / len(whole)}
