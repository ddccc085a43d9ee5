"""The configured embedder."""

import os
from functools import lru_cache
from pathlib import Path

from django.conf import settings

from memory.egress import split_options
from memory.embeddings.base import Embedder
from memory.embeddings.http import HttpEmbedder
from memory.embeddings.minilm import FloatMiniLM, MiniLM
from memory.errors import EmbedderError

CHOICES = ("minilm", "minilm-floats", "none")


@lru_cache(maxsize=1)
def get_embedder() -> Embedder | None:
    """Return the configured embedder, or None if ERL_EMBEDDER=none. It loads its model at the first text.

    Raises:
        KeyError, ValueError: ERL_EMBEDDER is none of the choices, or a URL without its options. `check` says so.
    """
    match settings.ERL_EMBEDDER:
        case "minilm":
            return _get_bundled(MiniLM)
        case "minilm-floats":
            return _get_bundled(FloatMiniLM)
        case "none":
            return None
        case url if is_service(url):
            base_url, options = split_options(url, "model", "dimensions")
            return HttpEmbedder(
                base_url=base_url,
                api_key=settings.ERL_EMBEDDER_API_KEY,
                model=options["model"],
                dimensions=int(options["dimensions"]),
            )
    raise ValueError(f"ERL_EMBEDDER is {settings.ERL_EMBEDDER!r}: set it to {', '.join(CHOICES)} or a URL.")


def is_service(embedder: str) -> bool:
    """Tell whether ERL_EMBEDDER is the URL of a service."""
    return embedder.startswith(("http://", "https://"))


def find_embedder(model_id: str) -> Embedder | None:
    """Return the embedder for a model id, or None if there is none.

    The bundled models are always available, so that after a change to another one searches still work until the new
    vectors are computed.
    """
    embedder = get_embedder()
    if embedder is None:
        return None
    if embedder.model_id == model_id:
        return embedder
    return next((_get_bundled(kind) for kind in (MiniLM, FloatMiniLM) if kind.model_id == model_id), None)


@lru_cache(maxsize=2)
def _get_bundled(kind: type[MiniLM]) -> MiniLM:
    return kind()


def load_embedder() -> str:
    """Load a bundled model now, which takes about a second, so that no request waits and forks share it.

    Return what is wrong with it, or "".
    """
    embedder = get_embedder()
    if isinstance(embedder, MiniLM):
        try:
            embedder.warm_up()
        except EmbedderError as error:
            return str(error)
    return ""


def forget_embedders() -> None:
    """Drop all embedders; the settings are read again at the next call."""
    get_embedder.cache_clear()
    _get_bundled.cache_clear()


_threads_at_fork = 0


def _count_threads() -> None:
    global _threads_at_fork
    try:
        # From the kernel: `threading` does not see the threads of native libraries.
        _threads_at_fork = len([*Path("/proc/self/task").iterdir()])
    except OSError:  # not Linux
        _threads_at_fork = 0


def _forget_after_fork() -> None:
    """Keep the parent's model only if it had one thread; otherwise a lock may be held forever in this process."""
    if _threads_at_fork != 1:
        forget_embedders()


os.register_at_fork(before=_count_threads, after_in_child=_forget_after_fork)
