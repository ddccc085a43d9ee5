"""Hand out a credential."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from memory.projects.actors import Actor
from memory.projects.audit_actor import name_actor
from memory.projects.credentials import mint_credential
from memory.projects.models import ApiKey, Project

log = structlog.get_logger(__name__)

# What an agent needs. Not `review` (an agent may not approve its own lessons) and not `evaluate` (it costs money).
AGENT_SCOPES: tuple[str, ...] = (
    ApiKey.Scope.TRAJECTORIES_READ,
    ApiKey.Scope.TRAJECTORIES_WRITE,
    ApiKey.Scope.HEURISTICS_READ,
    ApiKey.Scope.HEURISTICS_WRITE,
    ApiKey.Scope.RETRIEVE,
    ApiKey.Scope.REFLECT,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewApiKey:
    """A key at the only moment its token is known."""

    api_key: ApiKey
    token: str = field(repr=False)


@transaction.atomic
def create_api_key(
    project: Project,
    *,
    client: str,
    scopes: Iterable[str] = AGENT_SCOPES,
    expires_at: datetime | None = None,
    by: Actor | None = None,
    owner_id: int | None = None,
) -> NewApiKey:
    """Make a key of `client` in `project`. Only a hash is kept: show the token now, nobody can later.

    Args:
        owner_id: the account whose eyes its decisions count as; None stands for the person who makes it, if any.
    """
    owner_id = owner_id or (by.user_id if by else None)
    name_actor(by)
    credential = mint_credential()
    api_key = ApiKey.objects.create(
        project=project,
        client=client,
        prefix=credential.prefix,
        secret_sha256=credential.secret_sha256,
        scopes=sorted(set(scopes)),
        expires_at=expires_at,
        created_by_id=owner_id,
    )
    log.info(
        "api_key_created",
        api_key_id=str(api_key.pk),
        project=project.slug,
        client=client,
        scopes=api_key.scopes,
        by=by.label if by else "",
        owner_id=owner_id,
    )
    return NewApiKey(api_key=api_key, token=credential.token)


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


@transaction.atomic
def revoke_api_key(api_key: ApiKey, *, by: Actor | None = None) -> bool:
    """End a key for good; web processes notice within 5 seconds. Return whether it was still active."""
    name_actor(by)
    changed = ApiKey.objects.filter(pk=api_key.pk, revoked_at__isnull=True).update(revoked_at=Now())
    if changed:
        log.info("api_key_revoked", api_key_id=str(api_key.pk), by=by.label if by else "")
    return bool(changed)
