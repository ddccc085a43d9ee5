"""The embedder the settings ask for."""

import os
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from memory.embeddings.base import Embedder
from memory.embeddings.http import HttpEmbedder
from memory.embeddings.minilm import INTEGERS_MODEL_ID, MiniLM

CHOICES = ("minilm", "http", "none")


@lru_cache(maxsize=1)
def get_embedder() -> Embedder | None:
    """Return the embedder the settings ask for, or None where ERL_EMBEDDER=none; loaded at its first text.

    Raises:
        ValueError: ERL_EMBEDDER names none that exists.
    """
    match settings.ERL_EMBEDDER:
        case "minilm":
            return _get_minilm(settings.ERL_EMBEDDER_INTEGERS)
        case "http":
            return HttpEmbedder(
                base_url=settings.ERL_EMBEDDER_BASE_URL,
                api_key=settings.ERL_EMBEDDER_API_KEY,
                model=settings.ERL_EMBEDDER_MODEL,
                dimensions=settings.ERL_EMBEDDER_DIMENSIONS,
            )
        case "none":
            return None
    raise ValueError(f"ERL_EMBEDDER is {settings.ERL_EMBEDDER!r}: set it to one of {', '.join(CHOICES)}.")


def find_embedder(model_id: str) -> Embedder | None:
    """Return the embedder that makes vectors of a model, if this process can have it.

    The bundled one always can be had, so that a change to another answers with it until the new vectors are made.
    """
    embedder = get_embedder()
    if embedder is None:
        return None
    if embedder.model_id == model_id:
        return embedder
    return next((_get_minilm(kind) for kind, name in _BUNDLED.items() if name == model_id), None)


_BUNDLED = {False: MiniLM.model_id, True: INTEGERS_MODEL_ID}


@lru_cache(maxsize=2)
def _get_minilm(in_integers: bool) -> MiniLM:
    return MiniLM(in_integers=in_integers)


def forget_embedders() -> None:
    """Read the settings anew at the next text."""
    get_embedder.cache_clear()
    _get_minilm.cache_clear()


_threads_at_fork = 0


def _count_threads() -> None:
    global _threads_at_fork
    try:
        _threads_at_fork = len([*Path("/proc/self/task").iterdir()])
    except OSError:  # no Linux
        _threads_at_fork = 0


def _forget_after_fork() -> None:
    """Rely on the parent's model only where it had one thread: another may have held a lock that nobody opens here."""
    if _threads_at_fork != 1:
        forget_embedders()


os.register_at_fork(before=_count_threads, after_in_child=_forget_after_fork)
