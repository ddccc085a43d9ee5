"""The metrics for Prometheus."""

import socket
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.urls import Resolver404, resolve
from prometheus_client.parser import text_string_to_metric_families

from reflection.jobs.models import WorkerHeartbeat
from reflection.llm.base import ProviderError
from reflection.llm.breaker import FAILURES, note_failure
from tests.factories import make_heuristic, make_reflection

pytestmark = pytest.mark.django_db


def scrape() -> dict[tuple[str, ...], float]:
    output = StringIO()
    call_command("serve_metrics", "--once", stdout=output)
    families = text_string_to_metric_families(output.getvalue())
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def test_metrics_match_the_rows(django_assert_max_num_queries: Any) -> None:
    make_reflection()
    make_reflection(status="dead")
    make_heuristic(status="approved")
    WorkerHeartbeat.objects.create(name="w@1/1")
    for _ in range(FAILURES):
        note_failure("openai", ProviderError("down", transient=True, code="timeout"))

    with django_assert_max_num_queries(15):
        figures = scrape()

    assert figures["erl_reflections", "queued"] == figures["erl_reflections", "dead"] == 1
    assert figures["erl_heuristics", "approved"] == 1
    assert figures["erl_workers_alive",] == figures["erl_provider_left_alone", "openai"] == 1
    assert 0 <= figures["erl_oldest_due_reflection_age_seconds",] < 60
    assert figures["erl_database_bytes",] > 0


def test_public_listener_has_no_metrics() -> None:
    with pytest.raises(Resolver404):
        resolve("/metrics")


def test_port_that_is_taken_is_said() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(CommandError, match="cannot be used: Address already in use"),
    ):
        call_command("serve_metrics", "--port", str(taken.getsockname()[1]))


@pytest.mark.parametrize("port", ["-1", "65536", "99999999999999999999"])
def test_port_that_is_none_is_refused(port: str) -> None:
    with pytest.raises(CommandError, match="is not a whole number from 0 to 65,535"):
        call_command("serve_metrics", "--port", port)
