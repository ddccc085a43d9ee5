"""Write the messages about an event in its transaction: none for what is rolled back, none lost once committed."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID, uuid4

from django.db import connection
from django.utils import timezone

from memory.events import ProjectEvent
from memory.ids import uuid7
from reflection.jobs.queue import enqueue
from reflection.webhooks.models import KIND, WebhookDelivery, WebhookEndpoint

MOST_LESSONS = 200  # in one message


def queue_deliveries(event: ProjectEvent) -> None:
    """Queue a message about an event to every endpoint of its project that wants it.

    Events that are equal apart from their lessons and happen in one transaction are one message, so that an order on a
    hundred lessons is not a hundred messages.
    """
    enabled = WebhookEndpoint.objects.enabled()
    for endpoint in enabled.filter(project_id=event.project_id, events__contains=[event.kind]):
        if not (event.lesson_ids and _join(endpoint, event)):
            queue_delivery(endpoint, event=event.kind, lesson_ids=event.lesson_ids, details=dict(event.details))


def queue_delivery(
    endpoint: WebhookEndpoint,
    *,
    event: str,
    lesson_ids: Iterable[UUID] = (),
    details: dict[str, Any] | None = None,
    again: WebhookDelivery | None = None,
    requested_by: str = "",
) -> WebhookDelivery:
    """Queue one message; one that is sent `again` keeps its id and time."""
    id = uuid7()
    payload = {
        "event": event,
        "lesson_ids": [str(id) for id in lesson_ids],
        "details": details or {},
        # The receiver drops what it has already by this id (Standard Webhooks).
        "message_id": str(again.message_id if again else uuid4()),
        "happened_at": (again.happened_at if again else timezone.now()).isoformat(),
        "transaction": _find_transaction(),
    }
    return enqueue(
        WebhookDelivery(
            id=id,
            kind=KIND,
            project_id=endpoint.project_id,
            # Each message is a subject of its own, as `enqueue` allows one live job per subject.
            subject=str(id),
            endpoint=endpoint,
            payload=payload,
            requested_by=requested_by,
        )
    )


def _join(endpoint: WebhookEndpoint, event: ProjectEvent) -> bool:
    """Add an event to the message of its transaction; False where there is none, or it is full."""
    # No other transaction sees what this one has queued, so nothing comes between reading and writing.
    same = WebhookDelivery.objects.filter(
        endpoint=endpoint,
        status=WebhookDelivery.Status.QUEUED,
        payload__transaction=_find_transaction(),
        payload__event=event.kind,
        payload__details=dict(event.details),
    )
    # The newest one; the older ones are full.
    delivery = same.first()
    if delivery is None or len(delivery.lesson_ids) >= MOST_LESSONS:
        return False
    delivery.payload["lesson_ids"] += [str(id) for id in event.lesson_ids]
    delivery.save(update_fields=["payload"])
    return True


def _find_transaction() -> str:
    """Return the number of the running transaction, the same in all of its savepoints."""
    with connection.cursor() as cursor:
        # PostgreSQL's own number: Python cannot tell two transactions on one connection apart.
        cursor.execute("SELECT pg_current_xact_id()::text")
        return str(cursor.fetchone()[0])
