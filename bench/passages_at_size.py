"""How long a search among many passages takes, and what an index of their vectors loses.

    uv run python -m bench.passages_at_size [100000]

All of a project, those of one of a hundred agents, those with one tag: every passage compared, and by the index. Texts
are drawn from the words of docs/, vectors from a mixture of clouds, so only times and differences say something.
"""

import argparse
import hashlib
import logging
import math
import os
import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import tests.servers  # noqa: F401 - names the servers

os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
import django  # isort: skip

django.setup()

import numpy as np  # noqa: E402
from django.db import connection  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402
from pgvector import HalfVector  # noqa: E402
from tqdm import tqdm  # noqa: E402

from bench.retrieval_quality import scratch_database  # noqa: E402
from memory.index.vector_index import keep_index  # noqa: E402
from memory.passages.models import Passage, PassageEmbedding  # noqa: E402
from memory.passages.search import PassageQuery, search_passages  # noqa: E402
from memory.passages.vectors import get_searched_model  # noqa: E402
from memory.projects.models import Project  # noqa: E402

AGENTS, TAGS, CLOUDS, WORDS_EACH, QUERIES = 100, 50, 500, 30, 20
_COPY = (
    "COPY memory_passageembedding (project_id, passage_id, embedding_model_id, vector, terms, term_ids, names) "
    "FROM STDIN"
)
COMPARED = 10  # results of each search that both ways are asked for


def fill(project: Project, owners: Sequence[Any], words: list[str], count: int) -> None:
    """Write passages as they are searched, in large steps."""
    dice, clouds = random.Random(1), np.random.default_rng(1)
    # Words are about as unequal as in real texts (Zipf).
    weights = [(rank + 1) ** -0.8 for rank in range(len(words))]
    model = get_searched_model()
    model.active = True
    model.save()
    centres = clouds.normal(size=(CLOUDS, model.dimensions))
    terms = read_terms(project, words)
    rows, drawn = [], []
    for number in range(count):
        sample = dice.choices(words, weights, k=WORDS_EACH)
        text = f"{' '.join(sample)} {number}"
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        owner, tags = owners[number % len(owners)], [f"t{number % TAGS}"]
        rows.append(Passage(project=project, owner=owner, text=text, text_sha256=sha256, tags=tags, created_by="bench"))
        drawn.append(Counter(terms[word] for word in sample if word in terms))
    Passage.objects.bulk_create(rows, batch_size=5_000)
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        with cursor.copy(_COPY) as copy:
            for row, counts in zip(tqdm(rows, leave=False), drawn, strict=True):
                # In clouds, as real texts are: an index does badly on evenly spread vectors.
                vector = centres[dice.randrange(CLOUDS)] + clouds.normal(size=model.dimensions) * 0.8
                vector /= np.linalg.norm(vector)
                copy.write_row(
                    [
                        project.pk,
                        row.pk,
                        model.pk,
                        HalfVector(vector).to_text(),
                        write_terms(counts),
                        sorted(counts),
                        "",
                    ]
                )
        # The planner's choice depends on statistics, which autovacuum makes later.
        cursor.execute("VACUUM ANALYZE memory_passage, memory_passageembedding")


def read_terms(project: Project, words: list[str]) -> dict[str, int]:
    """Return the number by which the search knows each word."""
    with connection.cursor() as cursor:
        statement = "SELECT said, t.term FROM unnest(%s::text[]) AS said, memory_terms(%s, said) AS t"
        cursor.execute(statement, [words, project.pk])
        return dict(cursor.fetchall())


def write_terms(counts: Counter[int]) -> str:
    """Write the words of a text as `memory_text_vector` does, without their pieces."""
    weights = {term: 1 + math.log(count) for term, count in counts.items()}
    length = math.sqrt(sum(weight**2 for weight in weights.values())) or 1.0
    return f"{{{','.join(f'{term}:{weights[term] / length:.6g}' for term in sorted(weights))}}}/1000000000"


def search(project: Project, words: list[str], **narrowed: Any) -> tuple[list[float], list[list[UUID]]]:
    """Return the milliseconds of some searches, and what each found."""
    dice, durations, results = random.Random(2), [], []
    for _ in range(QUERIES):
        query = PassageQuery(text=" ".join(dice.choices(words, k=8)), **narrowed)
        began = time.perf_counter()
        page = search_passages(project, query, limit=COMPARED)
        durations.append((time.perf_counter() - began) * 1000)
        results.append([passage.passage.pk for passage in page.passages])
    return durations, results


def explain(project: Project, words: list[str]) -> None:
    """Print the plan of the statement that takes the longest."""
    with CaptureQueriesContext(connection) as captured:
        search_passages(project, PassageQuery(text=" ".join(random.Random(2).choices(words, k=8))))
    statement = max((query["sql"] for query in captured), key=lambda sql: "compared" in sql)
    with connection.cursor() as cursor:
        # The captured text has its values in it; psycopg would read a single % as a placeholder.
        cursor.execute("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY ON) " + statement.replace("%", "%%"), [])
        for (line,) in cursor.fetchall():
            print(line if len(line) < 200 else f"{line[:200]}…")


def main() -> None:
    logging.disable(logging.INFO)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=100_000)
    parser.add_argument("--explain", action="store_true", help="Print PostgreSQL's plan of one search by the index.")
    options = parser.parse_args()
    text = " ".join(path.read_text(encoding="utf-8").lower() for path in sorted(Path("docs").rglob("*.md")))
    words = sorted(set(re.findall("[a-z]{4,}", text)))
    random.Random(0).shuffle(words)
    owners = [uuid4() for _ in range(AGENTS)]
    scopes: dict[str, dict[str, Any]] = {
        "all of the project": {},
        "one agent's": {"owner": owners[3]},
        "with one tag": {"tags": ["t7"]},
    }
    with scratch_database():
        project = Project.objects.create(slug="many", name="Many passages")
        fill(project, owners, words, options.count)
        # Before there is an index: every passage is compared, so these are the exact answers.
        compared = {name: search(project, words, **scope) for name, scope in scopes.items()}
        began = time.monotonic()
        keep_index(PassageEmbedding, threshold=1)
        print(f"{options.count:,} passages, index built in {time.monotonic() - began:.0f} s")
        for name, scope in scopes.items():
            durations, results = search(project, words, **scope)
            before, exact = compared[name]
            same = np.mean(
                [
                    len({*approximate} & {*other}) / max(1, len(other))
                    for approximate, other in zip(results, exact, strict=True)
                ]
            )
            print(
                f"{name:20} without p50 {np.median(before):6.0f} ms  max {max(before):6.0f} ms   "
                f"with p50 {np.median(durations):6.0f} ms  max {max(durations):6.0f} ms   "
                f"of the first {COMPARED} the same {same:.3f}"
            )
        if options.explain:
            explain(project, words)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
