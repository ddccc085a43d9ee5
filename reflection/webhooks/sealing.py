"""Seals the secrets and addresses of webhooks with the current ERL_SECRET_KEY, where they are not."""

from collections.abc import Iterator
from uuid import UUID

from django.db import transaction
from django.db.models import TextField
from django.db.models.functions import Cast

from memory.projects.actors import Actor, name_actor
from memory.sealing import last_release_may_run, needs_sealing, secret_part
from reflection.webhooks.models import WebhookEndpoint, WebhookSecret
from reflection.webhooks.signatures import find_secret, seal_secret

_BATCH = 500
_BY = Actor(label="sealing")


def seal_webhooks() -> int:
    """Seal what is not sealed with the current key, some rows in each transaction; return how many were."""
    count = _seal_secrets()
    # Release 1.0.0 reads addresses as they are; the secrets it makes from their salts.
    return count if last_release_may_run() else count + _seal_addresses()


def stored_secrets() -> Iterator[str]:
    """Return what is stored sealed, or should be: the secrets in use and the secret part of every address."""
    used = WebhookSecret.objects.filter(retired_at__isnull=True)
    yield from (sealed or "" for sealed in used.values_list("sealed", flat=True))
    yield from (address for _, address in _stored_addresses())


def _stored_addresses() -> Iterator[tuple[UUID, str]]:
    rows = WebhookEndpoint.objects.order_by("pk").annotate(stored=Cast("url", TextField()))
    for pk, url in rows.values_list("pk", "stored").iterator():
        yield pk, secret_part(url)


def _seal_secrets() -> int:
    stored = WebhookSecret.objects.order_by("pk").values_list("pk", "sealed")
    pks = [pk for pk, sealed in stored.iterator() if sealed is None or needs_sealing(sealed)]
    count = 0
    for start in range(0, len(pks), _BATCH):
        with transaction.atomic():
            name_actor(_BY)
            for row in WebhookSecret.objects.filter(pk__in=pks[start : start + _BATCH]).order_by("pk"):
                # A secret whose key is lost stays as it is; its webhook's page says so.
                if secret := find_secret(row):
                    count += WebhookSecret.objects.filter(pk=row.pk).update(sealed=seal_secret(secret))
    return count


def _seal_addresses() -> int:
    pks = [pk for pk, address in _stored_addresses() if needs_sealing(address)]
    for start in range(0, len(pks), _BATCH):
        with transaction.atomic():
            name_actor(_BY)
            # Locked, so that an address that a person changes meanwhile is not overwritten by the former one.
            for endpoint in WebhookEndpoint.objects.filter(pk__in=pks[start : start + _BATCH]).select_for_update():
                endpoint.save(update_fields=["url"])
    return len(pks)
