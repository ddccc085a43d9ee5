"""The sandbox: a separate database on the same server, so that evaluations cannot touch live data."""

import json
import os
import re
import time
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
import structlog
from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import OperationalError, connection
from django.db.migrations.executor import MigrationExecutor
from psycopg import sql

from evaluation.errors import EvaluationError, SandboxTaken, SandboxUnavailable
from memory.projects.models import Project

log = structlog.get_logger(__name__)

SUFFIX = "_evaluation"
_SANDBOX = re.compile(rf"{SUFFIX}(_\d)?$")
LOCK_WAIT_SECONDS = 10.0  # time for the processes of a killed run to end
APPS = ("memory", "reflection", "evaluation")
# How to reach the embedder, and the model behind the same proxy
_PASSED_ON = ("ERL_EMBEDDER", "ERL_EMBEDDER_API_KEY", "ERL_HTTP_HOSTS", "ERL_HTTP_PROXY")


def create_sandbox(number: int = 1) -> str:
    """Create a sandbox database if it is missing; return its URL.

    Args:
        number: from 1; each evaluating process has its own sandbox.

    Raises:
        SandboxUnavailable: the database does not exist and cannot be created.
    """
    # An embedded server starts at the first connection.
    connection.ensure_connection()
    parameters = connection.get_connection_params()
    name = f"{parameters['dbname']}{SUFFIX}" + (f"_{number}" if number > 1 else "")
    with psycopg.connect(**parameters, autocommit=True) as raw:
        exists = raw.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone()
    if exists is None and not _copy_new_database(parameters, name):
        # CREATE DATABASE cannot run in a transaction.
        with psycopg.connect(**_find_creator(parameters), autocommit=True) as raw:
            try:
                owner = sql.Identifier(str(parameters.get("user")))
                raw.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), owner))
            except psycopg.errors.DuplicateDatabase:
                # Another process was faster.
                pass
            except psycopg.Error as error:
                raise SandboxUnavailable(
                    f"Evaluations run in a separate database, {name}, which does not exist and could not be created "
                    f"({error.diag.message_primary or error}). As an administrator, run CREATE DATABASE {name} OWNER "
                    f"{parameters.get('user')}; and in that database CREATE EXTENSION vector."
                ) from error
            _disable_durability(raw, name)
    return _make_url(parameters, name)


def _copy_new_database(parameters: dict[str, Any], name: str) -> bool:
    """Copy the live database if it is still empty, which is faster than migrating; return whether that worked.

    Not where its tables belong to another role: those of a sandbox belong to the application, which empties them.
    """
    if settings.ERL_DATABASE_OWNER or connection.in_atomic_block:
        return False
    # A copy of a database with data would hand live runs to an evaluation.
    if Project.objects.exists() or get_user_model().objects.exists():
        return False
    # A database in use cannot be copied.
    connection.close()
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    try:
        with psycopg.connect(**parameters | {"dbname": "postgres"}, autocommit=True) as raw:
            raw.execute(statement.format(sql.Identifier(name), sql.Identifier(parameters["dbname"])))
            _disable_durability(raw, name)
    except psycopg.Error as error:
        log.debug("sandbox_not_copied", error=type(error).__name__)
        return False
    return True


def _find_creator(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return how to connect in order to make a database: as the owner of the tables, if one is set."""
    return parameters | {name.lower(): value for name, value in settings.ERL_DATABASE_OWNER.items() if value}


def _disable_durability(raw: psycopg.Connection[Any], name: str) -> None:
    """Do not wait for the disk at commit: a sandbox need not survive a crash."""
    raw.execute(sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(sql.Identifier(name)))


def sandbox_environment(url: str, *, provider: bool = False) -> dict[str, str]:
    """Return the environment of an evaluating process: the sandbox and the embedder, no live service.

    Args:
        provider: include the settings of the language model, for suites and arms that use one.
    """
    # Nothing that names a live service may reach the process.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("ERL_", "CELERY_", "DATABASE_"))}
    embedder = {name: _write_setting(getattr(settings, name)) for name in _PASSED_ON}
    return kept | embedder | (_provider_environment() if provider else {}) | {
        "PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH", "")])),  # noqa: PTH109
        "DATABASE_URL": url,
        "CELERY_BROKER_URL": "memory://",
        "ERL_ENV_FILE": os.devnull,
        "ERL_SECRET_KEY": "sandbox-without-requests" * 3,
        "ERL_LOG_LEVEL": "ERROR",
        "DJANGO_SETTINGS_MODULE": os.environ.get("DJANGO_SETTINGS_MODULE", "erl_site.settings"),
    }  # fmt: skip


def _provider_environment() -> dict[str, str]:
    names = [name for name in dir(settings) if name.startswith(("ERL_LLM_", "ERL_REFLECTOR", "ERL_LESSONS_"))]
    return {name: _write_setting(getattr(settings, name)) for name in names}


def _write_setting(value: Any) -> str:
    """Return a setting as the environment has it: lists with commas, objects as JSON."""
    if isinstance(value, dict):
        return json.dumps(value)
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def lock_sandbox(lock: int) -> None:
    """Lock the sandbox for as long as this process is connected.

    Raises:
        SandboxTaken: another evaluation holds the lock.
    """
    _ensure_sandbox()
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        with connection.cursor() as cursor:
            # A lock of the session: PostgreSQL frees it when the process dies.
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [lock])
            if cursor.fetchone()[0]:
                return
        if time.monotonic() > deadline:
            raise SandboxTaken("Another evaluation is running in the sandbox. Wait until it has finished.")
        time.sleep(0.2)


def prepare_sandbox() -> None:
    """Migrate the sandbox."""
    _ensure_sandbox()
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        call_command("migrate", verbosity=0, interactive=False)


def empty_sandbox() -> None:
    """Truncate the sandbox's tables and reset their sequences."""
    _ensure_sandbox()
    tables = sorted({model._meta.db_table for name in APPS for model in apps.get_app_config(name).get_models()})
    names = sql.SQL(", ").join(map(sql.Identifier, tables))
    for left in (2, 1, 0):
        try:
            with connection.cursor() as cursor:
                cursor.execute(
                    sql.SQL("TRUNCATE {} RESTART IDENTITY CASCADE").format(names).as_string(cursor.connection)
                )
        except OperationalError as error:
            # A thread of this process may still be reading the tables.
            if not left or not isinstance(error.__cause__, psycopg.errors.DeadlockDetected):
                raise
        else:
            return


def _ensure_sandbox() -> None:
    """Refuse to continue in any database that is not a sandbox."""
    name = str(connection.settings_dict["NAME"])
    if not _SANDBOX.search(name):
        raise EvaluationError(
            f"{name} is not a sandbox, since its name does not end with {SUFFIX}. Nothing was changed."
        )


def _make_url(parameters: dict[str, Any], name: str) -> str:
    user, password = (
        quote(str(parameters.get("user") or ""), safe=""),
        quote(str(parameters.get("password") or ""), safe=""),
    )
    host, port = str(parameters.get("host") or "localhost"), str(parameters.get("port") or 5432)
    credentials = f"{user}:{password}@" if password else f"{user}@" if user else ""
    # A server that insists on TLS would refuse the sandbox without them.
    extra = {key: str(value) for key, value in parameters.items() if key.startswith("ssl")}
    # A socket's folder does not fit into the place of a host, so it goes into the query.
    if host.startswith("/"):
        return f"postgresql://{credentials}/{quote(name, safe='')}?{urlencode({'host': host, 'port': port} | extra)}"
    query = f"?{urlencode(extra)}" if extra else ""
    return f"postgresql://{credentials}{host}:{port}/{quote(name, safe='')}{query}"
