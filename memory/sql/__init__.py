"""Install the database's functions, triggers, views, policies and roles, each defined once in an `.sql` file.

Every app has its files in a folder `sql`. They can be run repeatedly: a migration that changes a file runs it again
with `reinstall`, so the files always show the current definitions.
"""

import re
from pathlib import Path

from django.db.migrations import RunSQL

_FUNCTION = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)\(", re.MULTILINE)
_VIEW = re.compile(r"^CREATE OR REPLACE VIEW ([\w.]+) ", re.MULTILINE)
_ROOT = Path(__file__).resolve().parent.parent.parent


def read_sql(name: str) -> str:
    """Return the content of a file such as `memory/sql/heuristics.sql`."""
    return (_ROOT / name).read_text()


def install(name: str) -> RunSQL:
    """Run a file for the first time. Reversing drops its functions and views, with the triggers that use them."""
    statements = read_sql(name)
    views = [f"DROP VIEW IF EXISTS {view} CASCADE;" for view in _VIEW.findall(statements)]
    functions = [f"DROP FUNCTION IF EXISTS {name} CASCADE;" for name in _FUNCTION.findall(statements)]
    return RunSQL(statements, "\n".join(views + functions))


def reinstall(name: str) -> RunSQL:
    """Run a changed file again. Reversing keeps the new definitions, since the old ones no longer exist."""
    return RunSQL(read_sql(name), RunSQL.noop)
