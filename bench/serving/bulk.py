"""Fill projects with very many approved lessons: rows are copied past the triggers, with what the triggers would write.

Words and their counts are those PostgreSQL makes of the texts; hashes are not those of the words, which nothing here
looks at. Vectors above `REAL_LESSONS` are mixed from two real ones and noise. Small projects are filled without copies.
"""

import math
import re
import struct
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import psycopg
from django.apps import apps
from django.db import connection, transaction

from bench.serving.corpus import Corpus
from bench.serving.seeding import seed_lessons
from memory.ids import uuid7

SHARES = (50, 20, 10, 10, 5, 3, 1, 1)  # percent of all lessons that each project has
REAL_LESSONS = 1000
SMALL = 200  # lessons of a project that are all embedded
BATCH = 5000
NOISE = 0.35  # length of what is added to a mixture
TEXTS = ("trigger", "guideline", "avoid", "source_task")  # the first three are those of the kind lesson
SPARSE_DIMENSIONS = 1_000_000_000

Vectors: TypeAlias = "np.ndarray[Any, np.dtype[np.float32]]"

_COPY_TEXTS = """
COPY memory_heuristicembedding (project_id, heuristic_id, revision_id, embedding_model_id, kind, text_sha256, served,
    vector, terms, term_ids) FROM STDIN (FORMAT BINARY)
"""


class Words:
    """What PostgreSQL makes of each word of the corpus in a project: numbers, or nothing for a stop word."""

    def __init__(self, project: Any, corpus: Corpus) -> None:
        words = [str(word) for word in corpus.words]
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT w, t.term, memory_word_vector(ARRAY[t.term], ARRAY[t.word], ARRAY[1.0])::text "
                "FROM unnest(%s::text[]) AS w CROSS JOIN LATERAL (SELECT * FROM memory_terms(%s, w) LIMIT 1) AS t",
                [words, project.pk],
            )
            rows = cursor.fetchall()
        self._numbers = {word: number for word, number, _ in rows}
        self._pieces = {
            number: [piece for piece in map(int, re.findall(r"(\d+):", vector)) if piece != number]
            for _, number, vector in rows
        }
        self.counts: dict[int, int] = {}

    def read(self, text: str) -> tuple[list[int], dict[int, float]]:
        """Return the numbers of a text's words and its weights, as `memory_text_vector` does, and count the words."""
        occurrences = Counter(number for word in text.split() if (number := self._numbers.get(word)) is not None)
        # The weights of `memory_text_vector`: a word that comes twice counts less than double.
        weights = {number: 1 + math.log(count) for number, count in occurrences.items()}
        pieces: dict[int, float] = {}
        for number, weight in weights.items():
            for piece in self._pieces[number]:
                pieces[piece] = pieces.get(piece, 0.0) + weight
        for number in weights:
            self.counts[number] = self.counts.get(number, 0) + 1
        return sorted(weights), _scale(weights, 0.8) | _scale(pieces, 0.2)


def _scale(weights: Mapping[int, float], share: float) -> dict[int, float]:
    length = math.sqrt(sum(weight**2 for weight in weights.values()) / share)
    return {number: weight / length for number, weight in weights.items()}


def seed_shares(*, count: int) -> Any:
    """Return the largest of the projects that hold `count` approved lessons together; fill them if they are not there.

    A project that an interrupted run left half filled is renamed and filled again.
    """
    projects = apps.get_model("memory.Project").objects
    largest: Any = None
    filled = projects.filter(slug__startswith="bench-", slug__endswith="-0", name="filled").first()
    for number, share in enumerate(SHARES):
        slug = f"bench-{count}-{number}"
        project = projects.filter(slug=slug, name="filled").first()
        if project is None:
            projects.filter(slug=slug).update(slug=f"left-{uuid7().hex}")
            project = projects.create(slug=slug, name="being filled")
            print(f"Approving {count * share // 100:,} lessons…", file=sys.stderr, flush=True)
            seed_many(project, count=count * share // 100, like=largest or filled, seed=1 + number)
            projects.filter(pk=project.pk).update(name="filled")
        largest = largest or project
    with connection.cursor() as cursor:
        # As autovacuum would have done by then in a database that grew over months.
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")
    assert largest is not None
    return largest


def seed_many(project: Any, *, count: int, like: Any = None, seed: int = 1) -> None:
    """Add `count` approved lessons, each with the task it was learnt from.

    Args:
        like: whose vectors to mix from, once it has real ones; None embeds up to REAL_LESSONS.
    """
    done = count if count <= SMALL else min(count, REAL_LESSONS if like is None else 10)
    seed_lessons(project, count=done, seed=seed)
    if count == done:
        return
    corpus, random = Corpus(seed=1000 + seed), np.random.default_rng(seed)
    words = Words(project, corpus)
    model = apps.get_model("memory.EmbeddingModel").objects.get(active=True)
    template = apps.get_model("memory.HeuristicRevision").objects.filter(project=project, served=True).first()
    assert template is not None
    real = {kind: _read_vectors(like or project, kind) for kind in ("lesson", "source_task")}
    first = done
    while done < count:
        size = min(BATCH, count - done)
        lessons = [(uuid7(), uuid7(), corpus.write_lesson()) for _ in range(size)]
        with transaction.atomic(), connection.cursor() as cursor:
            # Turns the triggers off, which write row by row what is written in bulk here.
            cursor.execute("SET LOCAL session_replication_role = replica")
            # What a crash would lose is filled again.
            cursor.execute("SET LOCAL synchronous_commit = off")
            _insert_rows(template, lessons)
            for kind in ("lesson", "source_task"):
                _copy_texts(project, model, kind, lessons, _mix(real[kind], size, random), words)
        done += size
    _add_counts(project, words, texts=2 * (count - first))


def _read_vectors(project: Any, kind: str) -> Vectors:
    embeddings = apps.get_model("memory.HeuristicEmbedding").objects.filter(project=project, kind=kind).order_by("pk")
    rows = embeddings.values_list("vector", flat=True)[:REAL_LESSONS]
    return np.array([vector.to_list() if hasattr(vector, "to_list") else vector for vector in rows], np.float32)


def scale_to_unit(vectors: Vectors) -> Vectors:
    scaled: Vectors = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    return scaled


def _mix(real: Vectors, size: int, random: np.random.Generator) -> Vectors:
    # Mixtures lie where texts lie; random vectors would all be equally far from each other.
    pairs = random.integers(0, len(real), (2, size))
    noise = random.standard_normal((size, real.shape[1])).astype(np.float32)
    return scale_to_unit(scale_to_unit(real[pairs[0]] + real[pairs[1]]) + NOISE * scale_to_unit(noise))


def _insert_rows(template: Any, lessons: Sequence[tuple[UUID, UUID, dict[str, str]]]) -> None:
    """Write heuristics and revisions like the template, whatever columns there are, with other ids and texts."""
    raw: psycopg.Connection = connection.connection
    with raw.cursor() as cursor:
        cursor.execute(
            "CREATE TEMP TABLE IF NOT EXISTS bulk (heuristic uuid, revision uuid, trigger text, guideline text,"
            " avoid text, source_task text) ON COMMIT DELETE ROWS"
        )
        with cursor.copy("COPY bulk FROM STDIN") as copy:
            for heuristic, revision, text in lessons:
                copy.write_row(
                    (heuristic, revision, *(text[name] for name in ("trigger", "guideline", "avoid", "source_task")))
                )
        sha256 = "encode(sha256(convert_to(b.revision::text, 'UTF8')), 'hex')"
        _insert_like(
            cursor,
            "memory_heuristic",
            template.heuristic_id,
            {"id": "b.heuristic", "current_revision_id": "b.revision"},
        )
        _insert_like(
            cursor,
            "memory_heuristicrevision",
            template.pk,
            {
                "id": "b.revision",
                "heuristic_id": "b.heuristic",
                "content_sha256": sha256,
                "approved_sha256": sha256,
                "search": "NULL",
                **{name: f"b.{name}" for name in TEXTS},
            },
        )


def _insert_like(cursor: psycopg.Cursor, table: str, like: UUID, changed: dict[str, str]) -> None:
    cursor.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND is_generated = 'NEVER'", [table]
    )
    columns = [name for (name,) in cursor.fetchall()]
    values = ", ".join(changed.get(name, f't."{name}"') for name in columns)
    names = ", ".join(f'"{name}"' for name in columns)
    statement = f"INSERT INTO {table} ({names}) SELECT {values} FROM bulk b CROSS JOIN {table} t WHERE t.id = %s"  # noqa: S608
    cursor.execute(statement, [like])


def _copy_texts(
    project: Any,
    model: Any,
    kind: str,
    lessons: Sequence[tuple[UUID, UUID, dict[str, str]]],
    vectors: Vectors,
    words: Words,
) -> None:
    raw: psycopg.Connection = connection.connection
    with raw.cursor() as cursor, cursor.copy(_COPY_TEXTS) as copy:
        # The header of PostgreSQL's binary COPY format: signature, flags, length of the extension.
        copy.write(b"PGCOPY\n\xff\r\n\x00" + struct.pack(">ii", 0, 0))
        halves = vectors.astype(">f2")
        # pgvector's halfvec on the wire: dimensions, an unused field, then half floats.
        head = struct.pack(">hh", vectors.shape[1], 0)
        for (heuristic, revision, text), half in zip(lessons, halves, strict=True):
            own = kind == "lesson"
            numbers, weights = words.read(
                f"{text['trigger']} {text['guideline']} {text['avoid']}" if own else text["source_task"]
            )
            fields = (
                project.pk.bytes,
                heuristic.bytes,
                revision.bytes,
                model.pk.encode(),
                kind.encode(),
                f"{revision.hex}{heuristic.hex}".encode(),
                b"\x01",
                head + half.tobytes(),
                _pack_sparse(weights),
                _pack_integers(numbers),
            )
            copy.write(struct.pack(">h", len(fields)) + b"".join(_with_length(fields)))
        # The end of binary COPY data.
        copy.write(struct.pack(">h", -1))


def _with_length(fields: Sequence[bytes]) -> Iterator[bytes]:
    for value in fields:
        yield struct.pack(">i", len(value))
        yield value


def _pack_sparse(weights: Mapping[int, float]) -> bytes:
    numbers, count = sorted(weights), len(weights)
    head = struct.pack(">iii", SPARSE_DIMENSIONS, count, 0)
    # pgvector counts the positions of a sparsevec from 0 on the wire, and from 1 in text.
    indices = struct.pack(f">{count}i", *(number - 1 for number in numbers))
    return head + indices + struct.pack(f">{count}f", *(weights[number] for number in numbers))


def _pack_integers(numbers: Sequence[int]) -> bytes:
    parts = b"".join(struct.pack(">ii", 4, number) for number in numbers)
    # An array on the wire: dimensions, no NULLs, the type's OID (23 is int4), length, lower bound.
    return struct.pack(">iiiii", 1, 0, 23, len(numbers), 1) + parts


def _add_counts(project: Any, words: Words, *, texts: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO memory_termcount AS c (project_id, term, texts)"
            " SELECT %s, * FROM unnest(%s::int[], %s::bigint[])"
            " ON CONFLICT (project_id, term) DO UPDATE SET texts = c.texts + EXCLUDED.texts",
            [project.pk, list(words.counts), list(words.counts.values())],
        )
        cursor.execute(
            "UPDATE memory_searchstatistics SET texts = texts + %s WHERE project_id = %s", [texts, project.pk]
        )
        cursor.execute(
            "INSERT INTO memory_servedchange (project_id, token) VALUES (%s, memory_new_token())", [project.pk]
        )
