"""What a database needs before `manage.py migrate` touches it, each as one sentence that says what to do."""

from typing import Any

from django.conf import settings
from django.db import Error, connections

MIN_POSTGRES = 16
# Older versions may corrupt an HNSW index, or fail inserts during a vacuum.
MIN_PGVECTOR = (0, 8, 4)
EXTENSIONS = ("vector", "pg_trgm", "btree_gin")
_STATE = """
SELECT current_setting('server_version_num')::int,
    has_schema_privilege(current_schema(), 'CREATE'),
    current_schema(),
    has_database_privilege(current_database(), 'CREATE'),
    (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
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
    version, may_create, schema, may_extend, is_superuser = state
    faults = []
    if version // 10_000 < MIN_POSTGRES:
        faults.append(f"The database is PostgreSQL {version // 10_000}; ERL needs {MIN_POSTGRES} or newer.")
    for name in EXTENSIONS:
        faults += _check_extension(
            name, extensions.get(name), search_path, may_install=may_extend, is_superuser=is_superuser
        )
    role = connections[alias].settings_dict["USER"]
    owner = (settings.ERL_DATABASE_OWNER or {}).get("USER", role)
    if role == owner and not may_create and "memory_project" not in history:
        faults.append(
            f"The role {role} may not make tables in the schema {schema}. Its administrator can allow that: "
            f"GRANT CREATE ON SCHEMA {schema} TO {role};"
        )
    # Version 0.1 had these tables, but not this migration.
    if "memory_project" in history and "0002_database_rules" not in history:
        faults.append(
            "The database was made by ERL 0.1, which cannot be upgraded. With that version, export what you want to "
            "keep (export_memory, and export_trajectories or your logs); then use a new database and import it."
        )
    return faults


def _read_history(cursor: Any) -> set[str]:
    """Return which migrations of the memory are applied, and "memory_project" where there are its tables."""
    cursor.execute("SELECT to_regclass('memory_project') IS NOT NULL, to_regclass('django_migrations') IS NOT NULL")
    has_tables, has_history = cursor.fetchone()
    if not has_history:
        return set()
    cursor.execute("SELECT name FROM django_migrations WHERE app = 'memory'")
    return {name for (name,) in cursor.fetchall()} | ({"memory_project"} if has_tables else set())


def _check_extension(
    name: str, found: list[Any] | None, search_path: list[str], *, may_install: bool, is_superuser: bool
) -> list[str]:
    if found is None:
        todo = "Use a server with pgvector, such as the image pgvector/pgvector, or install its contrib packages."
        return [f"The database server lacks the extension {name}. {todo}"]
    installed, default, is_trusted, schema = found
    faults = []
    if installed is None and not is_superuser and not (is_trusted and may_install):
        faults.append(
            f"The extension {name} is not installed in this database, and this role may not do it. Its administrator "
            f"can: CREATE EXTENSION {name};"
        )
    if installed is not None and schema not in search_path:
        faults.append(
            f"The extension {name} is in the schema {schema}, which is not on the search path of this role. Add it: "
            f"ALTER ROLE CURRENT_USER SET search_path = public, {schema};"
        )
    if name == "vector" and _numbers(installed or default) < MIN_PGVECTOR:
        wanted = ".".join(map(str, MIN_PGVECTOR))
        faults.append(
            f"The database has pgvector {installed or default}. Install {wanted} or newer on the server, then run "
            "ALTER EXTENSION vector UPDATE."
        )
    return faults


def _explain(error: Error, alias: str) -> str:
    """Return why a database cannot be asked, in one sentence."""
    words = " ".join(str(error).split())
    where = connections[alias].settings_dict
    address = f"{where['NAME']} on {where['HOST'] or 'localhost'}"
    role = where["USER"]
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
