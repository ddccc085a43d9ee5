"""The URL of the broker for redis-py, for pings and small shared values."""

from urllib.parse import urlsplit

from django.conf import settings

_SCHEMES = ("redis://", "rediss://", "unix://")


def find_server_url() -> str | None:
    """Return the URL of the broker, or None if it is not a Redis or Valkey server that redis-py can reach directly.

    Celery's `redis+socket` URLs become `unix`. Sentinels and in-memory brokers give None.
    """
    url: str = settings.CELERY_BROKER_URL
    if url.startswith("redis+socket://"):
        return f"unix://{urlsplit(url).path}"
    return url if url.startswith(_SCHEMES) else None
