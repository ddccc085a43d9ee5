"""What a search by the index costs PostgreSQL, what of it goes where, and what less of it would find.

    uv run python -m bench.serving_cost --heuristics 100000 --home FOLDER --fill
    uv run python -m bench.index_search --home FOLDER [--tasks 80]

The first lines vary how much the product's statement takes: nearest vectors (`ef_search`), with which it takes texts
with rare words in proportion, and these texts alone.
The last two compare the vector index alone with an index over one bit of each number, of which four times as many are
taken and compared exactly. CPU is that of the connection, for one search with a task of 18 words. Recall is the share
of the 20 lessons, or 60 texts, of an exact search that is found, on average and for the worst task.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.serving_cost import read_into_memory, start_servers, stop_servers  # first: it sets the environment

from django.db import connection  # isort: skip
from django.db.models import Count  # isort: skip

from bench.serving.corpus import Corpus
from bench.serving.processes import read_cpu_seconds
from memory.embeddings.registry import find_embedder
from memory.index.vector_index import keep_index
from memory.projects.models import Project
from memory.retrieval import database_search
from memory.retrieval.candidates import find_in_database
from memory.retrieval.database import read_prepared
from memory.retrieval.database_search import FIRST_BREADTH, Search, UsableIndex
from memory.retrieval.models import EmbeddingModel, HeuristicEmbedding
from memory.retrieval.scoring import MEANING_WEIGHT
from memory.retrieval.task_vector import make_query_vector

ROUNDS = 3
MATCHES, ENOUGH = database_search.MATCHES, database_search.ENOUGH
VARIANTS = {  # vectors that are taken, texts with rare words, and how many of these words are enough
    "as it is": (FIRST_BREADTH, MATCHES, ENOUGH),
    "40 vectors, words in proportion": (40, MATCHES, ENOUGH),
    "20 vectors, words in proportion": (20, MATCHES, ENOUGH),
    "700 texts with rare words": (FIRST_BREADTH, 700, ENOUGH),
    "500 texts with rare words": (FIRST_BREADTH, 500, ENOUGH),
    "no texts with rare words": (FIRST_BREADTH, 0, 0),
}
_TEXTS = """SELECT revision_id, kind, trajectory_id FROM servable_text
    WHERE project_id = '{project}' AND embedding_model_id = '{model}'
    ORDER BY vector::halfvec({size}) <#> %(vector)b::halfvec({size}) LIMIT 60"""
_BITS = """SELECT revision_id, kind, trajectory_id FROM (
    SELECT revision_id, kind, trajectory_id, vector FROM servable_text
    WHERE project_id = '{project}' AND embedding_model_id = '{model}'
    ORDER BY binary_quantize(vector::halfvec({size}))::bit({size}) <~> binary_quantize(%(vector)b::halfvec({size}))
    LIMIT 240) near
    ORDER BY vector::halfvec({size}) <#> %(vector)b::halfvec({size}) LIMIT 60"""
_BITS_INDEX = """CREATE INDEX bench_bits ON memory_heuristicembedding
    USING hnsw ((binary_quantize(vector::halfvec({size}))::bit({size})) bit_hamming_ops)
    WHERE served AND project_id = '{project}' AND embedding_model_id = '{model}'"""


def find_largest() -> Project:
    """Return the project that serves the most texts."""
    counts = HeuristicEmbedding.objects.values("project").annotate(texts=Count("pk")).order_by("-texts")
    return Project.objects.get(pk=counts[0]["project"])


def run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def measure(name: str, find: Callable[[Search], list[Any]], searches: list[Search], exact: list[list[Any]]) -> None:
    """Print what one search costs, and how much of the exact finds it finds."""
    rankings = [find(search) for search in searches]
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        # CPU of this connection's process alone, read from the system.
        pids = [cursor.fetchone()[0]]
    before = read_cpu_seconds(pids)
    for search in ROUNDS * searches:
        find(search)
    cpu_ms = (read_cpu_seconds(pids) - before) * 1000 / (ROUNDS * len(searches))
    shares = [len({*expected} & {*other}) / len(expected) for expected, other in zip(exact, rankings, strict=True)]
    print(f"{name:32} {cpu_ms:6.2f} ms   recall {sum(shares) / len(shares):.3f}, least {min(shares):.2f}", flush=True)


def compare(project: Project, *, tasks: int) -> None:
    """Print all lines for one project."""
    embedder = find_embedder(EmbeddingModel.objects.get(active=True).pk)
    if embedder is None:
        raise SystemExit("The embedder of the index is not there.")
    corpus = Corpus(seed=991)
    searches = [
        Search(
            project_id=project.pk,
            task=(task := corpus.write_task()),
            vector=make_query_vector(embedder, task),
            model_id=embedder.model_id,
            meaning_weight=MEANING_WEIGHT,
            limit=20,
        )
        for _ in range(tasks)
    ]

    def lessons(search: Search, breadth: int = 0) -> list[Any]:
        way = UsableIndex(embedder.model_id, embedder.dimensions, breadth) if breadth else None
        return [neighbour.heuristic_id for neighbour in find_in_database(search, index=way)]

    exact = [lessons(search) for search in searches]
    for name, (breadth, matches, enough) in VARIANTS.items():
        run(f"SET hnsw.ef_search = {breadth}")
        database_search.MATCHES, database_search.ENOUGH = matches, enough
        measure(name, partial(lessons, breadth=breadth), searches, exact)

    about = {"project": project.pk, "model": embedder.model_id, "size": embedder.dimensions}

    def texts(search: Search, statement: str = _TEXTS) -> list[Any]:
        return read_prepared(statement.format(**about), {"vector": search.vector})

    # Without the index every vector is compared, which gives the exact answer.
    run("SET enable_indexscan = off")
    # Another text, as PostgreSQL keeps the plan of a statement by its text.
    near = [texts(search, f"{_TEXTS} -- exact") for search in searches]
    run("SET enable_indexscan = on")
    run(f"SET hnsw.ef_search = {FIRST_BREADTH}")
    measure("vector index alone", texts, searches, near)
    run("SET maintenance_work_mem = '500MB'")
    run(_BITS_INDEX.format(**about))
    # Bits lose precision, so four times as many are taken and compared exactly.
    run(f"SET hnsw.ef_search = {4 * FIRST_BREADTH}")
    measure("index of bits, re-ranked", lambda search: texts(search, _BITS), searches, near)
    run("DROP INDEX bench_bits")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--home", required=True, help="The folder of the filled database.")
    parser.add_argument("--tasks", type=int, default=80, help="Tasks to search for.")
    options = parser.parse_args()
    start_servers()
    try:
        read_into_memory()
        if not keep_index(HeuristicEmbedding, threshold=1, served=True):
            raise SystemExit("There are no lessons: fill the database.")
        compare(find_largest(), tasks=options.tasks)
    finally:
        stop_servers(keep=True)


if __name__ == "__main__":
    main()
