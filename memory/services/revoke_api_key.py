"""End a credential."""

import structlog
from django.db import transaction
from django.db.models.functions import Now

from memory.models import ApiKey
from memory.services.name_actor import name_actor
from memory.values import Actor

log = structlog.get_logger(__name__)


@transaction.atomic
def revoke_api_key(api_key: ApiKey, *, by: Actor | None = None) -> bool:
    """End a key for good; web processes notice within 5 seconds. Return whether it was still active."""
    name_actor(by)
    changed = ApiKey.objects.filter(pk=api_key.pk, revoked_at__isnull=True).update(revoked_at=Now())
    if changed:
        log.info("api_key_revoked", api_key_id=str(api_key.pk), by=by.label if by else "")
    return bool(changed)
