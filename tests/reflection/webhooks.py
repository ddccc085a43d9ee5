"""A project with a webhook, a real receiver on loopback, and what makes a delivery due."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models.functions import Now
from standardwebhooks import Webhook

from memory.curation.proposals import propose_heuristic
from memory.events import EventKind
from memory.heuristics.models import Heuristic
from memory.heuristics.text import HeuristicText
from memory.projects.actors import Actor
from memory.projects.models import Project
from reflection.jobs.execution import Outcome
from reflection.jobs.models import Job
from reflection.webhooks.delivery import run_delivery
from reflection.webhooks.endpoints import add_endpoint
from reflection.webhooks.models import WebhookDelivery, WebhookEndpoint
from tests.factories import make_project
from tests.scripted_answers import Behaviour, RecordedRequest, raw
from tests.scripted_provider import ScriptedProvider

BY = Actor(label="user:ana")
TAKEN = raw(b"ok", status=200)


def answers(status: int, **headers: str) -> Behaviour:
    """Answer with a status and headers, whose names have _ for -."""
    return raw(b"", status=status, headers={name.replace("_", "-"): value for name, value in headers.items()})


@dataclass(kw_only=True)
class Hook:
    """A webhook, its first secret and its receiver."""

    endpoint: WebhookEndpoint
    secret: str
    receiver: ScriptedProvider

    @property
    def project(self) -> Project:
        return self.endpoint.project

    def verified(self, number: int = -1, *, secret: str = "") -> Any:
        """Return what the reference library reads from a request; it raises where the signature is wrong."""
        request: RecordedRequest = self.receiver.requests[number]
        return Webhook(secret or self.secret).verify(request.data, request.headers)

    def ids(self) -> list[str]:
        """Return the ids of all messages that came, in order."""
        return [request.headers["webhook-id"] for request in self.receiver.requests]


def make_hook(receiver: ScriptedProvider, *, project: Project | None = None, **values: Any) -> Hook:
    made = add_endpoint(
        WebhookEndpoint(
            **{
                "project": project or make_project(),
                "url": f"http://127.0.0.1:{receiver.port}/hook",
                "events": EventKind.values,
                "desk_url": "https://erl.example.com/",
            }
            | values
        ),
        by=BY,
    )
    return Hook(endpoint=made.endpoint, secret=made.secret, receiver=receiver)


def propose(project: Project, guideline: str = "Read the fare rules first.", **values: Any) -> Heuristic:
    text = HeuristicText(trigger="When a flight is cancelled", guideline=guideline)
    return propose_heuristic(project, text=text, by=BY, **values)


def deliver() -> Outcome:
    """Carry out the delivery that is due longest, whatever it waits for."""
    past = Now() - timedelta(seconds=1)
    Job.objects.live().filter(status__in=Job.WAITING).update(available_at=past)
    WebhookEndpoint.objects.filter(rests_until__isnull=False).update(rests_until=past)
    return run_delivery(owner="test/1")


def only_delivery() -> WebhookDelivery:
    return WebhookDelivery.objects.get()
