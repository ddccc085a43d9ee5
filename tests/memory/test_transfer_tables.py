"""What an export of a project holds is said of every table."""

import pytest
from django.db import connection

from memory.transfer.export import find_tables
from memory.transfer.tables import FAMILIES, LEFT_OUT, STEPS, TABLES, Update, close_families, find_columns


@pytest.mark.parametrize("name", TABLES)
def test_columns_that_are_redacted_are_exported(name: str) -> None:
    assert set(TABLES[name].redacted) <= {column.name for column in find_columns(name)}


@pytest.mark.django_db
def test_every_table_is_exported_or_said_to_stay() -> None:
    tables = set(connection.introspection.django_table_names(include_views=False)) - {"django_migrations"}

    assert tables == TABLES.keys() | LEFT_OUT.keys()
    assert not TABLES.keys() & LEFT_OUT.keys()


@pytest.mark.parametrize("name", TABLES)
def test_a_family_takes_along_what_its_rows_refer_to(name: str) -> None:
    needed = {column.refers_to for column in find_columns(name) if column.refers_to and not column.may_be_empty}
    taken = [{table.name for table in find_tables(close_families([family]))} for family in TABLES[name].families]

    assert all(needed <= tables for tables in taken)


def test_an_update_comes_after_its_table_and_has_columns_of_it() -> None:
    names = [step.name for step in STEPS]
    updates = [(place, step) for place, step in enumerate(STEPS) if isinstance(step, Update)]

    assert [step.name for place, step in updates if step.name not in names[:place]] == []
    assert [
        step.name for _, step in updates if not {*step.columns} <= {column.name for column in find_columns(step.name)}
    ] == []


def test_families_name_families() -> None:
    assert set(FAMILIES) >= {needed for family in FAMILIES.values() for needed in family}
    assert {family for table in TABLES.values() for family in table.families} == FAMILIES.keys()
