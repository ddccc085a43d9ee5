"""Who is asking: `Authorization: Bearer <API key>` (reliability D9)."""

import hashlib
import hmac
import math
import threading
import time
from datetime import timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db import InterfaceError, OperationalError
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, NotAuthenticated
from rest_framework.request import Request

from memory.projects.credentials import Credential, parse_token
from memory.projects.models import ApiKey

log = structlog.get_logger(__name__)

REFUSED = "This API key is unknown, revoked or expired. Ask the operator for a new one."
_NO_SECRET = hashlib.sha256(b"no such key").hexdigest()
_MAX_CACHED = 1024


class VerifiedKeys:
    """Keys proven a moment ago, so that most requests need no query.

    An entry lives for ERL_API_KEY_CACHE_SECONDS (at most 5 by the requirement), which bounds how long a revoked key
    goes on working and how long an edit of its project goes unnoticed; it ends with its key. Tokens are held as hashes.
    """

    def __init__(self) -> None:
        self._entries: dict[bytes, tuple[ApiKey, float, float]] = {}
        self._lock = threading.Lock()

    def find(self, token: str) -> ApiKey | None:
        with self._lock:
            entry = self._entries.get(_digest(token))
        if entry is None:
            return None
        api_key, added_at, ends_at = entry
        now = time.monotonic()
        return api_key if now - added_at < settings.ERL_API_KEY_CACHE_SECONDS and now < ends_at else None

    def add(self, token: str, api_key: ApiKey, *, left: timedelta | None) -> None:
        """Remember a key that may be used for so much longer; None stands for no end."""
        now = time.monotonic()
        with self._lock:
            if len(self._entries) >= _MAX_CACHED:
                self._entries.clear()
            ends_at = math.inf if left is None else now + left.total_seconds()
            self._entries[_digest(token)] = (api_key, now, ends_at)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()


verified_keys = VerifiedKeys()


class ApiKeyAuthentication(BaseAuthentication):
    """Turns a bearer token into `request.auth`, the ApiKey with its project. `request.user` stays None."""

    realm = "erl"

    def authenticate(self, request: Request) -> tuple[None, ApiKey] | None:
        scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").strip().partition(" ")
        if not scheme:
            return None
        if scheme.lower() != "bearer":
            raise AuthenticationFailed("Send the API key as `Authorization: Bearer <key>`.")
        api_key = self._verify(token.strip())
        structlog.contextvars.bind_contextvars(project=api_key.project.slug, client=api_key.client)
        _note_use(api_key)
        return None, api_key

    def authenticate_header(self, request: Request) -> str:
        invalid = "HTTP_AUTHORIZATION" in request.META
        return f'Bearer realm="{self.realm}"' + (', error="invalid_token"' if invalid else "")

    def _verify(self, token: str) -> ApiKey:
        credential = parse_token(token)
        if credential is None:  # a typing error or a guess: not worth a query
            log.info("api_key_refused", reason="malformed")
            raise AuthenticationFailed("This is not an API key of ours. Check that it was copied whole.")
        api_key = verified_keys.find(token)
        if api_key is None:
            api_key, left = _load(credential)
            verified_keys.add(token, api_key, left=left)
        return api_key


def key_of(request: Request) -> ApiKey:
    """Return the key a request was authenticated with; permissions have seen to it that there is one."""
    api_key: Any = request.auth
    if not isinstance(api_key, ApiKey):
        raise NotAuthenticated
    return api_key


def find_usable_keys(prefix: str) -> QuerySet[Any]:
    """Return the key of a prefix with its project and `left`, for how much longer it may be used, None without end."""
    usable = ApiKey.objects.usable().select_related("project")
    return usable.annotate(left=F("expires_at") - Now()).filter(prefix=prefix)


def _load(credential: Credential) -> tuple[ApiKey, timedelta | None]:
    """Return a key and for how much longer it may be used, both by the clock of the database."""
    api_key: Any = find_usable_keys(credential.prefix).first()  # with an annotation that the type does not know
    # Compared also where there is no row, so that the time tells nothing about which prefixes exist.
    expected = api_key.secret_sha256 if api_key else _NO_SECRET
    if not hmac.compare_digest(credential.secret_sha256, expected) or api_key is None:
        log.info("api_key_refused", reason="unknown", prefix=credential.prefix)
        raise AuthenticationFailed(REFUSED)
    return api_key, api_key.left


def _note_use(api_key: ApiKey) -> None:
    """Keep `last_used_at` true to the minute. One process asks at most once a minute, the condition settles races."""
    now = timezone.now()
    minute = timedelta(minutes=1)
    if api_key.last_used_at is not None and api_key.last_used_at > now - minute:
        return
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lte=Now() - minute)
    try:
        ApiKey.objects.filter(stale, pk=api_key.pk).update(last_used_at=Now())
    except (OperationalError, InterfaceError) as error:  # not worth refusing a key that was proven a moment ago
        log.warning("key_use_not_noted", error=type(error).__name__)
        return
    api_key.last_used_at = now


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
