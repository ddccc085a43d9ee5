"""What an embedder is, and how the vectors of the parts of a text become one."""

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]

PART_CHARACTERS = 500
MAX_PARTS = 8

_SENTENCE_END = re.compile(r"(?<=[.!?।؟۔])\s+|(?<=[。！？])|\n+")
_WORD = re.compile(r"\w+")
_NAME_JOINT = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=\w)_(?=\w)")


class Embedder(Protocol):
    """Turns texts into vectors.

    `model_id` names the model and its exact version; vectors of different ids must not be compared. `dimensions` is
    the length of a vector. `floors` say for each language that the model knows how similar a lesson must be to a task;
    None where that has to be measured.
    """

    @property
    def model_id(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    @property
    def floors(self) -> Mapping[str, float] | None: ...

    def __hash__(self) -> int: ...

    def embed(self, texts: Sequence[str], *, timeout_seconds: float | None = None) -> Vectors:
        """Return one unit vector per text, shape (len(texts), dimensions).

        `timeout_seconds` limits a call to a service; None means the embedder's own limit.

        Raises:
            EmbedderError: the vectors cannot be computed now.
        """
        ...


def scale_to_unit(vectors: Vectors) -> Vectors:
    """Scale the rows of `vectors` to length 1; rows of zeros stay zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    # Rows of zeros would divide by zero.
    scaled: Vectors = vectors / np.maximum(lengths, np.float32(1e-12))
    return scaled


def split_text(text: str, *, characters: int = PART_CHARACTERS) -> list[str]:
    """Split a text at sentence ends into parts of at most `characters`; longer sentences are split at spaces."""
    parts: list[str] = []
    part = ""
    for sentence in _SENTENCE_END.split(text):
        for piece in _cut(sentence.strip(), characters):
            if part and len(part) + 1 + len(piece) > characters:
                parts.append(part)
                part = ""
            part = f"{part} {piece}".strip()
    return [*parts, part] if part else parts


def join_sections(sections: Sequence[str]) -> str:
    """Return the sections as one text that says each sentence once.

    So it does not matter over which fields a client spreads its words, or that it repeats a title before a text.
    """
    sentences: dict[tuple[str, ...], str] = {}
    beginnings: list[tuple[str, ...]] = []
    for section in sections:
        words = [*_WORD.finditer(section)]
        read = tuple(word.group().casefold() for word in words)
        # A section that begins with the words of an earlier one, as a text under its title, is read from behind them.
        repeated = max(
            (
                len(beginning)
                for beginning in beginnings
                if len(beginning) < len(read) and read[: len(beginning)] == beginning
            ),
            default=0,
        )
        beginnings.append(read)
        for sentence in _SENTENCE_END.split(section[words[repeated].start() :] if repeated else section):
            key = tuple(word.casefold() for word in _WORD.findall(sentence))
            if key:
                sentences.setdefault(key, sentence.strip())
    return "\n".join(sentences.values())


def embed_composites(
    embedder: Embedder,
    texts: Sequence[Sequence[str]],
    *,
    max_parts: int = MAX_PARTS,
    timeout_seconds: float | None = None,
) -> Vectors:
    """Return one unit vector per text, where a text is given as its sections.

    Each section is split into parts whose vectors are added, weighted by the square root of their length: a title
    counts without outweighing the text below it, and a long text is compared as a whole. Names such as AbleStyle and
    create_qr_code, which the model cannot read, are split into words first. Of a section with more than `max_parts`
    parts, that many are used, spread evenly.

    Raises:
        EmbedderError: from the embedder.
    """
    parts: list[str] = []
    owners: list[int] = []
    for owner, sections in enumerate(texts):
        of_text = [
            part for section in sections for part in _take_evenly(split_text(_NAME_JOINT.sub(" ", section)), max_parts)
        ]
        parts += of_text
        owners += [owner] * len(of_text)
    summed = np.zeros((len(texts), embedder.dimensions), np.float32)
    if parts:
        vectors = embedder.embed(parts, timeout_seconds=timeout_seconds)
        weights = np.sqrt(np.array([len(part) for part in parts], np.float32))
        # Not `summed[owners] +=`, which adds once where an owner occurs several times.
        np.add.at(summed, owners, vectors * weights[:, None])
    return scale_to_unit(summed)


def _take_evenly(parts: list[str], count: int) -> list[str]:
    if len(parts) <= count:
        return parts
    return [parts[round(index * (len(parts) - 1) / max(count - 1, 1))] for index in range(count)]


def _cut(sentence: str, characters: int) -> Sequence[str]:
    pieces = []
    while len(sentence) > characters:
        # From 1, so that a leading space cannot give an empty piece and an endless loop.
        end = sentence.rfind(" ", 1, characters)
        end = end if end > 0 else characters
        pieces.append(sentence[:end])
        sentence = sentence[end:].strip()
    return [*pieces, sentence] if sentence else pieces
