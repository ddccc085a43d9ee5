"""The search in memory: what a project serves, held by this process, so that a task costs no scan in the database.

The database says with every task which state a project is in. A snapshot of exactly that state answers; otherwise the
database does, and a thread brings the snapshot up to date. So a lesson that was withdrawn is never served, one that was
approved is never missed, and no request waits for a snapshot.
"""

import threading
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

import numpy as np
import numpy.typing as npt
import structlog
from django.conf import settings
from django.db import Error, connection, connections, transaction

from memory.embeddings.base import Vectors
from memory.retrieval.database import execute_prepared, read_prepared, read_vector
from memory.retrieval.database_search import Search, read_rows
from memory.retrieval.project_state import ProjectState, read_state

log = structlog.get_logger(__name__)

BYTES_EACH_TEXT = 3000  # while it is read and kept; a project that would not fit is left to the database
MAX_ROWS_KEPT = 5000  # of lessons, for the next task
REST_SHARE = 10  # a project that changes all the time is read for a tenth of the time at most
TOO_LARGE_SECONDS = 60.0

_OF_RELEASE = "AND revision_id IN (SELECT revision_id FROM servable_member WHERE release_id = %(release)s)"
_COUNT = """
SELECT count(*) FROM servable_text
WHERE project_id = %(project)s AND embedding_model_id = %(model)s {of_release}
"""
_TEXTS = """
SELECT revision_id, kind = 'lesson', trajectory_id, vector, terms FROM servable_text
WHERE project_id = %(project)s AND embedding_model_id = %(model)s {of_release} ORDER BY revision_id, trajectory_id
"""

Integers = npt.NDArray[np.integer[Any]]


class FoundLesson(NamedTuple):
    """How like a task the texts of a lesson are; None where there is nothing to compare.

    `tasks` are the similarities of the tasks it was learnt from, the highest first; that one is of the run
    `trajectory_id`.
    """

    revision_id: UUID
    trajectory_id: UUID | None
    meaning: float | None
    words: float | None
    tasks: list[float]
    vector: bytes | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """Every served text of a project, or of one release of it, in one state, ordered by revision and run.

    `starts` are the first text of each revision and, at the end, the number of texts. `terms` are the different words,
    `offsets` where the texts of each begin in `postings`, and `weights` what the word weighs there. `vectors` are at
    full precision, `sent_vectors` as PostgreSQL sends them. `rows` are what the database says of a lesson, by state,
    revision and run, as they were asked for.
    """

    state: tuple[int | None, str, UUID | None]
    revisions: tuple[UUID, ...]
    starts: tuple[int, ...]
    is_lesson: tuple[bool, ...]
    trajectories: tuple[UUID | None, ...]
    sent_vectors: tuple[bytes | None, ...]
    vectors: Vectors
    terms: Integers
    offsets: Integers
    postings: Integers
    weights: Vectors
    rows: dict[tuple[int | None, UUID, UUID | None], tuple[Any, ...]] = field(default_factory=dict)

    @classmethod
    def build(cls, state: tuple[int | None, str, UUID | None], texts: Sequence[tuple[Any, ...]]) -> "Snapshot":
        """Make one of rows (revision, is it the lesson's own text, run, vector, words), ordered by revision and run."""
        revisions = [row[0] for row in texts]
        starts = [index for index in range(len(texts)) if not index or revisions[index] != revisions[index - 1]]
        words = [_read_words(row[4]) for row in texts]
        terms = np.concatenate([word_terms for word_terms, _ in words] or [np.empty(0, np.int32)])
        weights = np.concatenate([weights for _, weights in words] or [np.empty(0, np.float32)])
        places = np.repeat(np.arange(len(texts), dtype=np.int32), [len(word_terms) for word_terms, _ in words])
        # Stable, so that the postings of a word stay in the order of the texts.
        order = np.argsort(terms, kind="stable")
        unique, offsets = np.unique(terms[order], return_index=True)
        sent = tuple(row[3] for row in texts)
        vectors = np.zeros(
            (len(sent), max((len(encoded) // 2 - 2 for encoded in sent if encoded), default=0)), np.float32
        )
        for index, vector in enumerate(sent):
            if vector is not None:
                vectors[index] = np.frombuffer(vector, ">f2", offset=4)
        return cls(
            state=state,
            revisions=tuple(revisions[start] for start in starts),
            starts=(*starts, len(texts)),
            is_lesson=tuple(row[1] for row in texts),
            trajectories=tuple(row[2] for row in texts),
            sent_vectors=sent,
            vectors=vectors,
            terms=unique.astype(np.int32),
            offsets=np.append(offsets, len(terms)).astype(np.int32),
            postings=places[order],
            weights=weights[order],
        )

    @property
    def size(self) -> int:
        """The bytes it takes, rows of lessons not counted."""
        arrays = (self.vectors, self.postings, self.weights, self.terms, self.offsets)
        arrays_size: int = sum(array.nbytes for array in arrays)
        texts_size: int = (200 + 2 * self.vectors.shape[1]) * len(self.trajectories)
        return arrays_size + texts_size

    def search(self, search: Search, words: bytes, *, named: Sequence[UUID] = ()) -> list[FoundLesson]:
        """Return the lessons most like a task, in no order: those that the database would find.

        Args:
            words: the words of the task with their weights, as `memory_query_vector` makes them.
            named: revisions to return in any case, if they are here.
        """
        if not self.revisions:
            return []
        meanings = np.zeros(len(self.is_lesson), np.float32)
        if search.vector is not None and self.vectors.size:
            meanings = self.vectors @ read_vector(search.vector.bytes)
        shared = self._compare_words(words)
        weight = search.meaning_weight
        best = np.maximum.reduceat(weight * meanings + (1 - weight) * shared, self.starts[:-1])
        chosen = np.arange(len(best))
        if search.limit < len(best):
            # A partition, not a sort: only the value at the boundary is needed.
            worst = np.partition(best, len(best) - search.limit)[len(best) - search.limit]
            above, level = np.flatnonzero(best > worst), np.flatnonzero(best == worst)
            # Of those level with the last place the first by id, as the database takes them.
            chosen = np.concatenate([above, level[: search.limit - len(above)]])
        places = {*chosen.tolist()}
        for revision in named:
            index = bisect_left(self.revisions, revision)
            if index < len(self.revisions) and self.revisions[index] == revision:
                places.add(index)
        return self._describe(sorted(places), search, meanings, shared)

    def _compare_words(self, sent: bytes) -> Vectors:
        terms, weights = _read_words(sent)
        places, after = np.searchsorted(self.terms, terms), np.searchsorted(self.terms, terms, side="right")
        present = places < after
        starts = self.offsets[places[present]]
        counts = self.offsets[after[present]] - starts
        # The postings of all these words in a row: where each word's begin, less how many come before them
        postings = np.arange(counts.sum()) + np.repeat(starts - np.cumsum(counts) + counts, counts)
        shared = np.repeat(weights[present], counts) * self.weights[postings]
        return np.bincount(self.postings[postings], shared, len(self.is_lesson)).astype(np.float32)

    def _describe(self, places: Sequence[int], search: Search, meanings: Vectors, shared: Vectors) -> list[FoundLesson]:
        """Say how like the task all texts of these lessons are. Of equal tasks the first run by id is named."""
        weight = search.meaning_weight
        texts = [text for index in places for text in range(self.starts[index], self.starts[index + 1])]
        pairs = zip(texts, meanings[texts].tolist(), shared[texts].tolist(), strict=True)  # numbers leave numpy at once
        lessons = []
        for index in places:
            meaning = words = vector = None
            tasks: list[tuple[float, int]] = []
            for text, near, in_words in islice(pairs, self.starts[index + 1] - self.starts[index]):
                if self.is_lesson[text]:
                    vector, words = self.sent_vectors[text], in_words
                    meaning = near if vector is not None and search.vector is not None else None
                else:
                    # Negative, so that of equal tasks the first text comes first in the order downwards.
                    tasks.append((weight * near + (1 - weight) * in_words, -text))
            tasks.sort(reverse=True)
            trajectory_id = self.trajectories[-tasks[0][1]] if tasks else None
            similarities = [similarity for similarity, _ in tasks]
            lessons.append(FoundLesson(self.revisions[index], trajectory_id, meaning, words, similarities, vector))
        return lessons

    def read_rows(self, state: int | None, found: Sequence[FoundLesson]) -> list[tuple[Any, ...]]:
        """Return rows as `search_database` does, and ask the database only for what it was not asked before.

        A lesson that was withdrawn a moment ago has none any more.
        """
        keys = [(state, lesson.revision_id, lesson.trajectory_id) for lesson in found]
        missing = [key[1:] for key in keys if key not in self.rows]
        if missing:
            read = read_rows(missing)
            if len(self.rows) + len(read) > MAX_ROWS_KEPT:
                # Rows of earlier states are never asked for again, and this also drops those.
                self.rows.clear()
                read = read_rows([key[1:] for key in keys])
            self.rows.update({(state, *key): row for key, row in read.items()})
        rows = [(self.rows.get(key), lesson) for key, lesson in zip(keys, found, strict=True)]
        return [
            (*row, lesson.revision_id, lesson.meaning, lesson.words, lesson.tasks, lesson.vector)
            for row, lesson in rows
            if row
        ]


_Key: TypeAlias = tuple[UUID, UUID | None]  # a project, and a release of it where it serves releases


class Snapshots:
    """Snapshots of the projects and releases asked for last, within ERL_RETRIEVE_MEMORY_MB; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[_Key, Snapshot] = OrderedDict()
        self._not_before: dict[_Key, float] = {}
        self._loading = False
        self._thread: threading.Thread | None = None

    def find(self, project_id: UUID, state: ProjectState) -> Snapshot | None:
        """Return the snapshot of this state; where there is none, start a thread that makes one."""
        key = project_id, state.release_id
        with self._lock:
            held = self._held.get(key)
            if held is not None and held.state == state.searched:
                self._held.move_to_end(key)
                return held
            if (
                self._loading
                or not settings.ERL_RETRIEVE_MEMORY_MB
                or connection.in_atomic_block  # of what is not committed a thread would see nothing
                or time.monotonic() < self._not_before.get(key, 0.0)
            ):
                return None
            self._loading = True
        self._thread = threading.Thread(target=self._load_in_thread, args=key, name="snapshot", daemon=True)
        self._thread.start()
        return None

    def load(self, project_id: UUID, release_id: UUID | None = None) -> Snapshot | None:
        """Read what a project serves now, or what is live of a release, and keep it, unless it is too large."""
        key = project_id, release_id
        started = time.monotonic()
        limit = settings.ERL_RETRIEVE_MEMORY_MB * 1_000_000
        snapshot = _read(project_id, release_id, limit)
        now = time.monotonic()
        with self._lock:
            # First: what it held before is out of date, also where the new one is too large.
            self._held.pop(key, None)
            if snapshot is None:
                self._not_before[key] = now + TOO_LARGE_SECONDS
                return None
            self._not_before[key] = now + REST_SHARE * (now - started)
            self._held[key] = snapshot
            while sum(held.size for held in self._held.values()) > limit:
                self._held.popitem(last=False)
        return snapshot

    def wait(self) -> None:
        """Wait until nothing is being read."""
        if self._thread is not None:
            self._thread.join()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._held.clear()
            self._not_before.clear()

    def _load_in_thread(self, project_id: UUID, release_id: UUID | None) -> None:
        try:
            self.load(project_id, release_id)
        except Error as error:
            log.warning("snapshot_not_read", reason=type(error).__name__)
            with self._lock:
                self._not_before[project_id, release_id] = time.monotonic() + REST_SHARE
        finally:
            connections.close_all()  # this thread's own
            self._loading = False


snapshots = Snapshots()


def _read(project_id: UUID, release_id: UUID | None, limit: int) -> Snapshot | None:
    with transaction.atomic():
        # The state and the texts must be of one moment, or a change between them would be missed.
        execute_prepared("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", {})
        state = replace(read_state(project_id), release_id=release_id)
        parameters = {"project": project_id, "model": state.model_id, "release": release_id}
        of_release = _OF_RELEASE if release_id is not None else ""
        ((count,),) = read_prepared(_COUNT.format(of_release=of_release), parameters)
        if count * BYTES_EACH_TEXT > limit:
            return None
        return Snapshot.build(state.searched, read_prepared(_TEXTS.format(of_release=of_release), parameters))


def _read_words(sent: bytes | None) -> tuple[Integers, Vectors]:
    """Read a sparsevec as PostgreSQL sends it in binary: dimensions, count, a spare, indices, values."""
    if sent is None:
        return np.empty(0, np.int32), np.empty(0, np.float32)
    count = int.from_bytes(sent[4:8], "big")
    terms = np.frombuffer(sent, ">i4", count, 12).astype(np.int32)
    return terms, np.frombuffer(sent, ">f4", count, 12 + 4 * count).astype(np.float32)
