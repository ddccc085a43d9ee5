"""Write the messages about an event in its transaction: none for what is rolled back, none lost once committed."""

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db.models import F, Func, UUIDField, Value

from memory.events import Event
from memory.ids import uuid7
from reflection.jobs.queue import enqueue
from reflection.webhooks.models import KIND, CurrentTransaction, WebhookDelivery, WebhookEndpoint

MOST_LESSONS = 200  # in one message


def queue_deliveries(event: Event) -> None:
    """Queue a message about an event to every endpoint of its project that wants it.

    Events that are equal apart from their lessons and happen in one transaction are one message, so that an order on a
    hundred lessons is not a hundred messages.
    """
    enabled = WebhookEndpoint.objects.enabled()
    for endpoint in enabled.filter(project_id=event.project_id, events__contains=[event.kind]):
        if not (event.lesson_ids and _join(endpoint, event)):
            queue_delivery(
                endpoint, event_kind=event.kind, lesson_ids=list(event.lesson_ids), details=dict(event.details)
            )


def queue_delivery(endpoint: WebhookEndpoint, **values: Any) -> WebhookDelivery:
    """Queue one message; `values` are the columns of the delivery."""
    id = uuid7()
    return enqueue(
        WebhookDelivery(id=id, kind=KIND, project_id=endpoint.project_id, subject=str(id), endpoint=endpoint, **values)
    )


def _join(endpoint: WebhookEndpoint, event: Event) -> bool:
    """Add an event to the message of its transaction; False where there is none, or it is full."""
    ids = Value(list(event.lesson_ids), output_field=ArrayField(UUIDField()))
    same = WebhookDelivery.objects.filter(
        endpoint=endpoint,
        transaction=CurrentTransaction(),
        status=WebhookDelivery.Status.QUEUED,
        event_kind=event.kind,
        details=dict(event.details),
        lesson_ids__len__lt=MOST_LESSONS,
    )
    return bool(same.update(lesson_ids=Func(F("lesson_ids"), ids, function="array_cat")))
