"""What an embedding model knows: measured on questions that lessons answer, and on some that no lesson answers.

A cosine means nothing by itself. To one model two sentences without anything in common are at .1, to another at .8, and
to a model of English all sentences in Chinese are nearly the same. So a model of a service is tried, once, on thirty
lessons with their questions in each of eight languages (`memory/embeddings/data/calibration.jsonl`).
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from memory.embeddings.base import Embedder, embed_composites, join_sections
from memory.embeddings.registry import find_embedder
from memory.retrieval.models import EmbeddingModel

QUESTIONS = Path(__file__).parent.parent / "embeddings" / "data" / "calibration.jsonl"
# Standard deviations above the mean similarity of unanswered questions to their nearest lesson: about one in thirty is
# above.
ABOVE = 2.0
KNOWN_SHARE = 0.25  # of questions must find their lesson above the floor, or the model does not know the language
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
    """Return the floor of each language that an embedder knows.

    Raises:
        EmbedderError: from the embedder.
    """
    floors = {}
    for language, rows in read_questions(QUESTIONS).items():
        answered = [row for row in rows if "question" in row]
        texts = [join_sections((row["trigger"], row["guideline"])) for row in answered]
        asked = [row["question"] for row in answered] + [row["unrelated"] for row in rows if "unrelated" in row]
        vectors = embed_composites(embedder, [[text] for text in texts + asked])
        similarities = vectors[len(texts) :] @ vectors[: len(texts)].T
        nearest = similarities[len(texts) :].max(axis=1)
        floor = float(nearest.mean() + ABOVE * nearest.std())
        if np.mean(np.diagonal(similarities) >= floor) >= KNOWN_SHARE:
            floors[language] = round(floor, 4)
    return add_untried(floors)


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
