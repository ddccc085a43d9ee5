"""Looking up a single row."""

from typing import TypeVar

from django.core.exceptions import ObjectDoesNotExist
from django.db.models import Model, QuerySet

Row = TypeVar("Row", bound=Model)


def find_row(rows: QuerySet[Row]) -> Row | None:
    """Return the only row, or None if there is none. `first()` would put them in order, which costs more than to ask.

    Raises:
        MultipleObjectsReturned: there are several.
    """
    try:
        return rows.get()
    except ObjectDoesNotExist:
        return None
