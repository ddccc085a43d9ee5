"""Checks of the database for `manage.py doctor`: durability, room, connections and roles."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db import connection

from memory.retrieval.database import ServingRole


class Status(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that was looked at. `todo` says what to do where it is not well."""

    name: str
    status: Status
    message: str
    todo: str = ""


def ok(name: str, message: str) -> Finding:
    return Finding(name=name, status=Status.OK, message=message)


def warning(name: str, message: str, todo: str) -> Finding:
    return Finding(name=name, status=Status.WARNING, message=message, todo=todo)


def failure(name: str, message: str, todo: str) -> Finding:
    return Finding(name=name, status=Status.FAILURE, message=message, todo=todo)


def rows(statement: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


def show(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        return str(cursor.fetchone()[0])


CONNECTIONS_HIGH = 0.8


def check_durability() -> Iterator[Finding]:
    off = [name for name in ("fsync", "full_page_writes", "synchronous_commit") if show(name) == "off"]
    if off:
        todo = "Turn them on, or a crash of the machine loses what was acknowledged."
        yield failure("durability", f"PostgreSQL runs with {', '.join(off)} off.", todo)
    else:
        yield ok("durability", "What is acknowledged is on the disk.")
    if show("data_checksums") != "on":
        yield warning("checksums", "Pages have no checksums.", "Stop PostgreSQL and run pg_checksums --enable.")


def check_indexes() -> Iterator[Finding]:
    invalid = [name for (name,) in rows("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid")]
    if invalid:
        todo = "Run REINDEX INDEX CONCURRENTLY for each: its building was broken off."
        yield failure("indexes", f"Not valid: {', '.join(invalid)}.", todo)
    else:
        yield ok("indexes", "Every index is valid.")


def check_connections() -> Iterator[Finding]:
    ((used, allowed),) = rows(
        "SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), "
        "current_setting('max_connections')::int"
    )
    if used > CONNECTIONS_HIGH * allowed:
        todo = "Lower the number of processes, put a pooler in between, or raise max_connections."
        yield warning("connections", f"{used} of {allowed} connections are in use.", todo)
    else:
        yield ok("connections", f"{used} of {allowed} connections are in use.")
    stuck = rows(
        "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction' AND xact_start < now() - interval '1 min'"
    )
    if stuck:
        pids = ", ".join(str(pid) for (pid,) in stuck)
        todo = "Find out who holds them; SELECT pg_terminate_backend(pid) ends one."
        yield warning("transactions", f"Open and idle for more than a minute: {pids}.", todo)


def check_serving_role() -> Iterator[Finding]:
    named = settings.ERL_SERVING_ROLE
    role = named if named not in ("", "auto") else ServingRole.NAME
    may_be_taken = rows("SELECT pg_has_role(session_user, oid, 'SET') FROM pg_roles WHERE rolname = %s", [role])
    if may_be_taken != [(True,)]:
        make = warning if named in ("", "auto") else failure
        todo = "Let a superuser create it, with the grants that docs/reliability.md lists, and grant it to this user."
        yield make("serving role", f"The role {role} does not exist, or this user may not take it.", todo)
        return
    lacking = _relations("NOT has_table_privilege(%s, oid, 'SELECT') AND relname = ANY (%s)", role)
    too_much = _relations("has_table_privilege(%s, oid, 'SELECT') AND relname <> ALL (%s)", role)
    if lacking:
        todo = f"Let the tables' owner run GRANT SELECT ON {', '.join(lacking)} TO {role}. Until then searches fail."
        make = failure if named else warning
        yield make("serving role", f"{role} may not read what searches need.", todo)
    elif too_much:
        todo = f"Take the right to read {', '.join(too_much[:3])} from it, or set ERL_SERVING_ROLE=auto."
        yield warning("serving role", f"{role} may read more than approved lessons.", todo)
    elif named:
        yield ok("serving role", f"Searches run as {role}, which reads approved lessons alone.")
    else:
        yield warning("serving role", f"Searches do not run as {role}.", "Set ERL_SERVING_ROLE=auto.")


def _relations(condition: str, role: str) -> list[str]:
    """Return our tables and views for which a condition about a role holds."""
    of_ours = "relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v', 'm')"
    statement = f"SELECT relname FROM pg_class WHERE {of_ours} AND {condition} ORDER BY 1"  # noqa: S608 - our own
    return [name for (name,) in rows(statement, [role, list(ServingRole.READS)])]


def check_tenant_role() -> Iterator[Finding]:
    role = settings.ERL_TENANT_ROLE or "erl_tenant"
    known = rows("SELECT pg_has_role(oid, 'MEMBER') FROM pg_roles WHERE rolname = %s", [role])
    if known == [(True,)]:
        used = "runs requests" if settings.ERL_TENANT_ROLE else "could run requests (ERL_TENANT_ROLE)"
        yield ok("tenant role", f"The role {role}, which sees one project alone, {used}.")
    else:
        make = failure if settings.ERL_TENANT_ROLE else warning
        todo = "Let a superuser create it and grant it to this user, then run SELECT memory_grant_tenant()."
        yield make("tenant role", f"The role {role} does not exist, or this user may not take it.", todo)


def check_archive() -> Iterator[Finding]:
    ((mode, archived_at, is_failing, failed),) = rows(
        "SELECT current_setting('archive_mode'), last_archived_time, last_failed_time > coalesce(last_archived_time, "
        "'-infinity'), last_failed_wal FROM pg_stat_archiver"
    )
    if mode == "off":
        yield ok("log archive", "Off: a recovery goes back to the last backup, not to a point in time.")
    elif is_failing:
        todo = "Read PostgreSQL's log for what archive_command said. Meanwhile the log fills the database's disk."
        yield failure("log archive", f"PostgreSQL cannot archive {failed}.", todo)
    else:
        yield ok("log archive", f"The last part of the log was archived at {archived_at or 'no time yet'}.")
