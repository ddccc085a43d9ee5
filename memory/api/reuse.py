"""Serializers made once instead of once a request.

Making one copies or derives every field: 1 to 2 ms of CPU for a trajectory, more than reading or writing it takes.
Reading and writing themselves keep nothing in the serializer, so that threads may share one.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

from rest_framework.serializers import Serializer


def read_body(serializer_class: type[Serializer[Any]], body: Any, *, partial: bool = False) -> dict[str, Any]:
    """Return what a body says.

    Raises:
        rest_framework.exceptions.ValidationError: it says something else than the serializer reads.
    """
    values: dict[str, Any] = _shared(serializer_class, partial).run_validation(body)
    return values


def represent(serializer_class: type[Serializer[Any]], row: Any) -> dict[str, Any]:
    """Return a row as clients read it."""
    members: dict[str, Any] = _shared(serializer_class, False).to_representation(row)
    return members


def represent_all(serializer_class: type[Serializer[Any]], rows: Iterable[Any] | None) -> list[dict[str, Any]]:
    """Return rows as clients read them."""
    write = _shared(serializer_class, False).to_representation
    return [write(row) for row in rows or ()]


@cache
def _shared(serializer_class: type[Serializer[Any]], partial: bool) -> Serializer[Any]:
    return serializer_class(partial=partial)
