"""The application's role reads and writes rows, and can do nothing to the server, the tables or the audit."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml
from psycopg import errors

from erl_site.embedded import postgres
from erl_site.embedded.accounts import find_binaries
from erl_site.embedded.roles import ADMINISTRATOR, APPLICATION, OWNER, STATEMENTS

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).resolve().parents[2]


def manage(home: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"ERL_HOME": str(home), "ERL_RETRIEVE_MEMORY_MB": "0"} | variables
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home whose tables were made by `manage.py migrate`, as a user makes them."""
    home = tmp_path_factory.mktemp("roles")
    done = manage(home, "migrate", "--verbosity=0")
    assert done.returncode == 0, done.stderr
    yield home
    postgres.discard(home / "postgres")


def connect(home: Path, user: str) -> psycopg.Connection[Any]:
    socket = str(postgres.socket_dir(home / "postgres"))
    return psycopg.connect(host=socket, port=postgres.PORT, user=user, dbname="erl", autocommit=True)


@pytest.fixture
def application(migrated: Path) -> Iterator[psycopg.Connection[Any]]:
    with connect(migrated, APPLICATION) as connected:
        yield connected


def read(connected: psycopg.Connection[Any], statement: str) -> list[tuple[Any, ...]]:
    return list(connected.execute(statement.encode()).fetchall())


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE mine (id int)",
        "CREATE TEMPORARY TABLE memory_apikey (id int)",
        "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE SCHEMA mine",
        "CREATE DATABASE mine",
        "CREATE ROLE mine",
        "CREATE EXTENSION file_fdw",
        "ALTER TABLE memory_trajectory ADD COLUMN mood text",
        "ALTER TABLE memory_auditentry DISABLE TRIGGER ALL",
        "ALTER TABLE memory_heuristicrevision DISABLE TRIGGER USER",
        "DROP TRIGGER memory_audit_review ON memory_review",
        "ALTER TABLE memory_trajectory DISABLE ROW LEVEL SECURITY",
        "DROP TABLE memory_auditentry",
        "TRUNCATE memory_auditentry",
        "TRUNCATE memory_review",
        "SET session_replication_role = replica",
        "UPDATE memory_auditentry SET content = ''",
        "DELETE FROM memory_auditentry",
        "DELETE FROM memory_erasure",
        "DELETE FROM memory_quarantineorder",
        "INSERT INTO memory_auditentry SELECT * FROM memory_auditentry",
        "SELECT memory_audit_append(gen_random_uuid(), 'review', gen_random_uuid(), '{}')",
        "DELETE FROM django_migrations",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_ls_dir('/')",
        "COPY memory_project TO '/tmp/erl-copied'",
        "COPY (SELECT 1) TO PROGRAM 'id'",
        "COPY memory_project FROM PROGRAM 'id'",
        "SELECT lo_import('/etc/passwd')",
        "ALTER SYSTEM SET log_statement = 'all'",
        "SELECT pg_reload_conf()",
        f"SET ROLE {OWNER}",
        f"SET ROLE {ADMINISTRATOR}",
        f"ALTER ROLE {APPLICATION} SUPERUSER",
        f"GRANT {OWNER} TO {APPLICATION}",
        "SELECT rolpassword FROM pg_authid",
    ],
)
def test_application_is_refused(application: psycopg.Connection[Any], statement: str) -> None:
    with pytest.raises((errors.InsufficientPrivilege, errors.RestrictViolation)):
        application.execute(statement.encode())


@pytest.mark.slow
def test_no_role_of_the_product_is_a_superuser_or_owns_what_another_uses(migrated: Path) -> None:
    with connect(migrated, ADMINISTRATOR) as server:
        supers = read(server, "SELECT rolname FROM pg_roles WHERE rolsuper AND rolcanlogin")
        owners = read(server, "SELECT DISTINCT tableowner::text FROM pg_tables WHERE schemaname = 'public'")
        databases = read(server, "SELECT pg_get_userbyid(datdba)::text FROM pg_database WHERE datname = 'erl'")

    assert (supers, owners, databases) == ([(ADMINISTRATOR,)], [(OWNER,)], [(OWNER,)])


@pytest.mark.slow
def test_application_has_the_rights_it_needs_on_every_table(application: psycopg.Connection[Any]) -> None:
    lacking = read(
        application,
        "SELECT relname, needed FROM pg_class, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS needed"
        " WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition"
        " AND NOT has_table_privilege(oid, needed)",
    )

    assert {name for name, _ in lacking} == {
        "memory_auditentry",
        "memory_erasure",
        "memory_quarantineorder",
        "django_migrations",
    }
    assert "SELECT" not in {needed for _, needed in lacking}


@pytest.mark.slow
def test_triggers_write_the_audit_for_the_application(migrated: Path, application: psycopg.Connection[Any]) -> None:
    done = manage(migrated, "create_api_key", "--project=audited", "--client=agent", "--create-project")

    entries = read(
        application,
        "SELECT kind, content::jsonb ->> 'role' FROM memory_auditentry"
        " WHERE project_id = (SELECT id FROM memory_project WHERE slug = 'audited')",
    )
    assert done.returncode == 0, done.stderr
    assert entries == [("key_insert", APPLICATION)]


@pytest.mark.slow
def test_quarantine_order_is_placed_and_lifted_with_the_roles(migrated: Path) -> None:
    manage(migrated, "create_api_key", "--project=ordered", "--client=agent", "--create-project")

    placed = manage(migrated, "quarantine", "--client=agent", "--project=ordered", "--since=1h", "--json")
    lifted = manage(migrated, "quarantine", "--lift", json.loads(placed.stdout)["order"])

    assert lifted.returncode == 0, lifted.stderr


@pytest.mark.slow
def test_every_trigger_that_writes_the_audit_runs_with_the_rights_of_the_owner(
    application: psycopg.Connection[Any],
) -> None:
    with_own_rights = read(
        application,
        "SELECT DISTINCT proname FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid"
        " WHERE prosrc LIKE '%memory_audit_append(%' AND NOT prosecdef",
    )

    assert with_own_rights == []


@pytest.mark.slow
@pytest.mark.parametrize("command", ["verify_audit", "migrate"])
def test_command_works_with_the_roles(migrated: Path, command: str) -> None:
    done = manage(migrated, command)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("migrate",),
        ("backup", "erl.dump"),
        ("restore", __file__),
        ("erase", "--due", "--vacuum"),
        ("person", "erase", "--user-id=c-17", "--vacuum", "--yes"),
    ],
    ids=lambda command: command[0],
)
def test_command_that_needs_the_owner_says_so(migrated: Path, command: tuple[str, ...]) -> None:
    socket = postgres.socket_dir(migrated / "postgres")
    url = f"postgresql://{APPLICATION}@/erl?host={socket}&port={postgres.PORT}"

    done = manage(migrated, *command, DATABASE_URL=url, DATABASE_OWNER_URL="")

    assert done.returncode == 1
    assert f"Set DATABASE_OWNER_URL to the same database as {OWNER}." in " ".join(done.stderr.split())


@pytest.mark.slow
def test_functions_of_a_later_version_are_left_alone(migrated: Path) -> None:
    other_files = "COMMENT ON FUNCTION memory_grant_application(name) IS 'files of a later version'"
    later = "INSERT INTO django_migrations (app, name, applied) VALUES ('memory', '9999_later', now())"
    with connect(migrated, ADMINISTRATOR) as server:
        server.execute(other_files.encode())
        assert "failure  definitions" in manage(migrated, "check", "--running").stdout
        server.execute(later.encode())
        told = manage(migrated, "check", "--running").stdout
        server.execute("DELETE FROM django_migrations WHERE name = '9999_later'")

    assert "ok       definitions: The database is of a later version" in told


@pytest.mark.slow
def test_roles_are_found_in_order(migrated: Path) -> None:
    told = manage(migrated, "check", "--running", "--json").stdout

    assert "The role erl can do no more than the application needs." in told
    assert "PostgreSQL's log keeps no statements, parameters or rows." in told


@pytest.mark.slow
def test_scripts_of_compose_give_each_role_its_password_and_the_administrator_none(migrated: Path) -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    passwords = compose["configs"]["passwords"]["content"].replace(
        "/docker-entrypoint-initdb.d/10-roles.sql", str(STATEMENTS)
    )
    socket = str(postgres.socket_dir(migrated / "postgres"))
    psql = [str(find_binaries() / "psql"), "--no-psqlrc", "-v", "ON_ERROR_STOP=1", "--host", socket]
    psql += ["--username", ADMINISTRATOR, "--dbname", "erl"]
    environment = os.environ | {"POSTGRES_PASSWORD": "one", "ERL_PASSWORD": "another"}

    for script in (STATEMENTS.read_text(encoding="utf-8"), passwords):
        subprocess.run(psql, input=script, text=True, env=environment, check=True, capture_output=True)

    with connect(migrated, ADMINISTRATOR) as server:
        known = read(server, "SELECT rolname, rolpassword IS NOT NULL FROM pg_authid WHERE rolcanlogin")
    assert dict(known) == {OWNER: True, APPLICATION: True, ADMINISTRATOR: False}
