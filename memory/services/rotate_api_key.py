"""Replace a credential without a gap."""

from datetime import timedelta

import structlog
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from memory.models import ApiKey
from memory.services.create_api_key import NewApiKey, create_api_key
from memory.services.name_actor import name_actor
from memory.values import Actor

log = structlog.get_logger(__name__)


@transaction.atomic
def rotate_api_key(api_key: ApiKey, *, overlap: timedelta = timedelta(hours=24), by: Actor | None = None) -> NewApiKey:
    """Make a second key for the same client, and let the first one end after `overlap`.

    Idempotency records belong to the client, not to the key, so a retry across the change replays as before.
    """
    name_actor(by)
    new = create_api_key(
        api_key.project,
        client=api_key.client,
        scopes=api_key.scopes,
        expires_at=api_key.expires_at,
        by=by,
        owner_id=api_key.created_by_id,  # the owner stays; whoever replaces a key without one becomes it
    )
    end = Now() + overlap
    ApiKey.objects.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=end), pk=api_key.pk).update(expires_at=end)
    log.info("api_key_rotated", api_key_id=str(api_key.pk), new_api_key_id=str(new.api_key.pk))
    return new
