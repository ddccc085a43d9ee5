"""What of the tables names its project: the column by which Citus would distribute them (docs/scaling.md)."""

from collections.abc import Iterator, Sequence

from django.db import models

from tests.security.any_rows import project_tables

PROJECT = "project_id"
# Tables of projects whose rows name something of the project instead, and what that is.
BY_PARENT = {"memory_project": "the project itself"}
# Keys that have to be unique over all projects, and why.
ACROSS_PROJECTS = {
    ("memory_project", ("slug",)): "names a project in addresses; a table that every shard has a copy of",
    ("memory_apikey", ("prefix",)): "finds the project of a request; a table that every shard has a copy of",
}


def find_tables_without_project() -> set[str]:
    """Return the tables of projects that have no column for it."""
    return {
        model._meta.db_table
        for model in project_tables()
        if PROJECT not in {field.column for field in model._meta.local_concrete_fields}
    }


def find_keys() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the table and columns of each unique key but primary keys of one column, which are random."""
    for model in project_tables():
        columns = {field.name: field.column for field in model._meta.concrete_fields}
        primary = [field.name for field in model._meta.pk_fields]
        own = [field for field in model._meta.local_concrete_fields if field.unique and not field.primary_key]
        keys: list[Sequence[str]] = [(field.name,) for field in own]
        keys += [primary] if len(primary) > 1 else []
        keys += [
            constraint.fields
            for constraint in model._meta.constraints
            if isinstance(constraint, models.UniqueConstraint) and constraint.fields
        ]
        for key in [*keys, *model._meta.unique_together]:
            yield model._meta.db_table, tuple(columns[name] for name in key)


def lies_in_project(table: str, columns: tuple[str, ...]) -> bool:
    """Tell whether a key names a project, or a row that lies in one."""
    (model,) = (model for model in project_tables() if model._meta.db_table == table)
    of_projects = {other._meta.db_table for other in project_tables()}
    fields = {field.column: field for field in model._meta.concrete_fields}
    return PROJECT in columns or any(
        fields[column].is_relation and fields[column].related_model._meta.db_table in of_projects  # type: ignore[union-attr]
        for column in columns
    )
