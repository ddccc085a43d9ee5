"""Keep the database's functions, triggers and views equal to the `.sql` files, which have one definition of each.

`manage.py migrate` runs the files again where they have changed since, or where a function differs from its file, so a
change of a file needs no migration of its own.
"""

import hashlib
import re

from django.apps import apps
from django.conf import settings
from django.db import connection, transaction
from django.db.migrations import RunSQL
from django.db.migrations.loader import MigrationLoader

_DEFINED = re.compile(r"^CREATE OR REPLACE (?:CONSTRAINT )?(FUNCTION|TRIGGER|VIEW) ([\w.]+)", re.MULTILINE)
_FUNCTIONS = """
SELECT p.proname, p.prosrc FROM pg_proc p
WHERE p.pronamespace = ANY (ARRAY['public', 'erl_tenant']::regnamespace[])
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')
"""
_OTHERS = """
SELECT tgname FROM pg_trigger WHERE NOT tgisinternal
UNION SELECT relname FROM pg_class
WHERE relkind = 'v' AND relnamespace = ANY (ARRAY['public', 'erl_tenant']::regnamespace[])
"""
# Says which files were run last: the comment of a function that every installation has
_MARK = "memory_grant_application(name)"


def read_installed_files() -> list[str]:
    """Return the text of every `.sql` file in the order in which the migrations install them."""
    loader = MigrationLoader(None, ignore_no_migrations=True)
    plan = dict.fromkeys(key for leaf in loader.graph.leaf_nodes() for key in loader.graph.forwards_plan(leaf))
    operations = [operation for key in plan for operation in loader.disk_migrations[key].operations]
    # A file that several migrations install is one file.
    return list(dict.fromkeys(str(step.sql) for step in operations if isinstance(step, RunSQL)))


def find_drift() -> list[str]:
    """Return what is missing in the database or differs from its `.sql` file, by name; "" stands for a changed file."""
    files = read_installed_files()
    text = "\n".join(files)
    with connection.cursor() as cursor:
        cursor.execute(_FUNCTIONS)
        bodies = dict(cursor.fetchall())
        cursor.execute(_OTHERS)
        others = {name for (name,) in cursor.fetchall()}
        cursor.execute("SELECT obj_description(to_regprocedure(%s), 'pg_proc')", [_MARK])
        (mark,) = cursor.fetchone()
    drift = []
    for kind, qualified in _DEFINED.findall(text):
        name = qualified.rpartition(".")[2]
        # PostgreSQL keeps the source of functions alone; triggers and views only have to exist.
        is_missing = name not in (bodies if kind == "FUNCTION" else others)
        if is_missing or (kind == "FUNCTION" and bodies[name] not in text):
            drift.append(name)
    return drift or ([""] if mark != _fingerprint(files) else [])


def reinstall() -> list[str]:
    """Run every `.sql` file again where the database differs from them; return what differed, by name."""
    drift = find_drift()
    if drift:
        files = read_installed_files()
        with connection.cursor() as cursor:
            for statements in files:
                # Triggers lock their tables: one file at a time, so that requests wait for one only. A stop in the
                # middle leaves the old mark, and the next call runs all files again.
                with transaction.atomic():
                    cursor.execute(statements)
            cursor.execute(f"COMMENT ON FUNCTION {_MARK} IS '{_fingerprint(files)}'")
    return [name for name in drift if name]


def is_newer() -> bool:
    """Tell whether a later version has migrated the database, as it has when the code is rolled back."""
    loader = MigrationLoader(connection, ignore_no_migrations=True)
    ours = {app.label for app in apps.get_app_configs() if app.path.startswith(str(settings.BASE_DIR))}
    return any(key[0] in ours and key not in loader.disk_migrations for key in loader.applied_migrations)


def _fingerprint(files: list[str]) -> str:
    return f"files {hashlib.sha256(chr(0).join(files).encode()).hexdigest()}"
