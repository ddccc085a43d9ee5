"""A task as it is searched for: cut into parts, each with its vector."""

import re
from collections.abc import Sequence

from memory.embeddings.base import Vectors
from memory.embeddings.cache import query_vectors
from memory.embeddings.registry import get_embedder
from memory.errors import EmbedderError

PART_CHARACTERS = 500
MAX_PARTS = 8
DEADLINE_SECONDS = 0.3  # A16

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def split_text(text: str, *, characters: int = PART_CHARACTERS) -> list[str]:
    """Cut a text at sentence ends into parts of at most `characters`; a sentence that is longer is cut at a space."""
    parts: list[str] = []
    part = ""
    for sentence in _SENTENCE.split(text):
        for piece in _cut(sentence.strip(), characters):
            if part and len(part) + 1 + len(piece) > characters:
                parts.append(part)
                part = ""
            part = f"{part} {piece}".strip()
    return [*parts, part] if part else parts


def embed_query(task: str) -> tuple[str, Vectors]:
    """Return the id of the model and one vector for each part of the task.

    Raises:
        EmbedderError: there is no embedder, or it gives no answer in time.
    """
    embedder = get_embedder()
    if embedder is None:
        raise EmbedderError("No embedder is configured.", transient=False)
    parts = split_text(task)[:MAX_PARTS]
    return embedder.model_id, query_vectors.embed(embedder, parts, timeout_seconds=DEADLINE_SECONDS)


def _cut(sentence: str, characters: int) -> Sequence[str]:
    pieces = []
    while len(sentence) > characters:
        end = sentence.rfind(" ", 1, characters)
        end = end if end > 0 else characters
        pieces.append(sentence[:end])
        sentence = sentence[end:].strip()
    return [*pieces, sentence] if sentence else pieces
