"""Insert a row unless a unique key of it is taken: one statement, no savepoint, and no SQL compiled for each row."""

from functools import cache
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import NOT_PROVIDED, AutoField, Field, Model
from django.db.models.expressions import DatabaseDefault

NOTHING: dict[str, str] = {}


def insert_once(row: Model, *, made: dict[str, str] = NOTHING) -> bool:
    """Insert a row and return whether it is new; it is not where a unique key is taken.

    It waits for a transaction that is taking the key, and the caller's transaction stays usable either way.

    Args:
        made: SQL of what the database makes, by field: {"created_at": "now()"}. It is set on a new row.
    """
    # A field that is left to the database holds a marker of Django's, which is no value to send.
    made = made | {
        name: "DEFAULT" for name in _find_defaults(type(row)) if isinstance(getattr(row, name), DatabaseDefault)
    }
    statement, fields = _write_insert(type(row), tuple(made.items()))
    here = connections[DEFAULT_DB_ALIAS]  # looked up once: `connection` does so at every attribute
    values = [field.get_db_prep_save(field.pre_save(row, add=True), here) for field in fields]
    with here.cursor() as cursor:
        cursor.execute(statement, values)
        if not cursor.rowcount:
            return False
        if made:
            for name, value in zip(made, cursor.fetchone(), strict=True):
                setattr(row, name, value)
    # As after `save()`, so that a later save updates the row.
    row._state.adding, row._state.db = False, DEFAULT_DB_ALIAS
    return True


@cache
def _find_defaults(model: type[Model]) -> list[str]:
    """Return the fields that the database may fill in."""
    return [field.name for field in model._meta.concrete_fields if field.db_default is not NOT_PROVIDED]


@cache
def _write_insert(model: type[Model], made: tuple[tuple[str, str], ...]) -> tuple[str, list["Field[Any, Any]"]]:
    """Return the statement, and the fields whose values it takes."""
    meta, expressions = model._meta, dict(made)
    fields = [
        field
        for field in meta.concrete_fields
        if not (field.generated or field.name in expressions or isinstance(field, AutoField))
    ]
    columns = [f'"{field.column}"' for field in fields]
    by_name = {field.name: field.column for field in meta.concrete_fields}
    made_columns = [f'"{by_name[name]}"' for name in expressions]
    statement = (
        f'INSERT INTO "{meta.db_table}" ({", ".join([*columns, *made_columns])})'  # noqa: S608 - names of a model
        f" VALUES ({', '.join([*['%s'] * len(columns), *expressions.values()])}) ON CONFLICT DO NOTHING"
    )
    return f"{statement} RETURNING {', '.join(made_columns)}" if made else statement, fields
