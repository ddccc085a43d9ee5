"""Fields that say of a column that it holds text of people and agents, which an erasure has to reach.

In the database they are what they derive from. A test finds the columns that can hold text and belong to none of these
fields, and another writes into every such column, erases the run and looks for it (tests/security/test_stored_text.py).
"""

from collections.abc import Iterator
from typing import Any, TypeVar

from django.apps import apps
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.search import SearchVectorField
from django.db import models

# Why an erasure leaves a text
BY_PEOPLE = "people wrote it, about something that stays"
SHARED = "others reported it too, or a person approved it; only a person can judge what it says about one run"
FIGURES = "figures, and names of task families, but no tasks or steps"
OF_A_USER = "whose conversation it is, which stays when one run in it is erased"
OF_CHANGES = "why a change was proposed or decided, and what a check of it found"


_Set = TypeVar("_Set")
_Get = TypeVar("_Get")


class TextLifetime:
    """Text that is erased with the run that it comes from, unless `kept` says why it stays."""

    column_type: str  # as migrations name it

    def __init__(self, *args: Any, kept: str = "", **kwargs: Any) -> None:
        self.kept = kept
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> Any:
        # As the field it derives from, so that no migration knows this class.
        name, _, args, kwargs = super().deconstruct()  # type: ignore[misc]  # of the field
        return name, self.column_type, args, kwargs


class StoredText(TextLifetime, models.TextField[_Set, _Get]):
    column_type = "django.db.models.TextField"


class StoredChars(TextLifetime, models.CharField[_Set, _Get]):
    column_type = "django.db.models.CharField"


class StoredJson(TextLifetime, models.JSONField[_Set, _Get]):
    column_type = "django.db.models.JSONField"


class StoredBytes(TextLifetime, models.BinaryField[_Set, _Get]):
    column_type = "django.db.models.BinaryField"


class StoredArray(TextLifetime, ArrayField[_Set, _Get]):
    column_type = "django.contrib.postgres.fields.ArrayField"


# Of Django's own tables; entries of the admin about a run are cleared, and sessions end after eight hours
OTHERS = {
    ("django_admin_log", "object_repr"): "",
    ("django_admin_log", "change_message"): "",
    ("django_session", "session_data"): "messages a page has not shown yet",
}


def find_stored_text() -> Iterator[tuple[str, str, str]]:
    """Yield each column with text of people and agents: its table, its name, and why an erasure leaves it, or ""."""
    for model in apps.get_models(include_auto_created=True):
        for field in model._meta.local_fields:
            if isinstance(field, (TextLifetime, SearchVectorField)):
                yield model._meta.db_table, field.column, getattr(field, "kept", "")
    yield from ((*column, kept) for column, kept in OTHERS.items())
