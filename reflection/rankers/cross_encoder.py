"""A cross-encoder behind `POST /rerank`, as Cohere, Jina, vLLM and text-embeddings-inference serve it."""

import atexit
import os
from collections.abc import Sequence
from threading import Lock
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from memory.retrieval.cross_encoder import RerankingFailed
from reflection.llm.base import ProviderError
from reflection.llm.http import JsonClient
from reflection.llm.transport import BoundedTransport

TEXT_CHARACTERS = 2000
DEADLINE_SECONDS = 1.0
FORMATS = ("cohere", "tei")


class _Score(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    index: int = Field(ge=0)
    relevance_score: float | None = Field(default=None, allow_inf_nan=False)
    score: float | None = Field(default=None, allow_inf_nan=False)


_SCORES = TypeAdapter(list[_Score])


class HttpReranker:
    """One endpoint. Bounded in time and size."""

    def __init__(self, *, url: str, api_key: str, model: str, shape: str, deadline_seconds: float) -> None:
        parts = urlsplit(url)
        self._path = urlunsplit(("", "", parts.path, parts.query, ""))
        self._model = model
        self._shape = shape
        self._client = JsonClient(
            label="the reranker",
            base_url=f"{parts.scheme}://{parts.netloc}",
            headers={"authorization": f"Bearer {api_key}"} if api_key else {},
            api_key=api_key,
            timeout_seconds=deadline_seconds,
            transport=BoundedTransport(),
        )

    def score_texts(self, task: str, texts: Sequence[str]) -> dict[int, float]:
        """Return the relevance of each text by its place.

        Raises:
            RerankingFailed: there are no scores in time.
        """
        try:
            reply = self._client.post(self._path, self._write(task, texts))
        except ProviderError as error:
            raise RerankingFailed("too slow" if error.code == "timeout" else "failed") from error
        return self._read(reply.body, len(texts))

    def close(self) -> None:
        self._client.close()

    def _write(self, task: str, texts: Sequence[str]) -> dict[str, Any]:
        cut = [text[:TEXT_CHARACTERS] for text in texts]
        if self._shape == "tei":
            return {"query": task[:TEXT_CHARACTERS], "texts": cut, "truncate": True}
        body: dict[str, Any] = {"query": task[:TEXT_CHARACTERS], "documents": cut, "top_n": len(cut)}
        return body | ({"model": self._model} if self._model else {})

    def _read(self, body: Any, count: int) -> dict[int, float]:
        try:
            scores = _SCORES.validate_python(body["results"] if isinstance(body, dict) else body)
        except (KeyError, ValidationError) as error:
            raise RerankingFailed("gave an unusable answer") from error
        found: dict[int, float] = {}
        for one in scores:
            value = one.relevance_score if one.relevance_score is not None else one.score
            if one.index < count and value is not None:
                found.setdefault(one.index, value)
        if not found:
            raise RerankingFailed("gave an unusable answer")
        return found


_lock = Lock()
_current: tuple[tuple[Any, ...], HttpReranker] | None = None


def find_http_reranker() -> HttpReranker | None:
    """Return this process's reranker, or None where none is configured."""
    global _current
    if not settings.ERL_RERANK_URL:
        return None
    key = (
        os.getpid(),
        settings.ERL_RERANK_URL,
        settings.ERL_RERANK_API_KEY,
        settings.ERL_RERANK_MODEL,
        settings.ERL_RERANK_FORMAT,
        DEADLINE_SECONDS,
    )
    with _lock:
        if _current is None or _current[0] != key:
            close_reranker()
            _, url, api_key, model, shape, seconds = key
            _current = (
                key,
                HttpReranker(url=url, api_key=api_key, model=model, shape=shape, deadline_seconds=seconds),
            )
        return _current[1]


def close_reranker() -> None:
    """Close this process's connections, but not those it inherited from its parent."""
    global _current
    if _current is not None and _current[0][0] == os.getpid():
        _current[1].close()
    _current = None


atexit.register(close_reranker)
