"""The broker's server as a place to keep small things in: its address as redis-py spells it."""

from urllib.parse import urlsplit

from django.conf import settings

_SCHEMES = ("redis://", "rediss://", "unix://")


def find_server_url() -> str | None:
    """Return the address of the broker's Redis or Valkey, or None where the broker is reached in another way.

    Celery's `redis+socket` addresses are `unix` to redis-py. Sentinels, and the brokers of tests, are None.
    """
    url: str = settings.CELERY_BROKER_URL
    if url.startswith("redis+socket://"):
        return f"unix://{urlsplit(url).path}"
    return url if url.startswith(_SCHEMES) else None
