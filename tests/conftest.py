"""Fixtures for all tests."""

import gc
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.signals import setting_changed
from django.db import OperationalError, connection, transaction
from django.dispatch import receiver
from django.test import Client, TransactionTestCase
from psycopg import sql
from psycopg.conninfo import make_conninfo
from pytest_django.plugin import DjangoDbBlocker

from erl_site.embedded import postgres, roles, valkey
from evaluation.isolation.sandbox import create_sandbox
from memory.projects.models import Project
from tests.factories import make_member, make_project
from tests.servers import HOME
from tests.stack import Stack, database_url, kill_workers

# Tests make databases, change tables and switch triggers off. Processes they start connect as the application does.
settings.DATABASES["default"]["USER"] = roles.OWNER
settings.ERL_DATABASE_OWNER = {}
settings.WHITENOISE_AUTOREFRESH = True  # otherwise every client of a test reads all static files first


def pytest_collection_finish() -> None:
    # What was loaded and collected stays: to look through it again and again took a sixth of the time of all tests.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


@receiver(setting_changed)
def _read_embedder_again(*, setting: str, **change: Any) -> None:
    """Let no test keep the embedder that the settings of another asked for."""
    if setting.startswith("ERL_EMBEDDER"):
        from memory.embeddings.registry import get_embedder  # once the apps are there

        get_embedder.cache_clear()


def empty_tables(test: TransactionTestCase | None = None) -> None:
    """Take back what a test committed, as Django's `flush` would, without making empty files of all tables and indexes.

    Content types and permissions, which `flush` makes again, stay. What others are about to commit is waited for.
    """
    kept = {"django_content_type", "auth_permission"}
    tables = sorted({*connection.introspection.django_table_names(only_existing=True, include_views=False)} - kept)
    listed = sql.SQL(", ").join(map(sql.Identifier, tables))
    empty = sql.SQL("; ").join(sql.SQL("DELETE FROM {}").format(sql.Identifier(table)) for table in tables)
    for is_last in (False, False, True):
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SET LOCAL session_replication_role = replica")  # audit and reviews refuse to be deleted
                lock = sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(listed)
                cursor.execute(lock.as_string(cursor.connection))
                cursor.execute(empty.as_string(cursor.connection))
                cursor.execute("SELECT lo_unlink(oid) FROM pg_largeobject_metadata")  # what rows of jobs referred to
            return
        except OperationalError:  # a deadlock with a request that a test left under way
            if is_last:
                raise


TransactionTestCase._fixture_teardown = empty_tables  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def broker() -> str:
    """URL of the throw-away Valkey, running."""
    return valkey.ensure(HOME / "valkey", durable=False)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Let the owner of the tables do here what in production only an administrator may."""
    url = make_conninfo(postgres.ensure(HOME / "postgres", durable=settings.ERL_EMBEDDED_DURABLE), dbname="postgres")
    with psycopg.connect(url, user=roles.ADMINISTRATOR, autocommit=True) as server:
        server.execute(sql.SQL("ALTER ROLE {} SUPERUSER").format(sql.Identifier(roles.OWNER)))


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The tests' database, which nobody is connected to any more when it is dropped.

    A process that a test left or killed may be for a while, as far as PostgreSQL knows. What else wants tables has them
    from here, while there are no rows: evaluations in their sandbox, and homes in which the database is not what is
    tested (`migrated_home`).
    """
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        cursor.execute("SELECT memory_grant_application(%s)", [roles.APPLICATION])
    with django_db_blocker.unblock():
        give_to_application(create_sandbox())
        copy_tests_database("erl")
    yield
    with django_db_blocker.unblock():
        connection.close()
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )


def give_to_application(url: str) -> None:
    """Let a sandbox belong to the application, as one that the application asked for does."""
    owner, application = sql.Identifier(roles.OWNER), sql.Identifier(roles.APPLICATION)
    tests = sql.Identifier(str(connection.settings_dict["NAME"]))
    with psycopg.connect(url, autocommit=True) as sandbox:
        sandbox.execute(sql.SQL("REASSIGN OWNED BY {} TO {}").format(owner, application))
        sandbox.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(tests, owner))  # went along


def copy_tests_database(name: str) -> None:
    """Make the tables of the tests' database those of another of the same server, which is empty."""
    parameters = connection.get_connection_params()
    connection.close()  # what is copied may not be in use
    this, other = sql.Identifier(parameters["dbname"]), sql.Identifier(name)
    with psycopg.connect(**parameters | {"dbname": "postgres"}, autocommit=True) as server:
        server.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(other))
        server.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(other, this))


@pytest.fixture(scope="session")
def stack_processes(broker: str, django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Stack]:
    """Web server and worker on the tests' database, started once. Tests take `stack`."""
    with django_db_blocker.unblock():
        connection.ensure_connection()
        url = database_url(connection.settings_dict | {"USER": roles.APPLICATION})
    stack = Stack(home=HOME, environment={"DATABASE_URL": url, "CELERY_BROKER_URL": settings.CELERY_BROKER_URL})
    try:
        stack.start_web()
        stack.start_worker()
        yield stack
    finally:
        stack.kill_all()


@pytest.fixture(scope="module")
def _worker_until_here(stack_processes: Stack, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """End the worker of `stack` with the module that used it, and take back its signs of life.

    It shares the tests' database: beside the tests of other modules it would write rows that they count.
    """
    from reflection.jobs.models import WorkerHeartbeat  # once the apps are there

    yield
    if "worker" in stack_processes.processes:
        stack_processes.kill("worker")
    with django_db_blocker.unblock():
        WorkerHeartbeat.objects.all().delete()


@pytest.fixture
def stack(stack_processes: Stack, _worker_until_here: None, transactional_db: None) -> Stack:
    """Gunicorn and a Celery worker as processes of their own, on the tests' database.

    A test that stopped or killed one of them needs no clean-up: what is missing is started again for the next.
    """
    if "web" not in stack_processes.processes:
        stack_processes.start_web()
    if "worker" not in stack_processes.processes:
        stack_processes.start_worker()
    return stack_processes


@pytest.fixture(autouse=True)
def _services_unknown() -> None:
    """Let no test do without a service because it failed in another."""
    from memory.retrieval import cross_encoder, llm_ranking, task_vector  # once the apps are there

    for service in (cross_encoder, llm_ranking, task_vector):
        service.breaker.reset()


@pytest.fixture(autouse=True)
def _queue_to_itself(request: pytest.FixtureRequest) -> None:
    """Keep the worker of `stack` away from the rows of tests that commit and did not ask for it."""
    marker = request.node.get_closest_marker("django_db")
    commits = "transactional_db" in request.fixturenames or (marker and marker.kwargs.get("transaction"))
    if commits and "stack" not in request.fixturenames:
        kill_workers()


@pytest.fixture
def project() -> Project:
    return make_project()


@pytest.fixture
def reviewer(client: Client) -> Client:
    client.force_login(make_member("ana"))
    return client
