"""What is wrong with a deployment and what to do about it (`manage.py doctor`)."""

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta

from django.conf import settings
from django.core import checks as system_checks
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Q
from django.template.defaultfilters import pluralize
from django.utils import timezone

from erl_site.doctor.database import (
    Finding,
    check_archive,
    check_connections,
    check_durability,
    check_indexes,
    check_serving_role,
    check_tenant_role,
    failure,
    ok,
    rows,
    warning,
)
from erl_site.web import health
from memory.index.heuristic_vectors import find_heuristics_without_vectors
from memory.projects.models import ApiKey
from reflection.jobs.models import WorkerHeartbeat
from reflection.llm.models import ProviderState
from reflection.reflectors.models import Reflection

EXPIRES_SOON = timedelta(days=14)
WORKER_ALIVE_SECONDS = 30
CLOCK_SECONDS = 2.0
WAITING_SECONDS = 60.0
STUCK_SECONDS = 600.0
DISK_LOW, DISK_FULL = 0.10, 0.03


def check_settings() -> Iterator[Finding]:
    found = system_checks.run_checks(include_deployment_checks=settings.ERL_HTTPS, databases=["default"])
    for message in found:
        if message.level >= system_checks.WARNING and not message.is_silenced():
            make = failure if message.level >= system_checks.ERROR else warning
            yield make("settings", f"{message.id}: {message.msg}", message.hint or "See manage.py check.")
    if not any(message.level >= system_checks.WARNING for message in found):
        yield ok("settings", "The settings, the server's version and its extensions are right.")


def check_migrations() -> Iterator[Finding]:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        yield failure("migrations", f"{len(plan)} migrations are not applied.", "Run manage.py migrate.")
    else:
        yield ok("migrations", "All migrations are applied.")


def check_clock() -> Iterator[Finding]:
    ((there,),) = rows("SELECT clock_timestamp()")
    apart = abs((timezone.now() - there).total_seconds())
    if apart > CLOCK_SECONDS:
        todo = "Let both machines keep their time by NTP. Leases and budgets go by the database's clock."
        yield warning("clock", f"This machine and the database are {apart:.0f} seconds apart.", todo)
    else:
        yield ok("clock", "This machine and the database agree on the time.")


def check_keys() -> Iterator[Finding]:
    soon = timezone.now() + EXPIRES_SOON
    ending = ApiKey.objects.usable().filter(expires_at__lte=soon).select_related("project").order_by("expires_at")
    for key in ending:
        assert key.expires_at is not None  # by the filter
        todo = f"Run manage.py rotate_api_key {key.prefix} and give {key.client} the new key."
        yield warning("keys", f"{key} of {key.project} ends on {key.expires_at:%Y-%m-%d}.", todo)
    if not ending:
        yield ok("keys", f"No key ends within {EXPIRES_SOON.days} days.")


def check_queue() -> Iterator[Finding]:
    age = Reflection.objects.oldest_due_age_seconds()
    if age > WAITING_SECONDS:
        make = failure if age > STUCK_SECONDS else warning
        todo = "See that workers run and reach the broker. manage.py run_reflections works without both."
        yield make("queue", f"A reflection has been due for {age:.0f} seconds.", todo)
    else:
        yield ok("queue", "No reflection waits for long.")
    since = timezone.now() - timedelta(days=1)
    dead = Reflection.objects.filter(status=Reflection.Status.DEAD, finished_at__gte=since).count()
    if dead:
        todo = "Read why in the admin under reflections, remedy it, and queue them again there."
        yield warning("dead reflections", f"{dead} were given up in the last 24 hours.", todo)


def check_workers() -> Iterator[Finding]:
    since = timezone.now() - timedelta(seconds=WORKER_ALIVE_SECONDS)
    alive = WorkerHeartbeat.objects.filter(seen_at__gte=since).count()
    if alive:
        yield ok("workers", f"{alive:,} worker{pluralize(alive)} gave signs of life lately.")
        return
    waiting = Reflection.objects.live().exists()
    make = failure if waiting else warning
    yield make("workers", "No worker shows a sign of life.", "Start one: celery --app=erl_site worker.")


def check_broker() -> Iterator[Finding]:
    if health.broker.succeeds():
        yield ok("broker", "The broker answers.")
    else:
        todo = "Start it or correct CELERY_BROKER_URL. Nothing is lost meanwhile; reflections are only later."
        yield warning("broker", "The broker does not answer.", todo)


def check_providers() -> Iterator[Finding]:
    resting = ProviderState.objects.exclude(state=ProviderState.State.CLOSED)
    for row in resting:
        todo = "Look at the provider's status page and the address and key in the settings; it is tried by itself."
        yield warning("providers", f"{row.provider} failed {row.failures} times ({row.last_error_code}).", todo)
    if not resting:
        yield ok("providers", "No language model is left alone for failing.")


def check_vectors() -> Iterator[Finding]:
    lacking = len(find_heuristics_without_vectors())
    if lacking:
        todo = "Workers make them within a minute; manage.py reembed does it at once."
        yield warning("vectors", f"{lacking:,} lesson{pluralize(lacking)} without vectors, found by words alone.", todo)
    else:
        yield ok("vectors", "Every lesson has its vectors.")


def check_disk() -> Iterator[Finding]:
    if settings.DATABASE_URL:
        return  # it is another machine's disk
    usage = shutil.disk_usage(settings.ERL_HOME if settings.ERL_HOME.exists() else settings.ERL_HOME.parent)
    free = usage.free / usage.total
    if free < DISK_LOW:
        make = failure if free < DISK_FULL else warning
        yield make("disk", f"{free:.0%} of the disk of {settings.ERL_HOME} is free.", "Make room, or move ERL_HOME.")
    else:
        yield ok("disk", f"{free:.0%} of the disk is free.")


def check_unused_keys() -> Iterator[Finding]:
    long_ago = timezone.now() - timedelta(days=90)
    unused = ApiKey.objects.usable().filter(
        Q(last_used_at__lt=long_ago) | Q(last_used_at__isnull=True, created_at__lt=long_ago)
    )
    for key in unused:
        todo = f"Run manage.py revoke_api_key {key.prefix} if it is no longer needed."
        yield warning("unused keys", f"{key} was not used for 90 days.", todo)


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    check_settings,
    check_migrations,
    check_durability,
    check_indexes,
    check_clock,
    check_connections,
    check_archive,
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
    """Run every check. A check that crashes is a finding itself and does not stop the others."""
    found: list[Finding] = []
    for check in CHECKS:
        try:
            found += check()
        except Error as error:
            name = check.__name__.removeprefix("check_")
            found.append(failure(name, f"The database refused: {type(error).__name__}.", "See that it runs: /ready."))
            connection.close()
    return found
