"""Hand out a credential."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from django.db import transaction

from memory.credentials import mint_credential
from memory.models import ApiKey, Project
from memory.services.name_actor import name_actor
from memory.values import Actor

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
