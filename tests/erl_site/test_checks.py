"""`manage.py check` finds configuration errors and gives hints."""

import re
from typing import Any

import pytest
from django.conf import settings
from django.core.checks import INFO, WARNING, CheckMessage, run_checks
from django.db import connection
from django.test import override_settings

from erl_site import preflight
from erl_site.checks import database
from erl_site.checks.names import ELSEWHERE, FORMER
from erl_site.settings import SettingReader
from tests.stack import ROOT

ENCRYPTION = {"erl.deploy.W006", "erl.deploy.W007"}


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
        ({"ERL_LISTEN": "127.0.0.1"}, "erl.services.E010"),
        ({"ERL_LISTEN": "127.0.0.1:http"}, "erl.services.E010"),
        ({"ERL_PATH_PREFIX": "/admin"}, "erl.services.E011"),
        ({"ERL_PATH_PREFIX": "/a b"}, "erl.services.E011"),
        ({"ERL_HTTP_PROXY": "proxy.internal"}, "erl.services.E012"),
        ({"ERL_HTTP_PROXY": "http://proxy.internal"}, "erl.services.E012"),
        ({"ERL_API_MAX_REQUEST_BYTES": 10}, "erl.limits.E001"),
        ({"ERL_RETENTION_DAYS": -1}, "erl.limits.E001"),
        ({"DATABASE_URL": "sqlite:///erl.db"}, "erl.services.E001"),
        (
            {"DATABASE_URL": "postgresql://erl@db/erl", "DATABASE_OWNER_URL": "postgresql://erl_owner@db/test"},
            "erl.services.E013",
        ),
        ({"ERL_EMBEDDED_BROKER": False, "CELERY_BROKER_URL": "amqp://host"}, "erl.services.E003"),
        ({"ERL_EMBEDDER": "openai"}, "erl.services.E005"),
        ({"ERL_EMBEDDER": "http://host/v1?model=m&dimensions=2"}, "erl.services.E006"),
        ({"ERL_EMBEDDER": "https://host/v1?model=m"}, "erl.services.E007"),
        ({"ERL_EMBEDDER": "https://host/v1?model=m&dimensions=5000"}, "erl.services.E007"),
        ({"ERL_RERANK_URL": "http://reranker:8080/rerank"}, "erl.services.E008"),
        ({"ERL_RERANK_URL": "https://reranker/rerank?format=other"}, "erl.services.E008"),
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
        ({"ERL_ADMIN_OTP": False}, "erl.deploy.W004"),
        ({"ERL_HTTPS": True, "ERL_PROXY_COUNT": 0}, "erl.deploy.W005"),
    ],
)
def test_laptop_setting_is_found_in_a_deployment(settings: dict[str, Any], expected: str) -> None:
    with override_settings(**settings):
        assert expected in ids(run_checks(include_deployment_checks=True))
        assert expected not in ids(run_checks())


def connections(monkeypatch: pytest.MonkeyPatch, *, database: str, broker: str) -> list[tuple[str, int]]:
    """Return what the check of a deployment says about its connections: the ids and levels of its messages."""
    settings_of = SettingReader().db_url_config(database)
    monkeypatch.setitem(settings.DATABASES, "default", {"OPTIONS": {}} | settings_of)
    with override_settings(DATABASE_URL=database, CELERY_BROKER_URL=broker, ERL_EMBEDDED_BROKER=False):
        found = run_checks(tags=["security"], include_deployment_checks=True)
    return [(str(message.id), message.level) for message in found if message.id in ENCRYPTION]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", [("erl.deploy.W006", WARNING)]),
        ("?sslmode=require", [("erl.deploy.W006", WARNING)]),
        ("?sslmode=verify-full", []),
    ],
)
def test_database_whose_certificate_is_not_checked_is_found(
    monkeypatch: pytest.MonkeyPatch, options: str, expected: list[tuple[str, int]]
) -> None:
    database = f"postgresql://erl:x@db.example.com/erl{options}"

    assert connections(monkeypatch, database=database, broker="rediss://mq.example.com/0") == expected


def test_unencrypted_broker_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    found = connections(monkeypatch, database="postgresql://erl@localhost/erl", broker="redis://:x@10.0.0.7:6379/0")

    assert found == [("erl.deploy.W007", WARNING)]


def test_neighbours_among_containers_are_only_mentioned(monkeypatch: pytest.MonkeyPatch) -> None:
    found = connections(monkeypatch, database="postgresql://erl@database/erl", broker="redis://broker:6379/0")

    assert found == [("erl.deploy.W006", INFO), ("erl.deploy.W007", INFO)]


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


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ERL_API_PORT", "Write ERL_LISTEN=host:port."),
        ("ERL_LLM_MODLE", "Is ERL_LLM_MODEL meant? docs/configuration.md lists all settings."),
        ("ERL_ANYTHING_ELSE_AT_ALL", "Remove it, or find its name in docs/configuration.md."),
    ],
)
def test_name_that_no_setting_has_is_found(monkeypatch: pytest.MonkeyPatch, name: str, hint: str) -> None:
    monkeypatch.setenv(name, "1")

    found = run_checks(tags=["names"])

    assert ids(found) == ["erl.names.W001"]
    assert found[0].hint == hint


def test_names_of_the_compose_file_are_known() -> None:
    named = set(re.findall(r"\$\{(ERL_\w+)", (ROOT / "compose.yaml").read_text(encoding="utf-8")))

    assert named - ELSEWHERE - settings.ERL_NAMES == set()


def test_former_settings_are_gone() -> None:
    assert FORMER.keys() & settings.ERL_NAMES == set()
