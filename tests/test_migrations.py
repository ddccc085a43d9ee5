"""The last release keeps running while the migrations of the next one are applied (reliability C5)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.postgres.operations import (
    AddConstraintNotValid,
    AddIndexConcurrently,
    RemoveIndexConcurrently,
    ValidateConstraint,
)
from django.db import DatabaseError, connection, migrations, models, transaction
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.models.expressions import Value

from memory.projects.models import Project
from tests.factories import make_project
from tests.security.any_rows import APPS, SHARED, values_of

# The newest migrations of the last release, which runs while those after it are applied. Moved on at each release.
RELEASED = {"memory": "0003_groups", "reflection": "0003_groups", "agents": "0003_groups", "evaluation": "0003_groups"}
# Operations that remove something the last release still uses. Removals come a release later.
REMOVALS = (
    migrations.RemoveField,
    migrations.RenameField,
    migrations.DeleteModel,
    migrations.RenameModel,
    migrations.AlterModelTable,
)
# Operations that lock a table against reading until their transaction ends.
ALTERATIONS = (
    migrations.AddField,
    migrations.AlterField,
    migrations.AddConstraint,  # AddConstraintNotValid extends it
    migrations.RemoveConstraint,
)
# Functions and triggers, which are no rows.
DEFINITIONS = {path.read_text() for path in Path(settings.BASE_DIR).glob("*/sql/*.sql")}


def our_migrations() -> list[Migration]:
    """Every migration of ours, in the order of their names."""
    found = MigrationLoader(None, ignore_no_migrations=True).disk_migrations
    return [found[key] for key in sorted(found) if key[0] in APPS]


def is_new(migration: Migration) -> bool:
    """Tell whether the migration is newer than the last release."""
    return migration.name > RELEASED[migration.app_label]


def faults_of(migration: Migration) -> Iterator[str]:
    """Say what in a migration would break a running release or block it."""
    made = {each.name.lower() for each in migration.operations if isinstance(each, migrations.CreateModel)}
    for each in migration.operations:
        if isinstance(each, REMOVALS):
            yield f"{type(each).__name__} removes what the last release uses"
        table = getattr(each, "model_name", "").lower()
        if not is_new(migration) or table in made:
            continue
        if isinstance(each, migrations.AddField) and not _has_value(each.field):
            yield f"{table}.{each.name} has neither NULL nor db_default, so the last release cannot insert rows"
        if isinstance(each, migrations.AddIndex) and not isinstance(each, AddIndexConcurrently):
            yield f"{each.index.name} is built under a lock: use AddIndexConcurrently"
        if isinstance(each, AddIndexConcurrently | RemoveIndexConcurrently) and migration.atomic:
            yield "an index cannot be built concurrently in a transaction: atomic = False"
        if isinstance(each, migrations.AddConstraint) and not isinstance(each, AddConstraintNotValid):
            name = each.constraint.name  # type: ignore[attr-defined]
            yield f"{name} checks every row under a lock: use AddConstraintNotValid"
        if isinstance(each, migrations.AlterField) and _reads_every_row(migration, each):
            yield f"{table}.{each.name} changes its type or forbids NULL, so every row is read under a lock"
    altered = _altered(migration, made) if is_new(migration) and migration.atomic else set()
    if len(altered) > 1:
        yield f"it keeps one of {', '.join(sorted(altered))} locked while it waits for another: one in a migration"
    if altered:
        for each in filter(_works_on_rows, migration.operations):
            yield f"{type(each).__name__} keeps tables locked meanwhile: put it in a migration of its own"


def _altered(migration: Migration, made: set[str]) -> set[str]:
    """Return the models of the tables that the last release reads and that are altered."""
    alterations = [each for each in migration.operations if isinstance(each, ALTERATIONS)]
    return {each.model_name.lower() for each in alterations} - made  # type: ignore[union-attr]


def _works_on_rows(operation: Any) -> bool:
    if isinstance(operation, migrations.RunSQL):
        return operation.sql not in DEFINITIONS
    return isinstance(operation, migrations.RunPython | ValidateConstraint)


def _reads_every_row(migration: Migration, operation: migrations.AlterField) -> bool:
    loader = MigrationLoader(None, ignore_no_migrations=True)
    key = (migration.app_label, migration.name)
    # One that is not in the files comes after all that are.
    state = loader.project_state(key, at_end=False) if key in loader.graph.nodes else loader.project_state()
    before = state.models[migration.app_label, operation.model_name.lower()].fields[operation.name]
    after = operation.field
    has_other_type = not after.is_relation and before.db_type(connection) != after.db_type(connection)
    return has_other_type or (before.null and not after.null)


def _has_value(field: Any) -> bool:
    return bool(field.null or field.has_db_default() or field.many_to_many)


@pytest.mark.parametrize("migration", our_migrations(), ids=str)
def test_migration_lets_the_last_release_run(migration: Migration) -> None:
    assert list(faults_of(migration)) == []


@pytest.mark.parametrize("migration", our_migrations(), ids=str)
def test_migration_is_reversible(migration: Migration) -> None:
    assert [each for each in migration.operations if not each.reversible] == []


INDEX = models.Index(fields=["task_id"], name="some_index")
BAD: dict[str, Callable[[], Any]] = {
    "removes what": lambda: migrations.RemoveField("trajectory", "summary"),
    "neither NULL": lambda: migrations.AddField("trajectory", "mood", models.TextField(default="")),
    "AddIndexConcurrently": lambda: migrations.AddIndex("trajectory", INDEX),
    "atomic = False": lambda: AddIndexConcurrently("trajectory", INDEX),
    "AddConstraintNotValid": lambda: migrations.AddConstraint(
        "trajectory", models.CheckConstraint(condition=models.Q(score__gte=0), name="some_constraint")
    ),
    "changes its type": lambda: migrations.AlterField("trajectory", "summary", models.JSONField()),
    "forbids NULL": lambda: migrations.AlterField("trajectory", "started_at", models.DateTimeField()),
}


@pytest.mark.parametrize("said", BAD)
def test_check_notices_an_unsafe_migration(said: str) -> None:
    migration = Migration("9999_bad", "memory")
    migration.operations = [BAD[said]()]  # type: ignore[misc]

    assert any(said in fault for fault in faults_of(migration))


@pytest.mark.parametrize(
    "work",
    [
        lambda: migrations.RunSQL("UPDATE memory_trajectory SET summary = ''"),
        lambda: migrations.RunPython(migrations.RunPython.noop),
        lambda: ValidateConstraint("trajectory", "some_constraint"),
    ],
    ids=["statement", "function", "validation"],
)
def test_check_notices_work_on_rows_under_the_lock_of_a_table(work: Callable[[], Any]) -> None:
    migration = Migration("9999_bad", "memory")
    operations = [migrations.AddField("trajectory", "mood", models.TextField(null=True)), work()]
    migration.operations = operations  # type: ignore[misc]

    assert any("a migration of its own" in fault for fault in faults_of(migration))


def test_check_notices_a_table_that_stays_locked_while_another_is_waited_for() -> None:
    migration = Migration("9999_bad", "memory")
    operations = [migrations.AddField(table, "mood", models.TextField(null=True)) for table in ("project", "passage")]
    migration.operations = operations  # type: ignore[misc]

    assert any("one in a migration" in fault for fault in faults_of(migration))


@pytest.mark.parametrize(
    "field", [models.TextField(null=True), models.TextField(db_default=Value("")), models.IntegerField(db_default=0)]
)
def test_column_that_the_last_release_can_leave_out_is_safe(field: Any) -> None:
    migration = Migration("9999_good", "memory")
    migration.operations = [migrations.AddField("trajectory", "mood", field)]  # type: ignore[misc]

    assert list(faults_of(migration)) == []


def refused_to_the_last_release(project: Project) -> list[str]:
    """Write, read, change and delete a row of every table with the models of the last release."""
    state = MigrationLoader(connection).project_state(list(RELEASED.items()))
    refused = []
    made: dict[str, Any] = {"memory_project": project.pk}
    for model in state.apps.get_models():
        if (
            model._meta.app_label not in APPS
            or model._meta.proxy
            or model._meta.db_table in {"memory_project", *SHARED}
        ):
            continue
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL session_replication_role = replica")  # without foreign keys and triggers
                row = model._base_manager.create(**_whole_row(model, made, project))
                rows = model._base_manager.filter(pk=row.pk)
                assert rows.get() == row
                row.save(force_update=True)
                rows.delete()
        except DatabaseError as error:
            refused.append(f"{model._meta.db_table}: {error}")
    return refused


def _whole_row(model: type[models.Model], made: dict[str, Any], project: Project) -> dict[str, Any]:
    """Return a value for each column of a model, and of the model it extends."""
    values: dict[str, Any] = {}
    for part in (*model._meta.get_parent_list(), model):
        values |= values_of(part, made, project_id=project.pk, user_id=1)
    links = {link.attname for link in model._meta.parents.values() if isinstance(link, models.Field)}
    return {name: value for name, value in values.items() if name not in links}


@pytest.mark.django_db
def test_last_release_works_on_the_current_tables() -> None:
    assert refused_to_the_last_release(make_project()) == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    "change",
    ["ALTER TABLE memory_trajectory ADD COLUMN mood text NOT NULL", "ALTER TABLE memory_trajectory DROP summary"],
)
def test_check_notices_a_table_that_the_last_release_cannot_write(change: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(change)

    assert [each.split(":")[0] for each in refused_to_the_last_release(make_project())] == ["memory_trajectory"]
