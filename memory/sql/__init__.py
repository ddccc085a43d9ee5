"""The database's functions, triggers, views, policies and roles: one current definition each, in `.sql` files.

Each app has its files in its folder `sql`. All of them may be run again: a migration that changes a file installs it
again with `reinstall`, and the files always say what is in force.
"""

import re
from pathlib import Path

from django.db.migrations import RunSQL

_FUNCTION = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)\(", re.MULTILINE)
_VIEW = re.compile(r"^CREATE OR REPLACE VIEW ([\w.]+) ", re.MULTILINE)
_CHECKED = re.compile(r"^SELECT memory_check_references\('(\w+)'", re.MULTILINE)  # writes a function for the table
_ROOT = Path(__file__).resolve().parent.parent.parent


def read_sql(name: str) -> str:
    """Return the statements of a file, such as `memory/sql/heuristics.sql`."""
    return (_ROOT / name).read_text()


def install(name: str) -> RunSQL:
    """Install a file for the first time. Taken back, its functions and views go, with the triggers that use them."""
    statements = read_sql(name)
    views = [f"DROP VIEW IF EXISTS {view} CASCADE;" for view in _VIEW.findall(statements)]
    names = [*_FUNCTION.findall(statements), *(f"{table}_references" for table in _CHECKED.findall(statements))]
    functions = [f"DROP FUNCTION IF EXISTS {name} CASCADE;" for name in names]
    return RunSQL(statements, "\n".join(views + functions))


def reinstall(name: str) -> RunSQL:
    """Install a file again after a change of it. Taken back, the new definitions stay: there are no others."""
    return RunSQL(read_sql(name), RunSQL.noop)
