"""What the exact filters of lists are made of. A view refuses parameters that its filter set does not name."""

from datetime import UTC, datetime
from typing import Any

from django_filters import rest_framework as filters

from memory.redaction import redact


class ExactText(filters.CharFilter):  # type: ignore[misc]
    """Compares whole texts in the form in which they are stored: without secrets and personal data."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"strip": False} | options)

    def filter(self, queryset: Any, value: str) -> Any:
        return super().filter(queryset, redact(value).value)


class Moment(filters.IsoDateTimeFilter):  # type: ignore[misc]
    """A time in any zone. PostgreSQL gets it in UTC: it refuses zones that Python reads, such as +23:00."""

    def filter(self, queryset: Any, value: datetime | None) -> Any:
        if value is not None:
            try:
                value = value.astimezone(UTC)
            except OverflowError:  # in the first or last hours of all years
                value = value.replace(tzinfo=UTC)
        return super().filter(queryset, value)
