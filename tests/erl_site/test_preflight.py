"""A database that cannot be used is refused in a sentence, before anything in it is touched."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from erl_site.embedded import postgres
from erl_site.embedded.roles import ADMINISTRATOR
from tests.erl_site.test_roles import ROOT, connect, manage

pytestmark = [pytest.mark.nightly, pytest.mark.slow]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A server with a role that may do little, in databases that lack something."""
    home = tmp_path_factory.mktemp("preflight")
    assert manage(home, "migrate", "auth", "--plan").returncode == 0  # starts the server
    with connect(home, ADMINISTRATOR) as administrator:
        administrator.execute("CREATE ROLE app LOGIN")
        administrator.execute("CREATE DATABASE foreign_one TEMPLATE template0")
        administrator.execute("CREATE ROLE first SUPERUSER LOGIN")
        administrator.execute("CREATE DATABASE old OWNER first")
        administrator.execute("CREATE DATABASE standby")
        administrator.execute("ALTER DATABASE standby SET default_transaction_read_only = on")
        administrator.execute("CREATE DATABASE ours OWNER erl_owner")
    yield home
    postgres.discard(home / "postgres")


def run(home: Path, url: str, *command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"DATABASE_URL": url, "DATABASE_OWNER_URL": "", "ERL_HOME": str(home)}
    program = [sys.executable, "manage.py", *command]
    return subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def url(home: Path, user: str, name: str) -> str:
    return f"postgresql://{user}@/{name}?host={postgres.socket_dir(home / 'postgres')}&port={postgres.PORT}"


@pytest.mark.parametrize("command", [("migrate",), ("check", "--database", "default")])
@pytest.mark.parametrize(
    ("user", "name", "sentence"),
    [
        ("app", "nowhere", "The database nowhere on"),
        ("nobody_here", "foreign_one", "The role nobody_here does not exist"),
        ("app", "foreign_one", "CREATE EXTENSION vector;"),
        ("app", "foreign_one", "GRANT CREATE ON SCHEMA public TO app;"),
        ("app", "standby", "The database takes no writes: it is a standby, or default_transaction_read_only is on."),
        ("erl", "ours", "Set DATABASE_OWNER_URL to the same database as erl_owner."),
    ],
)
def test_fault_is_named_in_a_sentence(
    command: tuple[str, ...], user: str, name: str, sentence: str, home: Path
) -> None:
    done = run(home, url(home, user, name), *command)

    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 1
    assert sentence in said
    assert "Traceback" not in said


def test_server_that_is_down_is_named(home: Path) -> None:
    done = run(home, "postgresql://app@127.0.0.1:9/erl", "migrate")

    assert "The database erl on 127.0.0.1 cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr


def test_database_of_the_first_version_is_left_alone(home: Path) -> None:
    done = run(home, url(home, "first", "old"), "migrate", "auth", "--verbosity=0")
    assert done.returncode == 0, done.stderr
    with psycopg.connect(url(home, "first", "old"), autocommit=True) as old:
        old.execute("CREATE TABLE memory_project (id int)")
        old.execute("INSERT INTO django_migrations (app, name, applied) VALUES ('memory', '0001_initial', now())")

    done = run(home, url(home, "first", "old"), "migrate")

    assert "made by ERL 0.1" in done.stderr
    assert "Nothing was changed" in done.stderr
