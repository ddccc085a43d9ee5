"""The desk as a person with an account sees it."""

from typing import Any

from django.test import Client
from django.urls import reverse

from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.projects.actors import Actor
from memory.retrieval.models import EmbeddingModel, HeuristicEmbedding
from tests.factories import make_member

ANA = Actor(label="user:ana")


def log_in(username: str, **options: Any) -> Client:
    client = Client()
    client.force_login(make_member(username, **options))
    return client


def address(heuristic: Heuristic) -> str:
    return reverse("admin:inbox_item", args=["lesson", heuristic.pk])


def hold(client: Client, heuristic: Heuristic) -> None:
    """Claim a lesson, as its page does for a person who reads it for some seconds."""
    assert client.post(reverse("admin:inbox_hold", args=["lesson", heuristic.pk])).status_code == 200


def page(client: Client, heuristic: Heuristic) -> str:
    """Return the page of a lesson with all its tabs, which a browser fetches when they are opened."""
    response = client.get(address(heuristic))
    assert response.status_code == 200
    tabs = [client.get(f"{address(heuristic)}tab/{name}/") for name in ("similar", "effect", "history")]
    return "".join(part.content.decode() for part in (response, *tabs))


def decide(client: Client, heuristic: Heuristic, decision: str = "approve", **values: Any) -> str:
    """Decide on the words that were on the page when `heuristic` was read."""
    assert heuristic.current_revision is not None
    sent = {"decision": decision, "content_sha256": heuristic.current_revision.content_sha256} | values
    return client.post(address(heuristic), sent, follow=True).content.decode()


def served(heuristic: Heuristic) -> bool:
    return HeuristicRevision.objects.filter(heuristic=heuristic, served=True).exists()


def model() -> EmbeddingModel:
    return EmbeddingModel.objects.get_or_create(id="test", defaults={"dimensions": 2, "active": True})[0]


def embed(heuristic: Heuristic, *vector: float) -> Heuristic:
    assert heuristic.current_revision is not None
    HeuristicEmbedding.objects.create(
        project=heuristic.project,
        heuristic=heuristic,
        revision=heuristic.current_revision,
        embedding_model=model(),
        kind="lesson",
        text_sha256="0" * 64,
        vector=list(vector),
    )
    return heuristic
