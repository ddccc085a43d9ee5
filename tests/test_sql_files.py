"""The .sql files say what is in force: a migrated database has their definitions and no others."""

import re
from collections import Counter
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations import RunSQL
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from erl_site.definitions import find_drift
from erl_site.management.commands.quickstart import migrate

ROOT = Path(settings.BASE_DIR)
FILES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in ROOT.glob("*/sql/*.sql")}
_DEFINED = re.compile(
    r"^CREATE(?: OR REPLACE)?(?: CONSTRAINT)? (FUNCTION|TRIGGER|VIEW|SCHEMA) ([\w.]+)|^SELECT (memory_\w+)\(\s*'(\w+)'",
    re.MULTILINE,
)
# What is in force apart from tables: nothing of extensions, and nothing that PostgreSQL keeps for foreign keys.
_IN_FORCE = """
SELECT 'function ' || p.oid::regprocedure, pg_get_functiondef(p.oid) FROM pg_proc p
WHERE p.pronamespace = ANY (ARRAY['public', 'erl_tenant']::regnamespace[])
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
UNION ALL
SELECT 'trigger ' || tgname, pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal AND tgparentid = 0
UNION ALL
SELECT 'policy on ' || polrelid::regclass, pg_get_expr(polqual, polrelid) FROM pg_policy
UNION ALL
SELECT 'view ' || c.oid::regclass, pg_get_viewdef(c.oid)
    || (SELECT string_agg(a::text, ' ' ORDER BY a::text) FROM unnest(c.relacl) AS a)
FROM pg_class c WHERE c.relkind = 'v' AND c.relnamespace = ANY (ARRAY['public', 'erl_tenant']::regnamespace[])
"""


def installations() -> list[RunSQL]:
    """The operations that install the files, in the order of the migrations; each file once."""
    loader = MigrationLoader(None, ignore_no_migrations=True)
    plan = dict.fromkeys(key for leaf in loader.graph.leaf_nodes() for key in loader.graph.forwards_plan(leaf))
    operations = [each for key in plan for each in loader.disk_migrations[key].operations if isinstance(each, RunSQL)]
    once: dict[str, RunSQL] = {}
    for each in operations:
        once.setdefault(str(each.sql), each)
    return list(once.values())


def in_force() -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute(_IN_FORCE)
        return dict(cursor.fetchall())


def take_out_the_files() -> None:
    with connection.cursor() as cursor:
        for each in reversed(installations()):
            cursor.execute(str(each.reverse_sql))


def test_every_file_is_installed_and_no_other_sql() -> None:
    assert sorted(str(each.sql) for each in installations()) == sorted(FILES.values())


def test_everything_has_one_definition() -> None:
    counted = Counter(found for text in FILES.values() for found in _DEFINED.findall(text))

    assert [found for found, count in counted.items() if count > 1] == []


@pytest.mark.django_db
def test_database_has_the_definitions_of_the_files() -> None:
    migrated = in_force()

    take_out_the_files()
    without = in_force()
    with connection.cursor() as cursor:
        for each in [*installations(), *installations()]:  # twice: a file may be installed again
            cursor.execute(str(each.sql))
        cursor.execute("SELECT memory_grant_application('erl')")  # as after every migration

    assert without == {}
    assert in_force() == migrated


@pytest.mark.django_db
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE FUNCTION other() RETURNS integer LANGUAGE sql AS 'SELECT 1'",
        "CREATE VIEW other AS SELECT 1",
        "CREATE TRIGGER other AFTER UPDATE ON memory_review EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "CREATE POLICY other ON memory_review USING (true)",
    ],
)
def test_comparison_notices_a_definition_outside_the_files(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)

    take_out_the_files()

    assert len(in_force()) == 1


@pytest.mark.django_db
def test_rules_of_projects_that_are_in_force_stop_no_requests_when_they_are_installed_again() -> None:
    with connection.cursor() as cursor:
        cursor.execute(FILES["memory/sql/projects.sql"])
        cursor.execute(
            "SELECT c.relname FROM pg_locks l JOIN pg_class c ON c.oid = l.relation AND c.relkind IN ('r', 'p') "
            "WHERE l.pid = pg_backend_pid() AND l.mode = 'AccessExclusiveLock'"
        )
        assert cursor.fetchall() == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    "statement",
    [
        "DROP POLICY erl_project ON memory_review",
        "ALTER POLICY erl_project ON memory_review USING (true)",
        "ALTER POLICY erl_project ON memory_review WITH CHECK (true)",
        "ALTER POLICY erl_project ON memory_review TO erl",
        "ALTER TABLE memory_review DISABLE ROW LEVEL SECURITY",
    ],
)
def test_rule_of_a_project_that_was_changed_is_written_again(statement: str) -> None:
    rule = (
        "SELECT c.relrowsecurity, p.polroles, pg_get_expr(p.polqual, c.oid), pg_get_expr(p.polwithcheck, c.oid) "
        "FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid WHERE c.relname = 'memory_review'"
    )
    with connection.cursor() as cursor:
        cursor.execute(rule)
        before = cursor.fetchall()
        cursor.execute(statement)

        cursor.execute(FILES["memory/sql/projects.sql"])

        cursor.execute(rule)
        assert cursor.fetchall() == before


@pytest.mark.django_db
def test_quickstart_installs_what_differs_from_its_file_without_a_migration() -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER memory_block_guard ON memory_block")

    assert migrate() == "up to date"

    assert find_drift() == []


@pytest.mark.django_db
def test_functions_of_a_later_version_stay_when_the_code_is_rolled_back() -> None:
    MigrationRecorder(connection).record_applied("memory", "9999_of_a_later_version")
    with connection.cursor() as cursor:
        cursor.execute("COMMENT ON FUNCTION memory_grant_application(name) IS 'files of a later version'")

    call_command("migrate", verbosity=0)

    assert find_drift() == [""]
