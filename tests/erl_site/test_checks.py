"""`manage.py check` finds configuration errors and gives hints."""

from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django.db import connection
from django.test import override_settings

from erl_site import preflight
from erl_site.checks import database


def ids(messages: list[CheckMessage]) -> list[str]:
    return [str(message.id) for message in messages]


def test_default_configuration_is_clean() -> None:
    assert run_checks() == []


@pytest.mark.django_db
def test_embedded_database_has_all_that_is_needed() -> None:
    assert run_checks(tags=["database"], databases=["default"]) == []


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"ERL_API_PORT": 0}, "erl.limits.E001"),
        ({"ERL_API_MAX_REQUEST_BYTES": 10}, "erl.limits.E001"),
        ({"ERL_IDEMPOTENCY_HOURS": 0}, "erl.limits.E001"),
        ({"ERL_EMBEDDER_DIMENSIONS": 5_000}, "erl.limits.E001"),
        ({"ERL_REFLECTION_LEASE_SECONDS": 0.1}, "erl.limits.E001"),
        ({"DATABASE_URL": "sqlite:///erl.db"}, "erl.services.E001"),
        ({"ERL_EMBEDDED_BROKER": False, "CELERY_BROKER_URL": "amqp://host"}, "erl.services.E003"),
        ({"ERL_EMBEDDER": "openai"}, "erl.services.E005"),
        ({"ERL_EMBEDDER": "http", "ERL_EMBEDDER_MODEL": "m"}, "erl.services.E006"),
        ({"ERL_EMBEDDER": "http", "ERL_EMBEDDER_BASE_URL": "https://host/v1"}, "erl.services.E007"),
        ({"ERL_RERANK_URL": "http://reranker:8080/rerank"}, "erl.services.E008"),
    ],
)
def test_wrong_setting_is_found(settings: dict[str, Any], expected: str) -> None:
    with override_settings(**settings):
        found = run_checks()

    assert ids(found) == [expected]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"DATABASE_URL": ""}, "erl.deploy.W001"),
        ({"ERL_EMBEDDED_BROKER": True}, "erl.deploy.W002"),
        ({"ERL_EMBEDDED_DURABLE": False}, "erl.deploy.W003"),
        ({"ERL_ADMIN_OTP": False}, "erl.deploy.W004"),
        ({"ERL_HTTPS": True, "ERL_PROXY_COUNT": 0}, "erl.deploy.W005"),
        ({"ERL_FAILPOINTS": ["review.before_commit=crash"]}, "erl.deploy.W006"),
    ],
)
def test_laptop_setting_is_found_in_a_deployment(settings: dict[str, Any], expected: str) -> None:
    with override_settings(**settings):
        assert expected in ids(run_checks(include_deployment_checks=True))
        assert expected not in ids(run_checks())


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("MIN_POSTGRES", 99, "erl.database.E001"),
        ("EXTENSIONS", ("vector", "no_such_extension"), "erl.database.E001"),
        ("MIN_PGVECTOR", (99, 0, 0), "erl.database.E001"),
    ],
)
def test_database_that_lacks_something_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, value: Any, expected: str
) -> None:
    monkeypatch.setattr(preflight, name, value)

    found = database.check_database(databases=[connection.alias])

    assert ids(found) == [expected]
