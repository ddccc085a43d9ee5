"""Which statements of the product would ask every shard, were the tables distributed by project.

    uv run pytest -n 0 -p tests.cluster.statements --statements=FILE tests/erl_site/test_stack.py …

The plugin lets the tests' PostgreSQL count statements (pg_stat_statements) and writes those that the product's own
processes sent, not the tests: they connect as other roles. A statement lies in one shard if it compares `project_id`.
"""

import re
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from erl_site.embedded import postgres
from erl_site.embedded.roles import ADMINISTRATOR
from tests.servers import HOME

SETTINGS = (
    "shared_preload_libraries=pg_stat_statements",
    "pg_stat_statements.max=10000",
    "track_activity_query_size=4kB",
)
ROLES = ["erl", "erl_serving", "erl_tenant"]
_COUNTED = """
SELECT query, sum(calls)::int FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid
WHERE rolname = ANY(%s) AND toplevel GROUP BY query ORDER BY query
"""
_BY_PROJECT = re.compile(r'project_id"? (?:=|IN)|memory_project"?\."?id"? =|INSERT INTO [^()]+\([^()]*project_id')
_TABLE = re.compile(
    r'(?:FROM|JOIN|UPDATE|INTO)\s+"?((?:memory|reflection|agents|evaluation|servable)_\w+)"?', re.IGNORECASE
)


def find_tables(statement: str, *, shared: frozenset[str]) -> list[str]:
    """Return the distributed tables and views that a statement names."""
    return sorted({table for table in _TABLE.findall(statement) if table not in shared})


def crosses_shards(statement: str, *, shared: frozenset[str] = frozenset()) -> bool:
    """Tell whether a statement names distributed tables and compares no project, or writes a row without one."""
    return bool(find_tables(statement, shared=shared)) and not _BY_PROJECT.search(statement)


def read_statements() -> list[tuple[str, int]]:
    """Return what the product's processes sent to the tests' server, and how often."""
    url = make_conninfo(postgres.ensure(HOME / "postgres", durable=False), dbname="postgres", user=ADMINISTRATOR)
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        return server.execute(_COUNTED, [ROLES]).fetchall()


def write_report(statements: list[tuple[str, int]], *, shared: frozenset[str]) -> str:
    """Return a table of the statements that cross shards: the tables they name, calls and the statement."""
    found = [(query, calls) for query, calls in statements if find_tables(query, shared=shared)]
    crossing = [(query, calls) for query, calls in found if crosses_shards(query, shared=shared)]
    lines = [f"{len(crossing)} of {len(found)} statements name no project.", ""]
    for query, calls in sorted(crossing, key=lambda each: (find_tables(each[0], shared=shared), -each[1])):
        text = " ".join(query.split())
        lines.append(f"{', '.join(find_tables(query, shared=shared))} · {calls} calls\n    {text[:400]}")
    return "\n".join(lines) + "\n"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--statements", type=Path, help="where to list statements that would cross shards")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--statements"):
        postgres.ensure(HOME / "postgres", durable=False, settings=SETTINGS)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--statements"):
        from tests.security.any_rows import SHARED  # once the apps are there

        shared = frozenset(SHARED) | {"memory_project", "memory_apikey"}
        session.config.getoption("--statements").write_text(write_report(read_statements(), shared=shared))
