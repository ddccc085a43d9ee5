"""What people do with webhooks: add, change, disable and enable them, rotate secrets, send a test, send again."""

from dataclasses import dataclass, field

from django.db import transaction
from django.db.models.functions import Now

from memory.projects.actors import Actor, name_actor
from reflection.errors import ReflectionError, StillQueued
from reflection.webhooks.models import TEST_EVENT, WebhookDelivery, WebhookEndpoint, WebhookSecret
from reflection.webhooks.outbox import queue_delivery
from reflection.webhooks.signatures import derive_secret, fingerprint_of, make_salt, seal_secret, spell_secret

MOST_SECRETS = 4


class SecretsLimited(ReflectionError):
    """A webhook has at least one secret in use, and only a few."""

    code = "secrets_limited"


@dataclass(frozen=True, kw_only=True, slots=True)
class NewSecret:
    """A secret, which is known only now."""

    endpoint: WebhookEndpoint
    secret: str = field(repr=False)


@transaction.atomic
def add_endpoint(endpoint: WebhookEndpoint, *, by: Actor) -> NewSecret:
    """Store a new webhook and its first secret."""
    name_actor(by)
    endpoint.created_by = by.label
    endpoint.save(force_insert=True)
    return add_secret(endpoint, by=by)


@transaction.atomic
def change_endpoint(endpoint: WebhookEndpoint, *, fields: list[str], by: Actor) -> WebhookEndpoint:
    """Store changed settings of a webhook."""
    name_actor(by)
    endpoint.save(update_fields=fields)
    return endpoint


@transaction.atomic
def delete_endpoint(endpoint: WebhookEndpoint, *, by: Actor) -> None:
    """Delete a webhook with its secrets and messages, those that wait included."""
    name_actor(by)
    WebhookDelivery.objects.filter(endpoint=endpoint).delete()
    endpoint.delete()


@transaction.atomic
def add_secret(endpoint: WebhookEndpoint, *, by: Actor) -> NewSecret:
    """Make another secret; messages are signed with it and with those before it until they are retired.

    Raises:
        SecretsLimited: it has as many as it may have.
    """
    name_actor(by)
    # Under this lock two people cannot both add the last secret that is allowed.
    WebhookEndpoint.objects.select_for_update().get(pk=endpoint.pk)
    if endpoint.secrets.filter(retired_at__isnull=True).count() >= MOST_SECRETS:
        raise SecretsLimited(f"This webhook has {MOST_SECRETS} secrets in use. Retire one first.")
    salt = make_salt()
    secret = derive_secret(salt)
    WebhookSecret.objects.create(
        project_id=endpoint.project_id,
        endpoint=endpoint,
        salt=salt,
        sealed=seal_secret(secret),
        fingerprint=fingerprint_of(secret),
        created_by=by.label,
    )
    return NewSecret(endpoint=endpoint, secret=spell_secret(secret))


@transaction.atomic
def retire_secret(secret: WebhookSecret, *, by: Actor) -> None:
    """Sign no more messages with a secret.

    Raises:
        SecretsLimited: it is the last one in use.
    """
    name_actor(by)
    # Under this lock two people cannot retire the last two secrets at once.
    WebhookEndpoint.objects.select_for_update().get(pk=secret.endpoint_id)
    others = WebhookSecret.objects.filter(endpoint=secret.endpoint_id, retired_at__isnull=True).exclude(pk=secret.pk)
    if not others.exists():
        raise SecretsLimited("This is the only secret in use. Add a new one first, or disable the webhook.")
    WebhookSecret.objects.filter(pk=secret.pk, retired_at__isnull=True).update(retired_at=Now())


@transaction.atomic
def disable_endpoint(endpoint: WebhookEndpoint, *, by: Actor) -> None:
    """Send nothing more; messages that wait are given up."""
    name_actor(by)
    rows = WebhookEndpoint.objects.enabled().filter(pk=endpoint.pk)
    rows.update(disabled_at=Now(), disabled_reason=f"{by.label} disabled it.")


@transaction.atomic
def enable_endpoint(endpoint: WebhookEndpoint, *, by: Actor) -> None:
    """Send again from now on, and forget that it failed."""
    name_actor(by)
    rows = WebhookEndpoint.objects.filter(pk=endpoint.pk)
    rows.update(disabled_at=None, disabled_reason="", failing_since=None, rests_until=None)


def send_test(endpoint: WebhookEndpoint, *, by: Actor) -> WebhookDelivery:
    """Queue a test message."""
    return queue_delivery(endpoint, event=TEST_EVENT, requested_by=by.label)


def send_again(delivery: WebhookDelivery, *, by: Actor) -> WebhookDelivery:
    """Queue a message once more, under the same id, so that a receiver that has it can tell.

    Raises:
        StillQueued: it is on its way.
    """
    if delivery.status in WebhookDelivery.LIVE:
        raise StillQueued("This message is still on its way, so it cannot be sent again.")
    return queue_delivery(
        delivery.endpoint,
        again=delivery,
        event=delivery.event_kind,
        lesson_ids=delivery.lesson_ids,
        details=delivery.details,
        requested_by=by.label,
    )
