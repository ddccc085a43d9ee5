"""Lessons, tasks and runs made of word mixtures: 400 topics of 24 words over a Zipf background."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import count
from typing import Any

import numpy as np

from memory.embeddings.minilm import TOKENIZER

TOPICS, TOPIC_WORDS = 400, 24
BACKGROUND_WORDS = 8000
TASK_WORDS = 18
STEPS = 8


@lru_cache(maxsize=1)
def _vocabulary() -> list[str]:
    """Words that the embedder's tokenizer knows whole, so that 18 words are about 21 tokens as in English."""
    vocabulary = json.loads(TOKENIZER.read_text())["model"]["vocab"]
    return sorted(word for word in vocabulary if word.isascii() and word.isalpha() and len(word) > 2)


@dataclass(kw_only=True)
class Corpus:
    """Equal seeds write equal texts, in the order they are asked for."""

    seed: int = 0
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        # Every corpus speaks of the same topics.
        shared = np.random.default_rng(7)
        words = np.array(_vocabulary())
        shared.shuffle(words)
        self.words = words
        self._topics = shared.integers(0, len(words), (TOPICS, TOPIC_WORDS))
        # Zipf's law: the word of rank n is used in proportion to 1/n.
        weights = 1 / np.arange(1, BACKGROUND_WORDS + 1)
        self._weights = np.cumsum(weights / weights.sum())
        self._random = np.random.default_rng(self.seed)

    def write_words(self, topic: int, words: int) -> str:
        """Half of the words are of the topic, the others are common ones."""
        own = self._topics[topic][self._random.integers(0, TOPIC_WORDS, words)]
        common = np.searchsorted(self._weights, self._random.random(words))
        chosen = np.where(self._random.random(words) < 0.5, own, np.minimum(common, BACKGROUND_WORDS - 1))
        return " ".join(self.words[chosen])

    def write_task(self, topic: int | None = None) -> str:
        """A task of 18 words; each is different."""
        topic = self._draw_topic() if topic is None else topic
        return self.write_words(topic, TASK_WORDS)

    def write_lesson(self) -> dict[str, str]:
        """A lesson of 56 words, by the names of a revision's fields, with the task it was learnt from."""
        topic = self._draw_topic()
        return {
            "trigger": self.write_words(topic, 18),
            "guideline": self.write_words(topic, 30),
            "avoid": self.write_words(topic, 8),
            "scope": "project",
            "source_task": self.write_task(topic),
        }

    def write_run(self) -> dict[str, Any]:
        """A finished run of 8 steps, about 3 kB, as a client posts it."""
        topic = self._draw_topic()
        steps = [
            {
                "thought": self.write_words(topic, 12),
                "action": {"name": "search", "arguments": {"query": self.write_words(topic, 4), "page": step}},
                "observation": self.write_words(topic, 24),
            }
            for step in range(STEPS)
        ]
        return {
            "external_id": f"run-{self.seed}-{next(self._numbers)}",
            "task": self.write_task(topic),
            "steps": steps,
            "outcome": "success",
            "score": 1.0,
            "outcome_source": "environment",
            "agent": "bench",
        }

    def _draw_topic(self) -> int:
        return int(self._random.integers(0, TOPICS))
