"""A database of others: a role with few rights, extensions in a schema of theirs, and a pooler in front."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from erl_site.embedded import postgres
from erl_site.embedded.roles import ADMINISTRATOR
from tests.erl_site.pooler import pooled
from tests.stack import ROOT

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.timeout(900)]  # five programs, one after another
SERVER = (
    "CREATE ROLE shop LOGIN NOSUPERUSER NOCREATEROLE NOCREATEDB",
    "CREATE DATABASE company TEMPLATE template0",
    "REVOKE ALL ON DATABASE company FROM PUBLIC",
    "GRANT CONNECT, TEMPORARY ON DATABASE company TO shop",
)
DATABASE = (
    "CREATE SCHEMA extensions",
    "CREATE SCHEMA shop AUTHORIZATION shop",
    "CREATE EXTENSION vector SCHEMA extensions",
    "ALTER ROLE shop IN DATABASE company SET search_path = shop",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("foreign")
    postgres.ensure(home / "postgres", durable=False)
    administer(home, "postgres", SERVER)
    administer(home, "company", DATABASE)
    yield home
    postgres.discard(home / "postgres")


def administer(home: Path, database: str, statements: Any) -> None:
    place: dict[str, Any] = {"host": str(postgres.socket_dir(home / "postgres")), "port": postgres.PORT}
    with psycopg.connect(**place, user=ADMINISTRATOR, dbname=database, autocommit=True) as administrator:
        for statement in statements:
            administrator.execute(statement)


def run(home: Path, url: str, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    told = {"DATABASE_URL": url, "DATABASE_OWNER_URL": "", "ERL_HOME": str(home)} | environment
    told["DJANGO_SETTINGS_MODULE"] = "erl_site.settings"
    return subprocess.run(
        [sys.executable, "manage.py", *command], cwd=ROOT, env=os.environ | told, capture_output=True, text=True
    )


def test_check_prints_what_its_administrator_has_to_run(home: Path) -> None:
    url = f"postgresql://shop@/company?host={postgres.socket_dir(home / 'postgres')}&port={postgres.PORT}"

    server = {"USER": "shop", "NAME": "company", "HOST": str(postgres.socket_dir(home / "postgres")), "PORT": "5432"}

    refused = run(home, url, "migrate")
    lines = re.findall(r"^    (.+;)$", refused.stderr, re.MULTILINE)
    with psycopg.connect(url) as company:
        tables = company.execute("SELECT count(*) FROM pg_tables WHERE tableowner = 'shop'").fetchone()

    assert "Nothing was changed" in refused.stderr
    assert tables == (0,)
    assert lines[-1] == "ALTER ROLE shop IN DATABASE company SET search_path = public, extensions;"
    administer(home, "company", lines)
    with pooled(server) as pooler:
        unset = run(home, pooler.url, "check", "--database", "default")
        migrated = run(home, pooler.url, "migrate", "--verbosity=0", ERL_DATABASE_POOLER="true")
        checked = run(home, pooler.url, "check", "--database", "default", ERL_DATABASE_POOLER="true")
    assert "Set ERL_DATABASE_POOLER=true" in unset.stderr
    assert migrated.returncode == 0, migrated.stderr
    assert checked.returncode == 0, checked.stderr
