"""Database checks for `manage.py check --running`: durability, indexes, connections, roles and archiving."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.db import connection

from erl_site.embedded.postgres import DISCREET
from memory.retrieval.database import ServingRole


class DatabaseStatus(StrEnum):
    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, kw_only=True, slots=True)
class Diagnosis:
    """The result of one check. `todo` says how to fix a problem."""

    name: str
    status: DatabaseStatus
    message: str
    todo: str = ""


def ok(name: str, message: str) -> Diagnosis:
    return Diagnosis(name=name, status=DatabaseStatus.OK, message=message)


def warning(name: str, message: str, todo: str) -> Diagnosis:
    return Diagnosis(name=name, status=DatabaseStatus.WARNING, message=message, todo=todo)


def failure(name: str, message: str, todo: str) -> Diagnosis:
    return Diagnosis(name=name, status=DatabaseStatus.FAILURE, message=message, todo=todo)


def rows(statement: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


def show(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        return str(cursor.fetchone()[0])


CONNECTIONS_HIGH = 0.8
AS_DISCREET = {"log_statement": ("none", "ddl")}


def check_durability() -> Iterator[Diagnosis]:
    off = [name for name in ("fsync", "full_page_writes", "synchronous_commit") if show(name) == "off"]
    if off:
        todo = "Turn them on, or a machine crash loses acknowledged data."
        yield failure("durability", f"PostgreSQL runs with {', '.join(off)} off.", todo)
    else:
        yield ok("durability", "Acknowledged data is on disk.")
    if show("data_checksums") != "on":
        yield warning("checksums", "Pages have no checksums.", "Stop PostgreSQL and run pg_checksums --enable.")


def check_indexes() -> Iterator[Diagnosis]:
    invalid = [name for (name,) in rows("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid")]
    if invalid:
        todo = "Run REINDEX INDEX CONCURRENTLY for each; their creation was interrupted."
        yield failure("indexes", f"These indexes are invalid: {', '.join(invalid)}.", todo)
    else:
        yield ok("indexes", "All indexes are valid.")


def check_connections() -> Iterator[Diagnosis]:
    ((used, allowed),) = rows(
        "SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), "
        "current_setting('max_connections')::int"
    )
    if used > CONNECTIONS_HIGH * allowed:
        todo = "Run fewer processes, use a connection pooler, or raise max_connections."
        yield warning("connections", f"{used} of {allowed} connections are in use.", todo)
    else:
        yield ok("connections", f"{used} of {allowed} connections are in use.")
    stuck = rows(
        "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction' AND xact_start < now() - interval '1 min'"
    )
    if stuck:
        pids = ", ".join(str(pid) for (pid,) in stuck)
        todo = "Find the clients that hold them open; SELECT pg_terminate_backend(pid) ends one."
        yield warning(
            "transactions", f"These processes have been idle in a transaction for more than a minute: {pids}.", todo
        )


def check_serving_role() -> Iterator[Diagnosis]:
    setting = settings.ERL_SERVING_ROLE
    role = setting if setting not in ("", "auto") else ServingRole.NAME
    # Since PostgreSQL 16, being a member of a role does not mean that one may switch to it.
    may_be_taken = rows("SELECT pg_has_role(session_user, oid, 'SET') FROM pg_roles WHERE rolname = %s", [role])
    if may_be_taken != [(True,)]:
        make = warning if setting in ("", "auto") else failure
        todo = "As a superuser, create it with the grants listed in docs/reliability.md, and grant it to this user."
        yield make("serving role", f"The role {role} does not exist, or this user cannot switch to it.", todo)
        return
    lacking = _relations("NOT has_table_privilege(%s, oid, 'SELECT') AND relname = ANY (%s)", role)
    excess = _relations("has_table_privilege(%s, oid, 'SELECT') AND relname <> ALL (%s)", role)
    if lacking:
        todo = f"As the tables' owner, run GRANT SELECT ON {', '.join(lacking)} TO {role}. Until then, searches fail."
        make = failure if setting else warning
        yield make("serving role", f"{role} cannot read all tables that searches need.", todo)
    elif excess:
        todo = f"Revoke its right to read {', '.join(excess[:3])}, or set ERL_SERVING_ROLE=auto."
        yield warning("serving role", f"{role} can read more than approved lessons.", todo)
    elif setting:
        yield ok("serving role", f"Searches run as {role}, which can read only approved lessons.")
    else:
        yield warning("serving role", f"Searches do not run as {role}.", "Set ERL_SERVING_ROLE=auto.")


def _relations(condition: str, role: str) -> list[str]:
    """Return the product's tables and views that meet a condition about a role."""
    ours = "relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'v', 'm')"
    statement = f"SELECT relname FROM pg_class WHERE {ours} AND {condition} ORDER BY 1"  # noqa: S608 - our own
    return [name for (name,) in rows(statement, [role, list(ServingRole.READS)])]


def check_tenant_role() -> Iterator[Diagnosis]:
    role = settings.ERL_TENANT_ROLE or "erl_tenant"
    membership = rows("SELECT pg_has_role(oid, 'MEMBER') FROM pg_roles WHERE rolname = %s", [role])
    if membership == [(True,)]:
        used = "runs requests" if settings.ERL_TENANT_ROLE else "is available (set ERL_TENANT_ROLE to use it)"
        yield ok("tenant role", f"The role {role}, which sees only one project, {used}.")
    else:
        make = failure if settings.ERL_TENANT_ROLE else warning
        todo = "As a superuser, create it and grant it to this user, then run SELECT memory_grant_tenant()."
        yield make("tenant role", f"The role {role} does not exist, or this user cannot switch to it.", todo)


def check_application_role() -> Iterator[Diagnosis]:
    """Warn where the application's role may change tables, so that a flaw in it reaches triggers, audit and files."""
    ((role, is_super, owned),) = rows(
        "SELECT rolname, rolsuper, (SELECT count(*) FROM pg_class WHERE relowner = r.oid AND relkind = 'r'"
        " AND relnamespace = 'public'::regnamespace) FROM pg_roles r WHERE rolname = current_user"
    )
    if is_super or owned:
        what = "is a superuser" if is_super else "owns the tables"
        todo = "Give the tables to an owner and set DATABASE_OWNER_URL, as docs/deploying.md says under Roles."
        yield warning("application role", f"The application connects as {role}, which {what}.", todo)
    else:
        yield ok("application role", f"The role {role} can do no more than the application needs.")


def check_server_log() -> Iterator[Diagnosis]:
    """Warn where the server's log keeps statements or rows, which hold the texts of runs (reliability C10)."""
    wanted = dict(setting.split("=") for setting in DISCREET)
    others = [name for name, value in wanted.items() if show(name) not in AS_DISCREET.get(name, (value,))]
    if others:
        todo = f"Set {', '.join(f'{name} = {wanted[name]}' for name in others)} in postgresql.conf and reload it."
        yield warning("server log", "PostgreSQL's log may keep texts of runs, which no erasure reaches.", todo)
    else:
        yield ok("server log", "PostgreSQL's log keeps no statements, parameters or rows.")


def check_archive() -> Iterator[Diagnosis]:
    ((mode, archived_at, is_failing, failed),) = rows(
        "SELECT current_setting('archive_mode'), last_archived_time, last_failed_time > coalesce(last_archived_time, "
        "'-infinity'), last_failed_wal FROM pg_stat_archiver"
    )
    if mode == "off":
        yield ok("log archive", "Off: recovery is possible only to the last backup, not to a point in time.")
    elif is_failing:
        todo = "See PostgreSQL's log for errors of archive_command. Until it works, the write-ahead log fills the disk."
        yield failure("log archive", f"PostgreSQL cannot archive {failed}.", todo)
    else:
        yield ok("log archive", f"On; last archived: {archived_at or 'never'}.")
