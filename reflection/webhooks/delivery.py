"""Carry out deliveries: send, and note on the endpoint how it went. A message is sent until it is taken, or given up.

A worker that dies after the receiver has the message and before that is written sends it again, under the same id.
"""

import time
from datetime import timedelta
from functools import partial
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Coalesce, Now

from memory.database_clock import database_now
from memory.failpoints import failpoint
from memory.sealing import is_sealed
from reflection.errors import NotNow
from reflection.jobs.execution import Heartbeat, Outcome, carry_out
from reflection.jobs.models import Job
from reflection.jobs.queue import claim, finish, note
from reflection.webhooks.bodies import write_body
from reflection.webhooks.models import KIND, WebhookDelivery, WebhookEndpoint
from reflection.webhooks.signatures import find_secret, sign
from reflection.webhooks.transport import DeliveryFailed, post

log = structlog.get_logger(__name__)

# Seconds until the next attempt, as Standard Webhooks proposes: the last one is three days after the first
RETRY_SECONDS = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
MOST_ATTEMPTS = len(RETRY_SECONDS) + 1
DISABLED_AFTER = timedelta(days=5)
FIRST_REST_SECONDS, LONGEST_REST_SECONDS = 5.0, 3600.0
KEPT = timedelta(days=30)
DELETED_AT_ONCE = 5000


def run_delivery(job_id: UUID | None = None, *, owner: str) -> Outcome:
    """Claim one delivery, or the one that is due longest, and carry it out. What goes wrong is written on its row."""
    delivery = claim(KIND, job_id, owner=owner, model=WebhookDelivery)
    if delivery is None:
        return Outcome.NOTHING
    outcome, _ = carry_out(delivery, partial(_deliver, delivery))
    return outcome


def _deliver(delivery: WebhookDelivery, heartbeat: Heartbeat) -> None:
    endpoint = delivery.endpoint
    if endpoint.disabled_at is not None:
        raise DeliveryFailed("The webhook is disabled.", code="disabled", transient=False)
    _wait_for_rest(delivery)
    # Last look before the message leaves: what is sent cannot be taken back.
    heartbeat.ensure_held()
    try:
        failpoint("webhook.before_send")
        status = _send(delivery)
        failpoint("webhook.sent")
    except DeliveryFailed as error:
        _note_failure(delivery, error)
        raise
    with transaction.atomic():
        # Written only if it failed before, so that deliveries to a healthy endpoint do not wait for each other's row.
        failing = WebhookEndpoint.objects.filter(pk=endpoint.pk, failing_since__isnull=False)
        failing.update(failing_since=None, rests_until=None)
        finish(delivery, status_code=status)


def _wait_for_rest(delivery: WebhookDelivery) -> None:
    """Let a message wait while its endpoint rests after a failure, unless a person has asked for it."""
    rests_until = delivery.endpoint.rests_until
    if rests_until is None or delivery.requested_by:
        return
    left_seconds = (rests_until - database_now()).total_seconds()
    if left_seconds > 0:
        raise NotNow("The receiver failed a moment ago and is left alone for a while.", wait_seconds=left_seconds)


def _send(delivery: WebhookDelivery) -> int:
    """Sign a message and send it; return the status.

    Raises:
        DeliveryFailed: the receiver did not take it.
    """
    rows = delivery.endpoint.secrets.filter(retired_at__isnull=True)
    secrets = [secret for row in rows if (secret := find_secret(row)) is not None]
    if not secrets:
        reason = "No secret can be used, because ERL_SECRET_KEY has changed. Add a new secret on the webhook's page."
        raise DeliveryFailed(reason, code="no_secret")
    if is_sealed(delivery.endpoint.url):
        reason = "The address cannot be read, because ERL_SECRET_KEY has changed. Enter it again on the webhook's page."
        raise DeliveryFailed(reason, code="no_address")
    body = write_body(delivery)
    message_id, timestamp = f"msg_{delivery.message_id.hex}", int(time.time())
    headers = {
        "content-type": "application/json",
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(message_id, timestamp, body, with_secrets=secrets),
    }
    return post(delivery.endpoint.url, body=body, headers=headers)


def _note_failure(delivery: WebhookDelivery, error: DeliveryFailed) -> None:
    """Let the endpoint rest, longer the longer it fails, and disable it when it is gone or has failed for days."""
    # `attempts` starts at 1, and the last interval is used for all attempts after it.
    planned = RETRY_SECONDS[min(delivery.attempts, len(RETRY_SECONDS)) - 1]
    asked = error.retry_after_seconds or 0.0
    error.retry_after_seconds = max(float(planned), asked)
    endpoint = delivery.endpoint
    failing = (database_now() - endpoint.failing_since).total_seconds() if endpoint.failing_since else 0.0
    # As long as it has failed so far, so the rest doubles: at least seconds, at most an hour.
    rest = max(asked, min(max(failing, FIRST_REST_SECONDS), LONGEST_REST_SECONDS))
    note(delivery, status_code=error.status)
    rows = WebhookEndpoint.objects.filter(pk=endpoint.pk)
    until = Now() + timedelta(seconds=rest)
    # The first failure stays: `DISABLED_AFTER` counts from it.
    rows.update(failing_since=Coalesce(F("failing_since"), Now()), rests_until=until)
    log.warning("webhook_failed", endpoint_id=str(endpoint.pk), host=endpoint.host, code=error.code)
    # Standard Webhooks: 410 Gone asks for no more messages.
    if error.status == 410:
        error.transient = False
        _disable(endpoint, "It answered 410 Gone.")
    elif failing > DISABLED_AFTER.total_seconds():
        _disable(endpoint, f"Every delivery failed for {DISABLED_AFTER.days} days. The last one: {error}")


def _disable(endpoint: WebhookEndpoint, reason: str) -> None:
    still_enabled = WebhookEndpoint.objects.enabled().filter(pk=endpoint.pk)
    # Conditional, so that of two workers one writes the reason and the log has one line.
    if still_enabled.update(disabled_at=Now(), disabled_reason=reason):
        log.error("webhook_disabled", endpoint_id=str(endpoint.pk), host=endpoint.host)


def delete_old_deliveries() -> int:
    """Delete messages that were delivered or given up a month ago, some at a time; return how many."""
    ended = Job.objects.filter(kind=KIND, status__in=[Job.Status.DONE, Job.Status.DEAD])
    old = ended.filter(finished_at__lt=Now() - KEPT).order_by("finished_at").values_list("pk", flat=True)
    # A bounded number at a time keeps the transaction short; the next run takes the rest.
    pks = list(old[:DELETED_AT_ONCE])
    WebhookDelivery.objects.filter(pk__in=pks).delete()
    return len(pks)
