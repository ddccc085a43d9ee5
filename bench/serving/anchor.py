"""The anchor: one plain Django view with raw SQL and no middleware, behind the product's gunicorn settings.

Settings, URLs and ASGI application in one module. It answers with the 20 rows of the floor's statement as JSON: no
API key, no words, no ranking, no record.
"""

import json
import os
from functools import lru_cache
from uuid import UUID

os.environ["DJANGO_SETTINGS_MODULE"] = "bench.serving.anchor_settings"

import django

django.setup(set_prefix=False)

from erl_site.web.application import Application  # noqa: E402

application = Application(max_body_bytes=1_000_000)

from django.http import HttpRequest, HttpResponse  # noqa: E402
from django.urls import path  # noqa: E402

from bench.serving.floor import TopTwenty  # noqa: E402
from memory.embeddings.base import Vectors  # noqa: E402
from memory.embeddings.minilm import MiniLM  # noqa: E402

_top = TopTwenty(os.environ["ERL_BENCH_DATABASE_URL"], UUID(os.environ["ERL_BENCH_PROJECT"]))


@lru_cache(maxsize=1)
def _embedder() -> MiniLM:
    return MiniLM()


def _embed(task: str) -> Vectors:
    vector: Vectors = _embedder().embed([task])[0]
    return vector


_embed_cached = lru_cache(maxsize=1000)(_embed)


def _answer(task: str, vector: Vectors) -> HttpResponse:
    names = ("id", "trigger", "guideline", "avoid", "distance")
    items = [dict(zip(names, (str(row[0]), *row[1:]), strict=True)) for row in _top.search(vector)]
    body = json.dumps({"items": items}).encode()
    return HttpResponse(body, content_type="application/json", headers={"Content-Length": str(len(body))})


def uncached(request: HttpRequest) -> HttpResponse:
    task = json.loads(request.body)["task"]
    return _answer(task, _embed(task))


def cached(request: HttpRequest) -> HttpResponse:
    task = json.loads(request.body)["task"]
    return _answer(task, _embed_cached(task))


def health(request: HttpRequest) -> HttpResponse:
    return HttpResponse(b"")


urlpatterns = [path("uncached", uncached), path("cached", cached), path("health", health)]
