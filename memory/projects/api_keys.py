"""API keys: `erl_live_<8 prefix>_<43 secret>_<6 checksum>`, how they are made, replaced and revoked (reliability D9).

The prefix finds the row, the secret proves the holder, and the checksum lets scanners and our own redactor tell a
real key from a look-alike without a query.
"""

import hashlib
import re
import secrets
import string
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from memory.errors import InvalidInput, NotAllowed
from memory.projects.access import has_role, may_review
from memory.projects.actors import Actor, name_actor
from memory.projects.models import ApiKey, Project, ProjectMembership, RuleChange
from memory.projects.rule_changes import let_key_review, requires_two

log = structlog.get_logger(__name__)

# What an agent needs. It decides nothing (`review`, `release`, `approve`, `import`), defines no agents and tools
# (`agents`), and starts nothing that costs money (`evaluate`, `run`).
AGENT_SCOPES: tuple[str, ...] = (
    ApiKey.Scope.TRAJECTORIES_READ,
    ApiKey.Scope.TRAJECTORIES_WRITE,
    ApiKey.Scope.HEURISTICS_READ,
    ApiKey.Scope.HEURISTICS_WRITE,
    ApiKey.Scope.RETRIEVE,
    ApiKey.Scope.REFLECT,
)
# What only people who may review can give away: with these a key decides, deploys, lets agents act, or brings in what
# was decided elsewhere.
DECIDING_SCOPES: tuple[str, ...] = (
    ApiKey.Scope.REVIEW,
    ApiKey.Scope.RELEASE,
    ApiKey.Scope.APPROVE,
    ApiKey.Scope.IMPORT,
)
_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_TOKEN = re.compile(r"erl_live_([0-9A-Za-z]{8})_([0-9A-Za-z]{43})_([0-9A-Za-z]{6})")


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Credential:
    """The parts of a key as a client sends it. Has no repr, so that it cannot end up in a log."""

    prefix: str
    secret: str

    @property
    def token(self) -> str:
        body = f"erl_live_{self.prefix}_{self.secret}"
        return f"{body}_{_checksum(body)}"

    @property
    def secret_sha256(self) -> str:
        """The hash that is stored. One round is enough, because 256 random bits cannot be guessed."""
        return hashlib.sha256(self.secret.encode()).hexdigest()


def mint_credential() -> Credential:
    """Make a new credential from the system's random source (43 of 62 symbols are 256 bits)."""
    return Credential(prefix=_symbols(8), secret=_symbols(43))


def parse_token(token: str) -> Credential | None:
    """Return the parts of a key, or None if its form or checksum is wrong."""
    match = _TOKEN.fullmatch(token)
    # A mistyped key is refused here, without a query.
    if match is None or _checksum(token.rpartition("_")[0]) != match[3]:
        return None
    return Credential(prefix=match[1], secret=match[2])


def check_may_give(user: Any, project: Project, scopes: Iterable[str]) -> None:
    """Refuse a person who would get more rights by a key than they have.

    Raises:
        NotAllowed: the person is no operator of the project, or the scopes decide and the person may not review there.
    """
    if not (user.has_perm("memory.change_apikey") and has_role(user, project.pk, ProjectMembership.Role.OPERATOR)):
        raise NotAllowed(f"You are not an operator of the project {project}, so no key was made or replaced.")
    deciding = sorted({*scopes} & {*DECIDING_SCOPES})
    if deciding and not may_review(user, project.pk):
        raise NotAllowed(
            f"Only people who may review in the project {project} can make or replace a key for {', '.join(deciding)}. "
            "Ask one of its reviewers, or choose other scopes."
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class NewApiKey:
    """A new key, with its token, which is known only now."""

    api_key: ApiKey
    token: str = field(repr=False)
    request: RuleChange | None = None  # another person has to confirm that it may review


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
    """Make a key of `client` in `project`. Only a hash is kept, so show the token now.

    Where the project requires two reviewers, a key that is to review gets that scope when another reviewer confirms it,
    unless it replaces a key of the same client and owner that has it.

    Args:
        owner_id: the account that its decisions count as; None means the person who makes it, if any.

    Raises:
        NotAllowed: two reviewers are required, and the key is made for no person who may review.
        InvalidInput: two reviewers are required, and `review` is the only scope.
    """
    owner_id = owner_id or (by.user_id if by else None)
    name_actor(by)
    wanted = set(scopes)
    to_confirm = ApiKey.Scope.REVIEW in wanted and requires_two(project) and not _may_review(project, client, owner_id)
    if to_confirm:
        wanted -= {ApiKey.Scope.REVIEW}
    if not wanted:
        raise InvalidInput({"scopes": ["Add another scope, which the key has until a reviewer confirms this one."]})
    credential = mint_credential()
    api_key = ApiKey.objects.create(
        project=project,
        client=client,
        prefix=credential.prefix,
        secret_sha256=credential.secret_sha256,
        scopes=sorted(wanted),
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
    request = let_key_review(api_key, by=by or Actor(label="")) if to_confirm else None
    return NewApiKey(api_key=api_key, token=credential.token, request=request)


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
        owner_id=api_key.created_by_id,  # the owner stays; a person who replaces a key without an owner becomes it
    )
    end = Now() + overlap
    # A key that ends sooner keeps its end: a replacement must not extend it.
    ApiKey.objects.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=end), pk=api_key.pk).update(expires_at=end)
    log.info("api_key_rotated", api_key_id=str(api_key.pk), new_api_key_id=str(new.api_key.pk))
    return new


@transaction.atomic
def revoke_api_key(api_key: ApiKey, *, by: Actor | None = None) -> bool:
    """End a key for good; web processes notice within 5 seconds. Return whether it was still active."""
    name_actor(by)
    # The condition keeps the first time where two people revoke it.
    changed = ApiKey.objects.filter(pk=api_key.pk, revoked_at__isnull=True).update(revoked_at=Now())
    if changed:
        log.info("api_key_revoked", api_key_id=str(api_key.pk), by=by.label if by else "")
    return bool(changed)


def find_deciding_keys(user_id: int, project: Project | None) -> list[ApiKey]:
    """Return the keys that decide as a person, in a project or, for None, in all."""
    keys = ApiKey.objects.usable().filter(created_by=user_id, scopes__overlap=[*DECIDING_SCOPES])
    if project is not None:
        keys = keys.filter(project=project)
    return list(keys.select_related("project").order_by("project__slug", "client"))


def _may_review(project: Project, client: str, owner_id: int | None) -> bool:
    keys = ApiKey.objects.usable().filter(project=project, client=client, created_by=owner_id)
    return keys.filter(scopes__contains=[ApiKey.Scope.REVIEW]).exists()


def _symbols(count: int) -> str:
    # `secrets`, not `random`, whose next values can be computed from earlier ones.
    return "".join(secrets.choice(_ALPHABET) for _ in range(count))


def _checksum(text: str) -> str:
    number = zlib.crc32(text.encode())
    digits = []
    for _ in range(6):  # 62**6 is more than 2**32
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
