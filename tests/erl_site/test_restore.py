"""A backup comes back whole or not at all, and so do definitions that differ from their files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg import sql

from erl_site.embedded import postgres
from erl_site.embedded.roles import ADMINISTRATOR, APPLICATION, OWNER
from tests.erl_site.test_roles import connect, manage

pytestmark = [pytest.mark.nightly, pytest.mark.slow]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home as `manage.py migrate` makes it."""
    home = tmp_path_factory.mktemp("restore")
    done = manage(home, "migrate", "--verbosity=0")
    assert done.returncode == 0, done.stderr
    yield home
    postgres.discard(home / "postgres")


def projects(home: Path) -> list[Any]:
    with connect(home, APPLICATION) as connected:
        return connected.execute("SELECT slug FROM memory_project ORDER BY slug").fetchall()


def add_project(home: Path, slug: str) -> None:
    done = manage(home, "create_api_key", "--project", slug, "--client", "tests", "--create-project")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def file(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of a database with one project, which has two by now."""
    file = tmp_path_factory.mktemp("backup") / "erl.dump"
    add_project(home, "kept")
    done = manage(home, "backup", str(file))
    assert done.returncode == 0, done.stderr
    add_project(home, "later")
    return file


def test_nothing_is_replaced_unasked(home: Path, file: Path) -> None:
    before = projects(home)

    done = manage(home, "restore", str(file))

    assert done.returncode == 1
    assert "--replace" in done.stderr
    assert projects(home) == before


@pytest.mark.parametrize("cut", [0, 100, 5_000])
def test_file_that_is_cut_changes_nothing(cut: int, home: Path, file: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.dump"
    broken.write_bytes(file.read_bytes()[:cut])
    before = projects(home)

    done = manage(home, "restore", str(broken), "--replace")

    assert done.returncode == 1
    assert "Nothing was changed" in done.stderr
    assert projects(home) == before


def test_backup_comes_back(home: Path, file: Path) -> None:
    done = manage(home, "restore", str(file), "--replace")

    assert done.returncode == 0, done.stderr
    assert projects(home) == [("kept",)]
    add_project(home, "again")  # the application may go on


def test_server_whose_socket_stands_in_the_address_is_backed_up(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    socket = postgres.socket_dir(home / "postgres")
    monkeypatch.setenv("DATABASE_URL", f"postgresql://{OWNER}@/erl?host={socket}&port={postgres.PORT}&sslmode=prefer")

    done = manage(home, "backup", str(tmp_path / "erl.dump"))

    assert done.returncode == 0, done.stderr


def test_application_role_reads_new_months(home: Path) -> None:
    with connect(home, OWNER) as owner:
        owner.execute("SELECT memory_make_months('memory_retrieval_months', 5)")
    with connect(home, APPLICATION) as application:
        parts = application.execute("SELECT part::text FROM memory_months('memory_retrieval_months')").fetchall()
        reading = [sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(part)) for (part,) in parts]
        readable = [application.execute(statement).fetchone() for statement in reading]

    assert readable == [(0,)] * len(parts)
    assert len(parts) >= 5


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE OR REPLACE FUNCTION memory_first_id(month date) RETURNS uuid LANGUAGE sql AS 'SELECT NULL::uuid'",
        "DROP TRIGGER memory_block_guard ON memory_block",
        "COMMENT ON FUNCTION memory_grant_application(name) IS 'files of an older version'",
    ],
    ids=["function", "trigger", "older files"],
)
def test_what_differs_from_its_file_is_installed_again(statement: str, home: Path) -> None:
    with connect(home, ADMINISTRATOR) as administrator:
        administrator.execute(statement.encode())
    assert "differ from their .sql files" in manage(home, "check", "--running").stdout

    done = manage(home, "migrate", "--verbosity=0")

    assert done.returncode == 0, done.stderr
    assert "differ from their .sql files" not in manage(home, "check", "--running").stdout
