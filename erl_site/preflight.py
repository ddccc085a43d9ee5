"""What a database needs before `manage.py migrate` touches it, each as one sentence that says what to do."""

import re
from typing import Any

from django.conf import settings
from django.db import Error, connections

from erl_site.embedded.roles import OWNER

MIN_POSTGRES = 16
# Older versions may corrupt an HNSW index, or fail inserts during a vacuum.
MIN_PGVECTOR = (0, 8, 4)
READ_ONLY = (
    "The database takes no writes: it is a standby, or default_transaction_read_only is on. Let DATABASE_URL lead to "
    "the primary server, or switch the setting off."
)
EXTENSIONS = ("vector", "pg_trgm", "btree_gin")
_STATE = """
SELECT current_setting('server_version_num')::int,
    coalesce(has_schema_privilege(to_regnamespace('public'), 'CREATE'), false),
    current_database(),
    has_database_privilege(current_database(), 'CREATE'),
    (SELECT rolsuper FROM pg_roles WHERE rolname = current_user),
    (SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = current_database()),
    current_setting('transaction_read_only')::bool
"""
_EXTENSIONS = """
SELECT a.name, a.installed_version, a.default_version, coalesce(bool_or(v.trusted), false), n.nspname
FROM pg_available_extensions a
    LEFT JOIN pg_available_extension_versions v ON v.name = a.name AND v.version = a.default_version
    LEFT JOIN pg_extension e ON e.extname = a.name LEFT JOIN pg_namespace n ON n.oid = e.extnamespace
WHERE a.name = ANY (%s) GROUP BY 1, 2, 3, 5
"""


def find_faults(alias: str = "default") -> list[str]:
    """Return what speaks against using a database, as sentences; nothing where it is fine. Changes nothing."""
    try:
        with connections[alias].cursor() as cursor:
            cursor.execute(_STATE)
            state = cursor.fetchone()
            cursor.execute(_EXTENSIONS, [list(EXTENSIONS)])
            extensions = {name: rest for name, *rest in cursor.fetchall()}
            cursor.execute("SELECT current_schemas(true)")
            (search_path,) = cursor.fetchone()
            history = _read_history(cursor)
    except Error as error:
        return [_explain(error, alias)]
    version, may_create, database, may_extend, is_superuser, owner_of_database, is_read_only = state
    if is_read_only:
        return [READ_ONLY]
    role = connections[alias].settings_dict["USER"]
    faults, lines = [], list[str]()
    if version // 10_000 < MIN_POSTGRES:
        faults.append(f"The database is PostgreSQL {version // 10_000}; ERL needs {MIN_POSTGRES} or newer.")
    schemas = [schema for *_, schema in extensions.values() if schema not in (None, "public", "pg_catalog")]
    home = schemas[0] if schemas else "public"  # the others are best kept with the first
    for name in EXTENSIONS:
        faults += _check_version(name, extensions.get(name))
        if _must_be_made(extensions.get(name), may_install=may_extend, is_superuser=is_superuser):
            faults.append(f"The extension {name} is not installed in this database, and the role {role} may not do it.")
            lines.append(f"CREATE EXTENSION {name}{f' SCHEMA {_quote(home)}' if schemas else ''};")
    owner = (settings.ERL_DATABASE_OWNER or {}).get("USER", role)
    is_new = "memory_project" not in history
    if role == owner != owner_of_database == OWNER and is_new and not (may_create and may_extend):
        faults.append(f"The database belongs to {OWNER}. Set DATABASE_OWNER_URL to the same database as {OWNER}.")
        return faults
    if role == owner and is_new and not may_create:
        faults.append(f"The role {role} may not make tables in the schema public.")
        lines += [f"GRANT {right} ON SCHEMA public TO {_quote(role)};" for right in ("USAGE", "CREATE")]
    if role == owner and is_new and not may_extend:
        faults.append(f"The role {role} may not make the schema erl_tenant, which ERL needs beside public.")
        lines.append(f"GRANT CREATE ON DATABASE {_quote(database)} TO {_quote(role)};")
    # Functions look for tables in public, whichever role calls them. Types and operators may be anywhere on the path.
    own = [schema for schema in search_path if not schema.startswith("pg_")]
    if own[:1] != ["public"] or not {*schemas} <= {*own}:
        wanted = ", ".join(map(_quote, dict.fromkeys(["public", *schemas])))
        faults.append(f"The search path of the role {role} has to be {wanted}; it is {', '.join(own) or 'empty'}.")
        lines += [f"GRANT USAGE ON SCHEMA {_quote(schema)} TO {_quote(role)};" for schema in dict.fromkeys(schemas)]
        lines.append(f"ALTER ROLE {_quote(role)} IN DATABASE {_quote(database)} SET search_path = {wanted};")
    # Version 0.1 had these tables, but not this migration.
    if "memory_project" in history and "0002_database_rules" not in history:
        faults.append(
            "The database was made by ERL 0.1, which cannot be upgraded. With that version, export what you want to "
            "keep (export_memory, and export_trajectories or your logs); then use a new database and import it."
        )
    if lines:
        listed = "".join(f"\n    {line}" for line in lines)
        faults.append(f"Its administrator can allow that, in the database {database}:{listed}\n")
    return faults


def _read_history(cursor: Any) -> set[str]:
    """Return which migrations of the memory are applied, and "memory_project" where there are its tables."""
    cursor.execute("SELECT to_regclass('memory_project') IS NOT NULL, to_regclass('django_migrations') IS NOT NULL")
    has_tables, has_history = cursor.fetchone()
    if not has_history:
        return set()
    cursor.execute("SELECT name FROM django_migrations WHERE app = 'memory'")
    return {name for (name,) in cursor.fetchall()} | ({"memory_project"} if has_tables else set())


def _check_version(name: str, state: list[Any] | None) -> list[str]:
    if state is None:
        todo = "Use a server with pgvector, such as the image pgvector/pgvector, or install its contrib packages."
        return [f"The database server lacks the extension {name}. {todo}"]
    installed, default, *_ = state
    if name == "vector" and _numbers(installed or default) < MIN_PGVECTOR:
        wanted = ".".join(map(str, MIN_PGVECTOR))
        todo = f"Install {wanted} or newer on the server, then run ALTER EXTENSION vector UPDATE."
        return [f"The database has pgvector {installed or default}. {todo}"]
    return []


def _must_be_made(state: list[Any] | None, *, may_install: bool, is_superuser: bool) -> bool:
    """Tell whether an extension is missing that this role cannot make itself."""
    if state is None:
        return False
    installed, _, is_trusted, _ = state
    return installed is None and not is_superuser and not (is_trusted and may_install)


def _quote(name: str) -> str:
    """Return a name as it stands in a statement."""
    if re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        return name
    return '"' + name.replace('"', '""') + '"'


def _explain(error: Error, alias: str) -> str:
    """Return why a database cannot be asked, in one sentence."""
    words = " ".join(str(error).split())
    where = connections[alias].settings_dict
    address = f"{where['NAME']} on {where['HOST'] or 'localhost'}"
    role = where["USER"]
    if words.startswith("The embedded PostgreSQL"):
        return words
    if "startup parameter" in words:
        return (
            f"The database {address} is behind a connection pooler. Set ERL_DATABASE_POOLER=true, and the parameters "
            "of the role that docs/deploying.md lists for a pooler."
        )
    if "does not exist" in words and "role" in words:
        return (
            f"The role {role} does not exist in the database {address}. Create it, or correct DATABASE_URL and "
            "DATABASE_OWNER_URL. A database of ERL 0.1 cannot be upgraded: use a new one."
        )
    if "does not exist" in words:
        return f"The database {address} does not exist. Create it, or correct DATABASE_URL."
    if "password" in words or "authentication" in words:
        return f"The database {address} refuses the password of {role}. Correct DATABASE_URL."
    return f"The database {address} cannot be reached: {words[-300:]}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
