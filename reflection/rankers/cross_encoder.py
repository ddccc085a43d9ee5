"""A cross-encoder behind `POST /rerank`, as Cohere, Jina, vLLM and text-embeddings-inference serve it."""

import atexit
import json
import os
from collections.abc import Sequence
from threading import Lock
from typing import Any

import httpx
from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from memory.connections import BoundedTransport, deadline
from memory.egress import find_url_fault, split_options
from memory.retrieval.cross_encoder import FORMATS, RerankingFailed

MAX_ANSWER_BYTES = 1024 * 1024
CONNECT_SECONDS = 5.0
TEXT_CHARACTERS = 2000
DEADLINE_SECONDS = 1.0


class _Score(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    index: int = Field(ge=0)
    relevance_score: float | None = Field(default=None, allow_inf_nan=False)
    score: float | None = Field(default=None, allow_inf_nan=False)


_SCORES = TypeAdapter(list[_Score])


class HttpReranker:
    """One endpoint. Bounded in time and size."""

    def __init__(self, *, url: str, api_key: str, model: str, shape: str, deadline_seconds: float) -> None:
        self._url = url
        self._model = model
        self._shape = shape
        self._deadline_seconds = deadline_seconds
        self._client = httpx.Client(
            transport=BoundedTransport(),
            follow_redirects=False,
            trust_env=False,
            # No compression, which would bypass the limit on the size of answers
            headers={"accept-encoding": "identity", "user-agent": "erl"}
            | ({"authorization": f"Bearer {api_key}"} if api_key else {}),
            timeout=httpx.Timeout(deadline_seconds, connect=CONNECT_SECONDS),
        )

    def score_texts(self, task: str, texts: Sequence[str]) -> dict[int, float]:
        """Return the relevance of each text by its place.

        Raises:
            RerankingFailed: there are no scores in time.
        """
        if find_url_fault(self._url):
            raise RerankingFailed("failed")
        try:
            with deadline(self._deadline_seconds):
                body = self._post(self._write(task, texts))
        except httpx.TimeoutException as error:
            raise RerankingFailed("too slow") from error
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as error:
            raise RerankingFailed("failed") from error
        return self._read(body, len(texts))

    def close(self) -> None:
        self._client.close()

    def _post(self, question: dict[str, Any]) -> Any:
        content = json.dumps(question, ensure_ascii=False).encode("utf-8", "replace")
        headers = {"content-type": "application/json"}
        with self._client.stream("POST", self._url, content=content, headers=headers) as response:
            if response.status_code != httpx.codes.OK or "content-encoding" in response.headers:
                raise httpx.HTTPStatusError("No scores.", request=response.request, response=response)
            body = b""
            for chunk in response.iter_raw():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise httpx.ReadError("The answer is too long.")
        return json.loads(body)

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
        values: dict[int, float] = {}
        for score in scores:
            value = score.relevance_score if score.relevance_score is not None else score.score
            if score.index < count and value is not None:
                values.setdefault(score.index, value)
        if not values:
            raise RerankingFailed("gave an unusable answer")
        return values


_lock = Lock()
_current: tuple[tuple[Any, ...], HttpReranker] | None = None


def find_http_reranker() -> HttpReranker | None:
    """Return this process's reranker, or None where none is configured."""
    global _current
    if not settings.ERL_RERANK_URL:
        return None
    key = (os.getpid(), settings.ERL_RERANK_URL, settings.ERL_RERANK_API_KEY, DEADLINE_SECONDS)
    with _lock:
        if _current is None or _current[0] != key:
            close_reranker()
            _, address, api_key, seconds = key
            url, options = split_options(address, "model", "format")
            reranker = HttpReranker(
                url=url,
                api_key=api_key,
                model=options.get("model", ""),
                shape=options.get("format", FORMATS[0]),
                deadline_seconds=seconds,
            )
            _current = (key, reranker)
        return _current[1]


def close_reranker() -> None:
    """Close this process's connections, but not those it inherited from its parent."""
    global _current
    if _current is not None and _current[0][0] == os.getpid():
        _current[1].close()
    _current = None


atexit.register(close_reranker)
