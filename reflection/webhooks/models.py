"""Where a project's events are sent, the secrets that sign them, and each message to be delivered."""

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from memory.constraints import one_of
from memory.events import EventKind
from memory.ids import uuid7
from memory.projects.models import Project
from memory.sealing import SealedURLField
from reflection.jobs.models import Job, KindManager, member

KIND = "webhook"
TEST_EVENT = "webhook.test"
EVENTS = {**dict(EventKind.choices), TEST_EVENT: "A test"}


class WebhookEndpointQuerySet(models.QuerySet["WebhookEndpoint"]):
    def enabled(self) -> Self:
        return self.filter(disabled_at__isnull=True)


class WebhookEndpointStyle(models.TextChoices):
    STANDARD = "standard", "Standard Webhooks (JSON)"
    SLACK = "slack", "Slack-compatible (one line of text)"


class WebhookEndpoint(models.Model):
    """An address that is told of a project's events. Addresses of chat services are secrets themselves.

    `failing_since` is when the first delivery failed since the last that succeeded; until `rests_until` nothing is
    sent, so that an address that does not answer keeps no worker busy.
    """

    Style = WebhookEndpointStyle

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    url = SealedURLField("URL")
    events = ArrayField(models.TextField(choices=EventKind.choices))
    style = models.TextField("body", choices=Style.choices, default=Style.STANDARD)
    with_text = models.BooleanField(
        "include lesson text",
        default=False,
        help_text="Otherwise messages hold ids, kinds, counts and a link. They never hold text of a run.",
    )
    desk_url = models.TextField(
        "address of this site", help_text="Links in messages begin with it, such as https://erl.example.com."
    )
    created_by = models.TextField(editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    disabled_at = models.DateTimeField(null=True, editable=False)
    disabled_reason = models.TextField(blank=True, default="", editable=False)
    failing_since = models.DateTimeField(null=True, editable=False)
    rests_until = models.DateTimeField(null=True, editable=False)

    objects = WebhookEndpointQuerySet.as_manager()

    class Meta:
        verbose_name = "webhook"
        ordering = ["-created_at", "-id"]
        constraints = [
            one_of("style", WebhookEndpointStyle, "reflection_webhook_style_known"),
            models.CheckConstraint(
                condition=Q(events__contained_by=EventKind.values), name="reflection_webhook_events_known"
            ),
        ]

    def __str__(self) -> str:
        return self.host

    @property
    def host(self) -> str:
        """The part of the address that is no secret."""
        return self.url.partition("://")[2].partition("/")[0].partition("?")[0]


class WebhookSecret(models.Model):
    """One secret of an endpoint: messages are signed with every secret that is not retired.

    It is made from ERL_SECRET_KEY and the salt, and stored only sealed, so that it stays the same when the key changes.
    `fingerprint` tells a person which secret it is. Release 1.0.0 knows no `sealed` and makes it from the salt again.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    endpoint = models.ForeignKey(WebhookEndpoint, on_delete=models.CASCADE, related_name="secrets")
    salt = models.TextField(editable=False)
    sealed = models.TextField(null=True, editable=False)  # Base64
    fingerprint = models.TextField(editable=False)
    created_by = models.TextField(editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    retired_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["created_at", "id"]

    def __str__(self) -> str:
        return self.fingerprint


def _read_ids(ids: Iterable[str]) -> list[UUID]:
    return [UUID(id) for id in ids]


class WebhookDelivery(Job):
    """One message to one endpoint: a job, written in the transaction of what it tells of.

    `message_id` stays the same however often it is sent. Events of one kind and one `transaction` are one message.
    """

    if TYPE_CHECKING:  # a message always has one
        endpoint: models.ForeignKey[WebhookEndpoint, WebhookEndpoint]

    objects = KindManager["WebhookDelivery"](KIND)  # type: ignore[misc]  # finds messages

    message_id: UUID = member("payload", "message_id", read=UUID)
    event_kind: str = member("payload", "event")
    lesson_ids: list[UUID] = member("payload", "lesson_ids", (), read=_read_ids)
    details: dict[str, Any] = member("payload", "details", {})
    transaction: str = member("payload", "transaction")
    happened_at: datetime = member("payload", "happened_at", read=parse_datetime)
    status_code: int | None = member("result", "status_code", None)  # of the receiver's last answer

    class Meta:
        proxy = True
        verbose_name = "webhook delivery"
        verbose_name_plural = "webhook deliveries"

    def __str__(self) -> str:
        return f"{self.event_kind} to {self.endpoint}"

    @property
    def event_label(self) -> str:
        return EVENTS.get(self.event_kind, self.event_kind)
