"""Check that numeric settings are within their limits."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register

from memory.limits import MAX_TOP_K

# Name, minimum, maximum
LIMITS: tuple[tuple[str, float, float], ...] = (
    ("ERL_API_PORT", 1, 65_535),
    ("ERL_PROXY_COUNT", 0, 10),
    ("ERL_API_MAX_REQUEST_BYTES", 1_024, 64 * 1024 * 1024),
    ("ERL_IDEMPOTENCY_HOURS", 1, 24 * 365),
    ("ERL_ANSWER_RETENTION_DAYS", 0, 36_500),
    ("ERL_EVENT_RETENTION_DAYS", 0, 36_500),
    ("ERL_EMBEDDER_DIMENSIONS", 1, 4_000),  # the most a halfvec index supports
    ("ERL_RETRIEVE_MAX_PER_SOURCE", 0, MAX_TOP_K),
    ("ERL_RETRIEVE_MEMORY_MB", 0, 16_384),
    ("ERL_API_MAX_WAIT_SECONDS", 0, 60),
    ("ERL_API_MAX_IN_FLIGHT", 0, 1000),
    ("ERL_REFLECTION_LEASE_SECONDS", 1, 3_600),
    ("ERL_REFLECTION_MAX_ATTEMPTS", 1, 100),
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
