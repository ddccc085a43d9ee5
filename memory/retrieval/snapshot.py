"""What a project serves, in this process's memory: how like a task each lesson is without a scan in the database."""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt

from memory.embeddings.base import Vectors
from memory.retrieval.scoring import COUNTED_TASKS, NOISE, Numbers, get_task_weight, score_lessons

MAX_TEXTS_KEPT = 5000  # of lessons, for the next task

Integers = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """Words with their weights, as `memory_query_vector` and `memory_text_vector` make them."""

    terms: Integers
    weights: Vectors

    @classmethod
    def read(cls, sent: bytes) -> "Words":
        """Read a sparsevec as PostgreSQL sends it in binary: dimensions, count, a spare, indices, values."""
        count = int.from_bytes(sent[4:8], "big")
        return cls(
            terms=np.frombuffer(sent, ">i4", count, 12).astype(np.int32),
            weights=np.frombuffer(sent, ">f4", count, 12 + 4 * count).astype(np.float32),
        )


class Found(NamedTuple):  # as quick to make as every task needs forty of them
    """How like a task a lesson is; None where there is nothing to compare. `trajectory_id` is the likest task's.

    `places` are those of the revision and of the likest task's text in the snapshot, -1 for none: they name what the
    database says of it in a way that is quicker to look up than two ids.
    """

    places: tuple[int, int]
    revision_id: UUID
    trajectory_id: UUID | None
    own: float | None
    meaning: float | None
    words: float | None
    task: float | None
    score: float
    lead: float
    vector: bytes | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """Every served text of a project at one state, ordered by revision, vectors at full precision.

    `starts` are the first text of each revision; `terms` are the different words, `offsets` where each one's texts
    begin in `postings`, and `weights` what the word weighs there. `rows` are what the database says of a lesson, by
    state and places, as they were asked for.
    """

    state: tuple[int | None, str]
    revisions: tuple[UUID, ...]
    starts: Integers
    is_lesson: npt.NDArray[np.bool_]
    has_vector: npt.NDArray[np.bool_]
    trajectories: tuple[UUID | None, ...]
    vectors: Vectors
    terms: Integers
    offsets: Integers
    postings: Integers
    weights: Vectors
    rows: dict[tuple[int | None, int, int], tuple[Any, ...]] = field(default_factory=dict)

    @classmethod
    def build(cls, state: tuple[int | None, str], texts: Sequence[tuple[Any, ...]]) -> "Snapshot":
        """Make one of rows (revision, is it the lesson's own text, trajectory, vector, words), ordered by revision."""
        revisions: list[UUID] = []
        starts: list[int] = []
        for place, row in enumerate(texts):
            if not revisions or row[0] != revisions[-1]:
                revisions.append(row[0])
                starts.append(place)
        words = [Words.read(row[4]) if row[4] is not None else None for row in texts]
        terms = np.concatenate([found.terms for found in words if found is not None] or [np.empty(0, np.int32)])
        weights = np.concatenate([found.weights for found in words if found is not None] or [np.empty(0, np.float32)])
        places = np.repeat(
            np.arange(len(texts), dtype=np.int32), [0 if found is None else len(found.terms) for found in words]
        )
        order = np.argsort(terms, kind="stable")
        unique, offsets = np.unique(terms[order], return_index=True)
        return cls(
            state=state,
            revisions=tuple(revisions),
            starts=np.array(starts, np.int32),
            is_lesson=np.array([row[1] for row in texts], np.bool_),
            has_vector=np.array([row[3] is not None for row in texts], np.bool_),
            trajectories=tuple(row[2] for row in texts),
            vectors=_read_vectors([row[3] for row in texts]),
            terms=unique.astype(np.int32),
            offsets=np.append(offsets, len(terms)).astype(np.int32),
            postings=places[order],
            weights=weights[order],
        )

    @property
    def bytes(self) -> int:
        """What it takes of memory, texts of lessons not counted."""
        arrays = (self.vectors, self.postings, self.weights, self.terms, self.offsets, self.starts, self.is_lesson)
        return sum(array.nbytes for array in arrays) + 120 * len(self.trajectories)

    def search(
        self,
        *,
        vector: Vectors | None,
        words: Words,
        meaning_weight: float,
        limit: int,
        added: Sequence[UUID] = (),
    ) -> list[Found]:
        """Return the `limit` lessons likest to a task, best first: what the statement of candidates.py finds.

        Args:
            added: revisions that are looked at in any case, if they are here.
        """
        if not self.revisions:
            return []
        meanings = np.zeros(len(self.is_lesson), np.float32)
        if vector is not None and self.vectors.size:
            meanings = self.vectors @ vector
        shared = self._compare_words(words)
        best = np.maximum.reduceat(meaning_weight * meanings + (1 - meaning_weight) * shared, self.starts)
        if limit < len(best):
            worst = np.partition(best, len(best) - limit)[len(best) - limit]
            above, level = np.flatnonzero(best > worst), np.flatnonzero(best == worst)
            chosen = np.concatenate([above, level[: limit - len(above)]])
        else:
            chosen = np.arange(len(best))
        if added:
            chosen = np.union1d(chosen, self._find_places(added))
        found = self._score(chosen, meanings, shared, meaning_weight, with_vector=vector is not None)
        found.sort(key=lambda one: -one.score)
        return found

    def _find_places(self, revisions: Sequence[UUID]) -> Integers:
        places = [(bisect_left(self.revisions, revision), revision) for revision in revisions]
        here = [place for place, one in places if place < len(self.revisions) and self.revisions[place] == one]
        return np.array(here, np.int64)

    def _compare_words(self, words: Words) -> Vectors:
        shared = np.zeros(len(self.is_lesson), np.float32)
        places = np.searchsorted(self.terms, words.terms)
        for place, term, weight in zip(places.tolist(), words.terms.tolist(), words.weights.tolist(), strict=True):
            if place < len(self.terms) and self.terms[place] == term:
                texts = slice(self.offsets[place], self.offsets[place + 1])
                shared[self.postings[texts]] += weight * self.weights[texts]
        return shared

    def _score(
        self, chosen: Integers, meanings: Vectors, shared: Vectors, meaning_weight: float, *, with_vector: bool
    ) -> list[Found]:
        """Score the chosen lessons by all of their texts, all at once: numbers leave numpy in bulk."""
        task_weight = get_task_weight(meaning_weight)
        starts = self.starts[chosen]
        counts = np.append(self.starts[1:], len(self.is_lesson))[chosen] - starts
        firsts = np.cumsum(counts) - counts
        owners = np.repeat(np.arange(len(chosen)), counts)
        texts = np.arange(len(owners)) + np.repeat(starts - firsts, counts)
        near, alike = meanings[texts].astype(np.float64), shared[texts].astype(np.float64)
        is_lesson = self.is_lesson[texts]
        weights = np.where(is_lesson, meaning_weight, task_weight)
        likeness = weights * near + (1 - weights) * alike

        lessons, tasks = np.flatnonzero(is_lesson), np.flatnonzero(~is_lesson)
        own = np.zeros(len(chosen))
        own[owners[lessons]] = likeness[lessons]
        likest, best, seen = self._count_votes(owners[tasks], texts[tasks], likeness[tasks], len(chosen), task_weight)
        scores, leads = score_lessons(own, seen, meaning_weight=meaning_weight)

        text_of: list[int | None] = [None] * len(chosen)  # the place of each lesson's own text among the likenesses
        for owner, place in zip(owners[lessons].tolist(), lessons.tolist(), strict=True):
            text_of[owner] = place
        near_of, alike_of = near.tolist(), alike.tolist()
        has_vector = self.has_vector[texts].tolist()
        vectors = _send_vectors(self.vectors[texts[lessons]])
        vector_of = dict(zip(lessons.tolist(), vectors, strict=True))
        columns = zip(
            chosen.tolist(), likest, text_of, own.tolist(), best, scores.tolist(), leads.tolist(), strict=True
        )
        found = []
        for place, task, text, said, task_likeness, score, lead in columns:
            has = text is not None and has_vector[text]
            found.append(
                Found(
                    (place, task),
                    self.revisions[place],
                    self.trajectories[task] if task >= 0 else None,
                    said if text is not None else None,
                    near_of[text] if text is not None and has and with_vector else None,
                    alike_of[text] if text is not None else None,
                    task_likeness if task >= 0 else None,
                    score,
                    lead,
                    vector_of[text] if text is not None and has else None,
                )
            )
        return found

    def _count_votes(
        self, owners: Integers, texts: Integers, likeness: Numbers, lessons: int, task_weight: float
    ) -> tuple[list[int], list[float], Numbers]:
        """Return the likest task of each lesson (its text or -1), how like it is, and what the likest ones add up to.

        Of equally like ones the first by id is named, as the database does.
        """
        if len(owners) > lessons or np.any(owners[1:] == owners[:-1]):  # some have several
            order = np.lexsort((-likeness, owners))
            owners, texts, likeness = owners[order], texts[order], likeness[order]
        first = np.ones(len(owners), np.bool_)
        first[1:] = owners[1:] != owners[:-1]
        begins = np.flatnonzero(first)
        places = np.arange(len(owners)) - np.repeat(begins, np.diff(np.append(begins, len(owners))))
        votes = np.maximum(likeness - NOISE * task_weight, 0.0) ** 2
        seen: Numbers = np.bincount(owners, np.where(places < COUNTED_TASKS, votes, 0.0), minlength=lessons).astype(
            float
        )
        likest, best = [-1] * lessons, [0.0] * lessons
        rows = zip(owners[begins].tolist(), texts[begins].tolist(), likeness[begins].tolist(), strict=True)
        for owner, text, value in rows:
            likest[owner], best[owner] = text, value
        seconds = np.flatnonzero(places == 1)
        for place in seconds[likeness[seconds] == likeness[seconds - 1]].tolist():
            end = place + 1
            while end < len(owners) and owners[end] == owners[place] and likeness[end] == likeness[place]:
                end += 1
            equals = texts[place - 1 : end].tolist()
            likest[owners[place]] = min(equals, key=lambda text: _order(self.trajectories[text]))
        return likest, best, seen

    def keep(self, rows: Mapping[tuple[int | None, int, int], tuple[Any, ...]]) -> None:
        """Keep what the database said of lessons for the next task."""
        if len(self.rows) + len(rows) > MAX_TEXTS_KEPT:
            self.rows.clear()
        self.rows.update(rows)


def _order(trajectory_id: UUID | None) -> tuple[bool, int]:
    """Return the place of an id in the database's order: None is last."""
    return (False, trajectory_id.int) if trajectory_id is not None else (True, 0)


def _read_vectors(sent: Sequence[bytes | None]) -> Vectors:
    size = next((len(vector) // 2 - 2 for vector in sent if vector is not None), 0)
    vectors = np.zeros((len(sent), size), np.float32)
    for place, vector in enumerate(sent):
        if vector is not None:
            vectors[place] = np.frombuffer(vector, ">f2", offset=4)
    return vectors


def _send_vectors(vectors: Vectors) -> Iterator[bytes]:
    """Write vectors as PostgreSQL sends them."""
    size = vectors.shape[1]
    head, halves = size.to_bytes(2, "big") + b"\0\0", vectors.astype(">f2").tobytes()
    for place in range(len(vectors)):
        yield head + halves[place * 2 * size : (place + 1) * 2 * size]
