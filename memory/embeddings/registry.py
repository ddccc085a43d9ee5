"""The embedder the settings ask for."""

import os
from functools import lru_cache

from django.conf import settings

from memory.embeddings.base import Embedder
from memory.embeddings.http import HttpEmbedder
from memory.embeddings.minilm import MiniLM

CHOICES = ("minilm", "http", "none")


@lru_cache(maxsize=1)
def get_embedder() -> Embedder | None:
    """Return this process's embedder, or None where ERL_EMBEDDER=none; the model is loaded at its first text.

    Raises:
        ValueError: ERL_EMBEDDER names none that exists.
    """
    match settings.ERL_EMBEDDER:
        case "minilm":
            return MiniLM()
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


# A model loaded before a fork is not to be relied on in the child (threads do not survive it).
os.register_at_fork(after_in_child=get_embedder.cache_clear)
