"""What an embedding model knows: measured on questions that lessons answer, and on some that no lesson answers.

A cosine means nothing by itself. To one model two sentences without anything in common are at .1, to another at .8, and
to a model of English all sentences in Chinese are nearly the same. To many models a long text is more similar to any
other than a short one. So a model of a service is tried, once, on thirty lessons with their questions in each of eight
languages, and on questions without an answer of all lengths (`memory/embeddings/data/calibration.jsonl`).
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from memory.embeddings.base import Embedder, embed_composites, join_sections
from memory.embeddings.registry import find_embedder
from memory.retrieval.models import EmbeddingModel
from memory.retrieval.scoring import FLOOR_CHARACTERS, GROWTH

QUESTIONS = Path(__file__).parent.parent / "embeddings" / "data" / "calibration.jsonl"
# Standard deviations above what unanswered questions of a length are usually like to their nearest lesson: about one in
# twenty is above.
ABOVE = 1.6
KNOWN_SHARE = 0.2  # of questions must find their lesson above the floor, or the model does not know the language
# The languages that memory_language tells apart and that are not tried, and how many of the foreign ones that are tried
# a model has to know to be taken for one of many languages
UNTRIED = (
    *("french", "portuguese", "italian", "dutch", "swedish", "danish", "norwegian", "finnish", "hungarian", "romanian"),
    *("turkish", "indonesian", "korean", "persian", "thai", "greek", "hebrew", "armenian", "tamil", "other"),
)
MULTILINGUAL_FROM = 4


def find_uncalibrated_model() -> EmbeddingModel | None:
    """Return the active model if its floors have not been measured and its embedder is there."""
    model = EmbeddingModel.objects.filter(active=True, floors__isnull=True).first()
    return model if model is not None and find_embedder(model.pk) is not None else None


def calibrate(model: EmbeddingModel) -> Mapping[str, float]:
    """Measure and store the similarity from which a lesson fits a task, for each language that the model knows.

    Raises:
        EmbedderError: from the embedder.
    """
    embedder = find_embedder(model.pk)
    floors = {} if embedder is None else embedder.floors
    if embedder is not None and floors is None:
        floors = measure_floors(embedder)
    EmbeddingModel.objects.filter(pk=model.pk).update(floors=floors)
    model.floors = floors
    return floors or {}


def measure_floors(embedder: Embedder) -> dict[str, float]:
    """Return the floor of each language that an embedder knows, and how they grow with the length of a question.

    Raises:
        EmbedderError: from the embedder.
    """
    tried = {language: _try(embedder, rows) for language, rows in read_questions(QUESTIONS).items()}
    known = [trial for trial in tried.values() if trial.is_known(_fit_slope([trial]))]
    growth = max(_fit_slope(known), 0.0) if known else 0.0
    chosen = {language: trial for language, trial in tried.items() if trial.is_known(growth)}
    floors = {language: round(trial.find_floor(growth), 4) for language, trial in chosen.items()}
    return add_untried(floors) | ({GROWTH: round(growth, 5)} if floors else {})


class _Trial(NamedTuple):
    """What an embedder made of the questions in one language.

    `own` are the cosines of questions and their own lessons, `nearest` those of questions without an answer and the
    nearest lesson. `own_lengths` and `lengths` say by how many doublings they are longer than FLOOR_CHARACTERS.
    """

    own: np.ndarray
    own_lengths: np.ndarray
    nearest: np.ndarray
    lengths: np.ndarray

    def find_floor(self, growth: float) -> float:
        usual = self.nearest - growth * self.lengths
        return float(usual.mean() + ABOVE * usual.std())

    def is_known(self, growth: float) -> bool:
        found = self.own - growth * self.own_lengths >= self.find_floor(growth)
        return bool(found.mean() >= KNOWN_SHARE)


def _try(embedder: Embedder, rows: Sequence[Mapping[str, Any]]) -> _Trial:
    answered = [row for row in rows if "question" in row]
    unrelated = [row["unrelated"] for row in rows if "unrelated" in row]
    lessons = [join_sections((row["trigger"], row["guideline"])) for row in answered]
    questions = [row["question"] for row in answered]
    vectors = embed_composites(embedder, [[text] for text in (*lessons, *questions, *unrelated)])
    similarities = np.asarray(vectors[len(lessons) :] @ vectors[: len(lessons)].T)
    return _Trial(
        own=np.diagonal(similarities),
        own_lengths=_measure_lengths(questions),
        nearest=similarities[len(lessons) :].max(axis=1),
        lengths=_measure_lengths(unrelated),
    )


def _measure_lengths(texts: Sequence[str]) -> np.ndarray:
    return np.log2([len(text) / FLOOR_CHARACTERS for text in texts])


def _fit_slope(trials: Sequence[_Trial]) -> float:
    """Return the slope of least-squares lines of `nearest` by length, with an intercept for each language."""
    pairs = [(trial.lengths - trial.lengths.mean(), trial.nearest - trial.nearest.mean()) for trial in trials]
    return float(sum(x @ y for x, y in pairs) / sum(x @ x for x, _ in pairs))


def add_untried(floors: Mapping[str, float]) -> dict[str, float]:
    """Return floors with those of languages that were not tried, where a model knows most of those that were.

    Such a language has the highest floor of the foreign ones, so that few unrelated questions get a lesson.
    """
    foreign = [floor for language, floor in floors.items() if language != "english"]
    if len(foreign) < MULTILINGUAL_FROM:
        return dict(floors)
    return dict.fromkeys(UNTRIED, max(foreign)) | dict(floors)


@cache
def read_questions(path: Path) -> Mapping[str, list[dict[str, Any]]]:
    """Return the rows of a file by language: lessons with their questions, and questions that none answers."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        rows.setdefault(row["language"], []).append(row)
    return rows
