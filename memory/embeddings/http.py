"""Vectors from a service with OpenAI's `POST /embeddings`."""

import json
import time
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Any

import httpx
import numpy as np

from memory.connections import BoundedTransport
from memory.egress import find_url_fault
from memory.embeddings.base import Vectors, scale_to_unit
from memory.errors import EmbedderError

BATCH_SIZE = 64
TIMEOUT_SECONDS = 30.0
MAX_ANSWER_BYTES = 64 * 1024 * 1024


class HttpEmbedder:
    """Any OpenAI-compatible embedding service (OpenAI, vLLM, TEI, Ollama, llama.cpp)."""

    def __init__(self, *, base_url: str, api_key: str, model: str, dimensions: int) -> None:
        self.model_id = f"{model}@{dimensions}"
        self.dimensions = dimensions
        self.floors: Mapping[str, float] | None = None
        self._model = model
        self._url = f"{base_url.rstrip('/')}/embeddings"
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._client: httpx.Client | None = None
        self._lock = Lock()

    def embed(self, texts: Sequence[str], *, timeout_seconds: float | None = None) -> Vectors:
        """Request the vectors in batches.

        Raises:
            EmbedderError: the service does not answer in time, returns an error, or sends an unexpected answer.
        """
        vectors = np.empty((len(texts), self.dimensions), np.float32)
        for start in range(0, len(texts), BATCH_SIZE):
            batch = list(texts[start : start + BATCH_SIZE])
            vectors[start : start + len(batch)] = self._ask(batch, timeout_seconds or TIMEOUT_SECONDS)
        return scale_to_unit(vectors)

    def _ask(self, texts: list[str], timeout_seconds: float) -> Vectors:
        if fault := find_url_fault(self._url):
            raise EmbedderError(f"The embedding service cannot be used. {fault}", transient=False)
        body = {"model": self._model, "input": texts, "encoding_format": "float"}
        try:
            status, content = self._post(body, timeout_seconds)
        except httpx.HTTPError as error:
            raise EmbedderError(f"The embedding service did not answer: {type(error).__name__}.") from error
        if status != httpx.codes.OK:
            # Any other refusal is of the request itself and comes again however often it is sent.
            transient = status in (408, 429) or status >= 500
            raise EmbedderError(f"The embedding service answered {status}.", transient=transient)
        try:
            return self._read(json.loads(content), len(texts))
        except (KeyError, TypeError, ValueError) as error:
            raise EmbedderError(
                f"The embedding service did not return {len(texts)} vectors of {self.dimensions} numbers. "
                "Check the model and the dimensions in ERL_EMBEDDER.",
                transient=False,
            ) from error

    def _post(self, body: dict[str, Any], timeout_seconds: float) -> tuple[int, bytes]:
        """Return status and body within the time limit; httpx would limit only each single read."""
        deadline = time.monotonic() + timeout_seconds
        request = self._get_client().stream(
            "POST", self._url, json=body, headers=self._headers, timeout=timeout_seconds
        )
        with request as response:
            content = bytearray()
            for chunk in response.iter_bytes():
                content += chunk
                if time.monotonic() > deadline:
                    raise httpx.ReadTimeout("The answer came too slowly.")
                if len(content) > MAX_ANSWER_BYTES:
                    raise httpx.ReadError("The answer is too long.")
            return response.status_code, bytes(content)

    def _read(self, answer: Any, count: int) -> Vectors:
        # The index says which text a vector belongs to; a service may answer out of order.
        rows = sorted(answer["data"], key=lambda row: row["index"])
        vectors = np.array([row["embedding"] for row in rows], np.float32)
        # A wrong model or a NaN must not reach the index, where every comparison with it is wrong.
        if vectors.shape != (count, self.dimensions) or not np.isfinite(vectors).all():
            raise ValueError(vectors.shape)
        return vectors

    def _get_client(self) -> httpx.Client:
        if self._client is None:
            with self._lock:
                if self._client is None:
                    self._client = httpx.Client(transport=BoundedTransport(), follow_redirects=False, trust_env=False)
        return self._client
