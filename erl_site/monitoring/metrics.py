"""Prometheus metrics, read from the database, so every process reports the same values."""

from collections.abc import Iterator
from datetime import timedelta

from django.db import connection
from django.db.models import Count, Sum
from django.utils import timezone
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from memory.api.models import IdempotencyRecord
from memory.heuristics.models import Heuristic
from memory.projects.models import ApiKey
from memory.trust.models import Erasure, QuarantineOrder
from reflection.jobs.models import WorkerHeartbeat
from reflection.llm.models import DailySpend, ProviderState
from reflection.reflectors.models import Reflection

ALIVE_SECONDS = 30


class DatabaseCollector(Collector):
    """Queries the database at every scrape; each metric is one indexed statement."""

    def collect(self) -> Iterator[Metric]:
        yield _by("erl_reflections", "Reflections by status.", "status", _count(Reflection, "status"))
        age = Reflection.objects.oldest_due_age_seconds()
        yield GaugeMetricFamily(
            "erl_oldest_due_reflection_age_seconds", "How long the oldest due reflection has waited.", value=age
        )
        yield _by("erl_heuristics", "Lessons by status.", "status", _count(Heuristic, "status"))
        since = timezone.now() - timedelta(seconds=ALIVE_SECONDS)
        alive = WorkerHeartbeat.objects.filter(seen_at__gte=since).count()
        yield GaugeMetricFamily("erl_workers_alive", "Workers seen in the last 30 seconds.", value=alive)
        open_ = {row.provider: float(row.state != ProviderState.State.CLOSED) for row in ProviderState.objects.all()}
        yield _by("erl_provider_left_alone", "1 while a provider is paused because of failures.", "provider", open_)
        spent = DailySpend.objects.aggregate(calls=Sum("calls"), tokens=Sum("tokens"), cost=Sum("cost_usd"))
        for name, value in (("calls", spent["calls"]), ("tokens", spent["tokens"]), ("cost_usd", spent["cost"])):
            yield CounterMetricFamily(f"erl_model_{name}", f"Model {name} used so far.", value=float(value or 0))
        soon = timezone.now() + timedelta(days=14)
        ending = ApiKey.objects.usable().filter(expires_at__lte=soon).count()
        yield GaugeMetricFamily("erl_api_keys_ending", "API keys that expire within 14 days.", value=ending)
        stored = IdempotencyRecord.objects.count()
        yield GaugeMetricFamily("erl_idempotency_records", "Stored idempotent answers.", value=stored)
        yield CounterMetricFamily("erl_erasures", "Runs erased.", value=Erasure.objects.count())
        yield CounterMetricFamily("erl_quarantine_orders", "Quarantine orders.", value=QuarantineOrder.objects.count())
        yield from _server()


def _server() -> Iterator[Metric]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), "
            "current_setting('max_connections')::int, pg_database_size(current_database())"
        )
        used, allowed, size = cursor.fetchone()
    yield GaugeMetricFamily("erl_database_connections", "Connections in use.", value=used)
    yield GaugeMetricFamily("erl_database_connections_max", "Connections the server allows.", value=allowed)
    yield GaugeMetricFamily("erl_database_bytes", "Size of the database.", value=size)


def _count(model: type[Reflection] | type[Heuristic], field: str) -> dict[str, float]:
    rows = model._default_manager.order_by().values_list(field).annotate(n=Count("pk"))
    return {status: float(n) for status, n in rows}


def _by(name: str, documentation: str, label: str, values: dict[str, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, documentation, labels=[label])
    for value, figure in values.items():
        family.add_metric([value], figure)
    return family
