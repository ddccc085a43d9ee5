"""Check that numeric settings are within their limits."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from memory.limits import MAX_RETENTION_DAYS, MAX_TOP_K

# Name, minimum, maximum
LIMITS: tuple[tuple[str, float, float], ...] = (
    ("ERL_PROXY_COUNT", 0, 10),
    ("ERL_API_MAX_REQUEST_BYTES", 1_024, 64 * 1024 * 1024),
    ("ERL_RETENTION_DAYS", 0, MAX_RETENTION_DAYS),
    ("ERL_RETRIEVE_MAX_PER_SOURCE", 0, MAX_TOP_K),
    ("ERL_RETRIEVE_MEMORY_MB", 0, 16_384),
    ("ERL_API_MAX_IN_FLIGHT", 0, 1000),
    ("ERL_CONSOLIDATE_EVERY", 0, 1_000_000),
)


@register("limits")
def check_limits(**kwargs: Any) -> list[CheckMessage]:
    """Report numeric settings that are out of range."""
    return [
        Error(
            f"{name} is {getattr(settings, name)}.",
            hint=f"Set it to a number from {minimum:,} to {maximum:,}.",
            id="erl.limits.E001",
        )
        for name, minimum, maximum in LIMITS
        if not minimum <= getattr(settings, name) <= maximum
    ]
