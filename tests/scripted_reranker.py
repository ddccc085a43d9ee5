"""A cross-encoder on loopback that scores what a test tells it to, beside the behaviours of scripted_provider.py."""

import json
from collections.abc import Callable

from tests.scripted_answers import Behaviour


def scores(give: Callable[[str], float], *, shape: str = "cohere") -> Behaviour:
    """Answer with a score for each text, best first, as Cohere and Jina do or as text-embeddings-inference does."""

    def play(exchange: object) -> None:
        body = exchange.request.body  # type: ignore[attr-defined]
        texts = body["texts"] if shape == "tei" else body["documents"]
        name = "score" if shape == "tei" else "relevance_score"
        rows = [{"index": index, name: give(text)} for index, text in enumerate(texts)]
        rows.sort(key=lambda row: -row[name])
        answer = rows if shape == "tei" else {"id": "scripted", "results": rows}
        exchange.send(200, json.dumps(answer).encode())  # type: ignore[attr-defined]

    return play
