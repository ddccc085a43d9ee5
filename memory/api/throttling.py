"""How often a key may send requests (reliability A13, D13).

The broker's server counts requests, atomically and for all processes together. While it does not answer, each process
counts for itself: no client is locked out, and the limit is higher, at most by the number of processes.
"""

import math
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import structlog
from django.conf import settings
from django.core.cache.backends.locmem import LocMemCache
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from memory.api.errors import ErrorCode, Refusal

if TYPE_CHECKING:
    from redis import Redis

log = structlog.get_logger(__name__)

SOCKET_SECONDS = 0.1  # one request waits so long each time the server is tried
REST_SECONDS = 10.0  # after a failure, until the server is tried again
FAILED = "failed"
_REDIS_SCHEMES = ("redis://", "rediss://", "unix://")


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """How many requests a key may send in a scope, and in which time."""

    scope: str
    requests: int
    seconds: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """How much of its limit a client has used."""

    limit: Limit
    used: int
    reset_seconds: int

    @property
    def allowed(self) -> bool:
        return self.used <= self.limit.requests

    @property
    def headers(self) -> dict[str, str]:
        """The headers that tell the client (draft-ietf-httpapi-ratelimit-headers-10)."""
        left = max(self.limit.requests - self.used, 0)
        headers = {
            "RateLimit-Policy": f'"{self.limit.scope}";q={self.limit.requests};w={self.limit.seconds}',
            "RateLimit": f'"{self.limit.scope}";r={left};t={self.reset_seconds}',
        }
        # Retry-After only with a 429; on a success it would tell the client to slow down.
        return headers if self.allowed else headers | {"Retry-After": str(self.reset_seconds)}


class Counters:
    """Counts in Redis or Valkey, or in this process while that does not answer."""

    def __init__(self, *, socket_seconds: float = SOCKET_SECONDS) -> None:
        self._socket_seconds = socket_seconds
        self.forget()

    def forget(self) -> None:
        """Use the server again, and start the counts of this process from zero."""
        self._resting_until = 0.0
        self._servers: dict[str, Redis] = {}
        self._here = LocMemCache("rate limits", {"OPTIONS": {"MAX_ENTRIES": 10_000}})
        self._here.clear()

    def count(self, name: str, limit: Limit) -> Standing:
        """Count one request of a client. Windows begin at multiples of their length, for all clients together."""
        number, passed = divmod(time.time(), limit.seconds)
        key = f"erl:rate:{name}:{number:.0f}"
        import redis  # takes a tenth of a second, which few processes need

        used = None
        # While the server rests no request waits for its timeout.
        if time.monotonic() >= self._resting_until:
            try:
                used = self._count_at_server(key, limit.seconds)
            # The client raises the last two where a connection was closed under it, and would use it again.
            except (redis.RedisError, OSError, ValueError, AttributeError) as error:
                self._servers = {}
                self._resting_until = time.monotonic() + REST_SECONDS
                log.warning("rate_limits_counted_here", error=type(error).__name__)
        if used is None:
            used = self._count_here(key, limit.seconds)
        return Standing(limit=limit, used=used, reset_seconds=math.ceil(limit.seconds - passed))

    def _count_at_server(self, key: str, seconds: int) -> int:
        # One trip: Django's cache would ask whether there is the key, and then count it
        with self._find_server().pipeline(transaction=False) as steps:
            steps.incr(key)
            # So that the counts of past windows go by themselves.
            steps.expire(key, seconds)
            used, _ = steps.execute()
        return int(used)

    def _count_here(self, key: str, seconds: int) -> int:
        self._here.add(key, 0, timeout=seconds)  # where it is new, also for two threads at once
        return int(self._here.incr(key))

    def _find_server(self) -> "Redis":
        import redis

        url = find_server_url()
        if url is None:
            raise redis.ConnectionError("The broker is not a Redis server.")
        if url not in self._servers:
            self._servers[url] = redis.Redis.from_url(
                url, socket_timeout=self._socket_seconds, socket_connect_timeout=self._socket_seconds
            )
        return self._servers[url]


counters = Counters()


def find_server_url() -> str | None:
    """Return the address of the broker's Redis or Valkey, or None where the broker is another kind of server.

    Celery writes `redis+socket` where redis-py writes `unix`. Sentinels and the brokers of tests give None.
    """
    url: str = settings.CELERY_BROKER_URL
    if url.startswith("redis+socket://"):
        return f"unix://{urlsplit(url).path}"
    return url if url.startswith(_REDIS_SCHEMES) else None


@lru_cache(maxsize=8)
def read_limits(lines: tuple[str, ...]) -> dict[str, Limit]:
    """Read ERL_RATE_LIMITS.

    Raises:
        ValueError: a line is not scope=requests/seconds with numbers above 0.
    """
    limits = {}
    for line in lines:
        scope, _, rate = line.partition("=")
        requests, _, seconds = rate.partition("/")
        limit = Limit(scope=scope.strip(), requests=int(requests), seconds=int(seconds))
        if not limit.scope or limit.requests < 1 or limit.seconds < 1:
            raise ValueError(f"{line!r} limits nothing.")
        limits[limit.scope] = limit
    return limits


class ScopeThrottle(BaseThrottle):
    """Limits the requests of one key in the scope of the view, where that scope has a limit."""

    def allow_request(self, request: Request, view: Any) -> bool:
        limit = read_limits(tuple(settings.ERL_RATE_LIMITS)).get(view.scope)
        if limit is None:
            return True
        standing = counters.count(f"{request.auth.pk}:{limit.scope}", limit)
        view.rate_headers = standing.headers
        if not standing.allowed:
            raise refuse(standing)
        return True


def count_failed_key(address: str) -> None:
    """Count a refused key for the address that sent it.

    Raises:
        Refusal: the address sent too many, and has to wait.
    """
    limit = read_limits(tuple(settings.ERL_RATE_LIMITS)).get(FAILED)
    if limit is not None and not (standing := counters.count(f"{FAILED}:{address}", limit)).allowed:
        raise refuse(standing)


def refuse(standing: Standing) -> Refusal:
    """Tell the client when it may send requests again."""
    limit = standing.limit
    return Refusal(
        ErrorCode.RATE_LIMITED,
        f"This is more than {limit.requests} requests in {limit.seconds} seconds ({limit.scope}). Send it again in "
        f"{standing.reset_seconds} seconds.",
        headers=standing.headers,
    )
