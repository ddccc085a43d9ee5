"""How long a search among many passages takes: all of a project, those of one of a hundred agents, those with one tag.

    uv run python -m tests.bench.passages_at_size [100000]

Texts are drawn from the words of docs/, vectors from a mixture of clouds, so only the times say something.
"""

import argparse
import hashlib
import logging
import os
import random
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

os.environ["DJANGO_SETTINGS_MODULE"] = "erl_site.settings"
import django  # isort: skip

django.setup()

import numpy as np  # noqa: E402
from django.db import connection  # noqa: E402

from memory.passages.models import Passage  # noqa: E402
from memory.passages.search import PassageQuery, search_passages  # noqa: E402
from memory.passages.vectors import get_searched_model  # noqa: E402
from memory.projects.models import Project  # noqa: E402
from tests.bench.retrieval_quality import scratch_database  # noqa: E402

AGENTS, TAGS, CLOUDS, WORDS_EACH, QUERIES = 100, 50, 500, 30, 20
_EMBED = """
INSERT INTO memory_passageembedding (project_id, passage_id, embedding_model_id, vector, terms, term_ids, names)
SELECT project_id, p.id, %s, v.vector, memory_text_vector(project_id, text),
       coalesce((SELECT array_agg(term ORDER BY term) FROM memory_terms(project_id, text)), '{}'), memory_names(text)
FROM memory_passage p JOIN drawn v USING (id)
"""


def fill(project: Project, owners: Sequence[Any], words: list[str], count: int) -> None:
    """Write passages with vectors, in large steps."""
    dice, clouds = random.Random(1), np.random.default_rng(1)
    weights = [(place + 1) ** -0.8 for place in range(len(words))]
    model = get_searched_model()
    model.save()
    centres = clouds.normal(size=(CLOUDS, model.dimensions))
    rows = []
    for number in range(count):
        text = f"{' '.join(dice.choices(words, weights, k=WORDS_EACH))} {number}"
        sha256 = hashlib.sha256(text.encode()).hexdigest()
        owner, tags = owners[number % len(owners)], [f"t{number % TAGS}"]
        rows.append(Passage(project=project, owner=owner, text=text, text_sha256=sha256, tags=tags, created_by="bench"))
    Passage.objects.bulk_create(rows, batch_size=5_000)
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("CREATE TEMPORARY TABLE drawn (id uuid, vector halfvec)")
        with cursor.copy("COPY drawn (id, vector) FROM STDIN") as copy:
            for row in rows:
                drawn = centres[dice.randrange(CLOUDS)] + clouds.normal(size=model.dimensions) * 0.8
                drawn /= np.linalg.norm(drawn)
                copy.write_row([str(row.pk), f"[{','.join(f'{value:.4f}' for value in drawn)}]"])
        cursor.execute(_EMBED, [model.pk])
        cursor.execute("ANALYZE memory_passage, memory_passageembedding")


def measure(project: Project, words: list[str], **narrowed: Any) -> str:
    """Return the times of some searches."""
    dice, durations = random.Random(2), []
    for _ in range(QUERIES):
        query = PassageQuery(text=" ".join(dice.choices(words, k=8)), **narrowed)
        began = time.perf_counter()
        search_passages(project, query)
        durations.append((time.perf_counter() - began) * 1000)
    return f"p50 {np.median(durations):6.0f} ms  max {max(durations):6.0f} ms"


def main() -> None:
    logging.disable(logging.INFO)
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("count", nargs="?", type=int, default=100_000)
    options = parser.parse_args()
    said = " ".join(path.read_text(encoding="utf-8").lower() for path in sorted(Path("docs").rglob("*.md")))
    words = sorted(set(re.findall("[a-z]{4,}", said)))
    random.Random(0).shuffle(words)
    owners = [uuid4() for _ in range(AGENTS)]
    with scratch_database():
        project = Project.objects.create(slug="many", name="Many passages")
        fill(project, owners, words, options.count)
        print(f"all {options.count:<12,} {measure(project, words)}")
        print(f"one agent's      {measure(project, words, owner=owners[3])}")
        print(f"with one tag     {measure(project, words, tags=['t7'])}")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
