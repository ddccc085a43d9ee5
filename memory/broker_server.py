"""Where the broker's Redis or Valkey server is, for counters and caches."""

from urllib.parse import urlsplit

from django.conf import settings

_SCHEMES = ("redis://", "rediss://", "unix://")


def find_server_url() -> str | None:
    """Return the address of the broker's Redis or Valkey, or None where the broker is another kind of server.

    Celery writes `redis+socket` where redis-py writes `unix`. Sentinels and the brokers of tests give None.
    """
    url: str = settings.CELERY_BROKER_URL
    if url.startswith("redis+socket://"):
        return f"unix://{urlsplit(url).path}"
    return url if url.startswith(_SCHEMES) else None
