"""Authenticate by `Authorization: Bearer <API key>` and check what the key may do (reliability D9)."""

import hashlib
import hmac
import math
import threading
import time
from datetime import timedelta
from typing import Any, NoReturn

import structlog
from django.db import InterfaceError, OperationalError
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from memory.api.errors import ErrorCode, Refusal
from memory.api.throttling import count_failed_key
from memory.projects.api_keys import parse_token
from memory.projects.models import ApiKey

log = structlog.get_logger(__name__)

_NO_SECRET = hashlib.sha256(b"no such key").hexdigest()
_MAX_CACHED = 1024
CACHE_SECONDS = 5.0  # how long a revoked key may still work; reliability D9 asks for no more


class VerifiedKeys:
    """Keys that were verified a moment ago, so that most requests need no query.

    An entry lives for CACHE_SECONDS, which bounds how long a revoked key
    keeps working and how long an edit of its project goes unnoticed; it ends with its key. Tokens are held as hashes.
    """

    def __init__(self) -> None:
        self._entries: dict[bytes, tuple[ApiKey, float, float]] = {}
        self._lock = threading.Lock()

    def find(self, digest: bytes) -> ApiKey | None:
        with self._lock:
            entry = self._entries.get(digest)
        if entry is None:
            return None
        api_key, added_at, ends_at = entry
        now = time.monotonic()
        return api_key if now - added_at < CACHE_SECONDS and now < ends_at else None

    def add(self, digest: bytes, api_key: ApiKey, *, left: timedelta | None) -> None:
        """Remember a key that may be used for this much longer; None means it has no end."""
        now = time.monotonic()
        with self._lock:
            # Forgetting all is simpler than finding the oldest; each key then costs one query again.
            if len(self._entries) >= _MAX_CACHED:
                self._entries.clear()
            ends_at = math.inf if left is None else now + left.total_seconds()
            self._entries[digest] = (api_key, now, ends_at)

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
            _refuse(request, "Send the API key as `Authorization: Bearer <key>`.")
        digest = hashlib.sha256(token.strip().encode()).digest()
        api_key = verified_keys.find(digest)
        if api_key is None:
            credential = parse_token(token.strip())
            if credential is None:  # a typing error or a guess: not worth a query
                log.info("api_key_refused", reason="malformed")
                _refuse(request, "This is not an API key of this server. Check that you copied all of it.")
            api_key = _load(credential.prefix)
            # Compared also where there is no row, so that the time does not tell which prefixes exist.
            expected = api_key.secret_sha256 if api_key else _NO_SECRET
            if not hmac.compare_digest(credential.secret_sha256, expected) or api_key is None:
                log.info("api_key_refused", reason="unknown", prefix=credential.prefix)
                _refuse(request, "This API key is unknown, revoked or expired. Ask the operator for a new one.")
            verified_keys.add(digest, api_key, left=api_key.left)
        structlog.contextvars.bind_contextvars(project=api_key.project.slug, client=api_key.client)
        _note_use(api_key)
        return None, api_key

    def authenticate_header(self, request: Request) -> str:
        invalid = "HTTP_AUTHORIZATION" in request.META
        return f'Bearer realm="{self.realm}"' + (', error="invalid_token"' if invalid else "")


class HasScope(BasePermission):
    """Lets a request through if its key has the scopes that the view asks for.

    OPTIONS only needs a key. A method that a view forgot to map to a scope is refused.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        if request.auth is None:
            return False  # DRF turns this into 401
        if request.method == "OPTIONS" or request.method not in view.allowed_methods:
            return True  # the latter is answered with 405
        if view.scope is None:
            return False
        api_key: Any = request.auth
        scopes = (view.scope, *view.further_scopes)
        lacking = next((scope for scope in scopes if scope not in api_key.scopes), None)
        if lacking is not None:
            needed = " ".join(scopes)
            raise Refusal(
                ErrorCode.MISSING_SCOPE,
                f"This needs the scope {lacking}, which the API key lacks. Ask the operator for a key that has it.",
                headers={"WWW-Authenticate": f'Bearer realm="erl", error="insufficient_scope", scope="{needed}"'},
            )
        return True


def _refuse(request: Request, detail: str) -> NoReturn:
    """Refuse a key; an address that sends many wrong keys is told to wait instead."""
    count_failed_key(request.META.get("REMOTE_ADDR", ""))
    raise AuthenticationFailed(detail)


def _load(prefix: str) -> Any:
    """Return the key of a prefix with its project and `left`, for how much longer it may be used; None without end.

    Both are by the clock of the database.
    """
    usable = ApiKey.objects.usable().select_related("project")
    return usable.annotate(left=F("expires_at") - Now()).filter(prefix=prefix).first()


def _note_use(api_key: ApiKey) -> None:
    """Keep `last_used_at` true to the minute. A process writes at most once a minute; the condition settles races."""
    now = timezone.now()
    minute = timedelta(minutes=1)
    if api_key.last_used_at is not None and api_key.last_used_at > now - minute:
        return
    stale = Q(last_used_at__isnull=True) | Q(last_used_at__lte=Now() - minute)
    try:
        ApiKey.objects.filter(stale, pk=api_key.pk).update(last_used_at=Now())
    except (OperationalError, InterfaceError) as error:  # not worth refusing a key that was just verified
        log.warning("key_use_not_noted", error=type(error).__name__)
        return
    api_key.last_used_at = now
