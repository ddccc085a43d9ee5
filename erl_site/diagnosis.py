"""What a deployment looks like from inside, and what to do about it (`manage.py doctor`)."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

from django.conf import settings
from django.core import checks as system_checks
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Q
from django.utils import timezone

from erl_site import health
from memory.counting import say_count
from memory.models import ApiKey
from memory.services.embed_heuristics import find_heuristics_without_vectors
from reflection.models import ProviderState, Reflection, WorkerHeartbeat

EXPIRES_SOON = timedelta(days=14)
WORKER_ALIVE_SECONDS = 30
CLOCK_SECONDS = 2.0
WAITING_SECONDS = 60.0
STUCK_SECONDS = 600.0
DISK_LOW, DISK_FULL = 0.10, 0.03
CONNECTIONS_HIGH = 0.8


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


def _ok(name: str, message: str) -> Finding:
    return Finding(name=name, status=Status.OK, message=message)


def _warning(name: str, message: str, todo: str) -> Finding:
    return Finding(name=name, status=Status.WARNING, message=message, todo=todo)


def _failure(name: str, message: str, todo: str) -> Finding:
    return Finding(name=name, status=Status.FAILURE, message=message, todo=todo)


def check_settings() -> Iterator[Finding]:
    found = system_checks.run_checks(include_deployment_checks=settings.ERL_HTTPS, databases=["default"])
    for message in found:
        if message.level >= system_checks.WARNING and not message.is_silenced():
            make = _failure if message.level >= system_checks.ERROR else _warning
            yield make("settings", f"{message.id}: {message.msg}", message.hint or "See manage.py check.")
    if not any(message.level >= system_checks.WARNING for message in found):
        yield _ok("settings", "The settings, the server's version and its extensions are right.")


def check_migrations() -> Iterator[Finding]:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        yield _failure("migrations", f"{len(plan)} migrations are not applied.", "Run manage.py migrate.")
    else:
        yield _ok("migrations", "All migrations are applied.")


def check_durability() -> Iterator[Finding]:
    off = [name for name in ("fsync", "full_page_writes", "synchronous_commit") if _show(name) == "off"]
    if off:
        todo = "Turn them on, or a crash of the machine loses what was acknowledged."
        yield _failure("durability", f"PostgreSQL runs with {', '.join(off)} off.", todo)
    else:
        yield _ok("durability", "What is acknowledged is on the disk.")
    if _show("data_checksums") != "on":
        yield _warning("checksums", "Pages have no checksums.", "Stop PostgreSQL and run pg_checksums --enable.")


def check_indexes() -> Iterator[Finding]:
    invalid = [name for (name,) in _rows("SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid")]
    if invalid:
        todo = "Run REINDEX INDEX CONCURRENTLY for each: its building was broken off."
        yield _failure("indexes", f"Not valid: {', '.join(invalid)}.", todo)
    else:
        yield _ok("indexes", "Every index is valid.")


def check_clock() -> Iterator[Finding]:
    ((there,),) = _rows("SELECT clock_timestamp()")
    apart = abs((timezone.now() - there).total_seconds())
    if apart > CLOCK_SECONDS:
        todo = "Let both machines keep their time by NTP. Leases and budgets go by the database's clock."
        yield _warning("clock", f"This machine and the database are {apart:.0f} seconds apart.", todo)
    else:
        yield _ok("clock", "This machine and the database agree on the time.")


def check_connections() -> Iterator[Finding]:
    ((used, allowed),) = _rows(
        "SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), "
        "current_setting('max_connections')::int"
    )
    if used > CONNECTIONS_HIGH * allowed:
        todo = "Lower the number of processes, put a pooler in between, or raise max_connections."
        yield _warning("connections", f"{used} of {allowed} connections are in use.", todo)
    else:
        yield _ok("connections", f"{used} of {allowed} connections are in use.")
    stuck = _rows(
        "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction' AND xact_start < now() - interval '1 min'"
    )
    if stuck:
        pids = ", ".join(str(pid) for (pid,) in stuck)
        todo = "Find out who holds them; SELECT pg_terminate_backend(pid) ends one."
        yield _warning("transactions", f"Open and idle for more than a minute: {pids}.", todo)


def check_keys() -> Iterator[Finding]:
    soon = timezone.now() + EXPIRES_SOON
    ending = ApiKey.objects.usable().filter(expires_at__lte=soon).select_related("project").order_by("expires_at")
    for key in ending:
        assert key.expires_at is not None  # by the filter
        todo = f"Run manage.py rotate_api_key {key.prefix} and give {key.client} the new key."
        yield _warning("keys", f"{key} of {key.project} ends on {key.expires_at:%Y-%m-%d}.", todo)
    if not ending:
        yield _ok("keys", f"No key ends within {EXPIRES_SOON.days} days.")


def check_queue() -> Iterator[Finding]:
    age = Reflection.objects.oldest_due_age_seconds()
    if age > WAITING_SECONDS:
        make = _failure if age > STUCK_SECONDS else _warning
        todo = "See that workers run and reach the broker. manage.py run_reflections works without both."
        yield make("queue", f"A reflection has been due for {age:.0f} seconds.", todo)
    else:
        yield _ok("queue", "No reflection waits for long.")
    since = timezone.now() - timedelta(days=1)
    dead = Reflection.objects.filter(status=Reflection.Status.DEAD, finished_at__gte=since).count()
    if dead:
        todo = "Read why in the admin under reflections, remedy it, and queue them again there."
        yield _warning("dead reflections", f"{dead} were given up in the last 24 hours.", todo)


def check_workers() -> Iterator[Finding]:
    since = timezone.now() - timedelta(seconds=WORKER_ALIVE_SECONDS)
    alive = WorkerHeartbeat.objects.filter(seen_at__gte=since).count()
    if alive:
        yield _ok("workers", f"{say_count(alive, 'worker')} gave signs of life lately.")
        return
    waiting = Reflection.objects.live().exists()
    make = _failure if waiting else _warning
    yield make("workers", "No worker shows a sign of life.", "Start one: celery --app=erl_site worker.")


def check_broker() -> Iterator[Finding]:
    if health.broker.succeeds():
        yield _ok("broker", "The broker answers.")
    else:
        todo = "Start it or correct CELERY_BROKER_URL. Nothing is lost meanwhile; reflections are only later."
        yield _warning("broker", "The broker does not answer.", todo)


def check_providers() -> Iterator[Finding]:
    resting = ProviderState.objects.exclude(state=ProviderState.State.CLOSED)
    for row in resting:
        todo = "Look at the provider's status page and the address and key in the settings; it is tried by itself."
        yield _warning("providers", f"{row.provider} failed {row.failures} times ({row.last_error_code}).", todo)
    if not resting:
        yield _ok("providers", "No language model is left alone for failing.")


def check_vectors() -> Iterator[Finding]:
    lacking = len(find_heuristics_without_vectors())
    if lacking:
        todo = "Workers make them within a minute; manage.py reembed does it at once."
        yield _warning("vectors", f"{say_count(lacking, 'lesson')} without vectors, found by words alone.", todo)
    else:
        yield _ok("vectors", "Every lesson has its vectors.")


def check_serving_role() -> Iterator[Finding]:
    known = _rows("SELECT 1 FROM pg_roles WHERE rolname = 'erl_serving'")
    if known:
        yield _ok("serving role", "The role that reads approved lessons alone is there.")
    else:
        todo = "Let a superuser create it and give it the grants that docs/reliability.md lists."
        yield _warning("serving role", "The role erl_serving does not exist.", todo)


def check_tenant_role() -> Iterator[Finding]:
    role = settings.ERL_TENANT_ROLE or "erl_tenant"
    known = _rows("SELECT pg_has_role(oid, 'MEMBER') FROM pg_roles WHERE rolname = %s", [role])
    if known == [(True,)]:
        used = "runs requests" if settings.ERL_TENANT_ROLE else "could run requests (ERL_TENANT_ROLE)"
        yield _ok("tenant role", f"The role {role}, which sees one project alone, {used}.")
    else:
        make = _failure if settings.ERL_TENANT_ROLE else _warning
        todo = "Let a superuser create it and grant it to this user, then run SELECT memory_grant_tenant()."
        yield make("tenant role", f"The role {role} does not exist, or this user may not take it.", todo)


def check_disk() -> Iterator[Finding]:
    if settings.DATABASE_URL:
        return  # it is another machine's disk
    usage = shutil.disk_usage(settings.ERL_HOME if settings.ERL_HOME.exists() else settings.ERL_HOME.parent)
    free = usage.free / usage.total
    if free < DISK_LOW:
        make = _failure if free < DISK_FULL else _warning
        yield make("disk", f"{free:.0%} of the disk of {settings.ERL_HOME} is free.", "Make room, or move ERL_HOME.")
    else:
        yield _ok("disk", f"{free:.0%} of the disk is free.")


def check_unused_keys() -> Iterator[Finding]:
    long_ago = timezone.now() - timedelta(days=90)
    unused = ApiKey.objects.usable().filter(
        Q(last_used_at__lt=long_ago) | Q(last_used_at__isnull=True, created_at__lt=long_ago)
    )
    for key in unused:
        todo = f"Run manage.py revoke_api_key {key.prefix} if nobody needs it."
        yield _warning("unused keys", f"{key} was not used for 90 days.", todo)


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    check_settings,
    check_migrations,
    check_durability,
    check_indexes,
    check_clock,
    check_connections,
    check_disk,
    check_keys,
    check_unused_keys,
    check_queue,
    check_workers,
    check_broker,
    check_providers,
    check_vectors,
    check_serving_role,
    check_tenant_role,
)


def diagnose() -> list[Finding]:
    """Look at everything. A check that fails is a finding itself and does not keep the others from being made."""
    found: list[Finding] = []
    for check in CHECKS:
        try:
            found += check()
        except Error as error:
            name = check.__name__.removeprefix("check_")
            found.append(_failure(name, f"The database refused: {type(error).__name__}.", "See that it runs: /ready."))
            connection.close()
    return found


def _rows(statement: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


def _show(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        return str(cursor.fetchone()[0])
