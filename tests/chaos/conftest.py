"""What the chaos tests share."""

from collections.abc import Iterator

import pytest
from django.conf import settings
from django.db import connection
from pytest_django.plugin import DjangoDbBlocker

from tests.chaos.web import ChaosWeb
from tests.servers import HOME
from tests.stack import database_url


@pytest.fixture(scope="session")
def served_environment(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> dict[str, str]:
    """What a process needs to serve the tests' database."""
    with django_db_blocker.unblock():
        connection.ensure_connection()
        url = database_url(connection.settings_dict)
        connection.close()
    return {"DATABASE_URL": url, "CELERY_BROKER_URL": settings.CELERY_BROKER_URL, "ERL_LOG_LEVEL": "WARNING"}


@pytest.fixture(scope="package")
def chaos_web(served_environment: dict[str, str]) -> Iterator[ChaosWeb]:
    """A web server on the tests' database whose workers may be killed: its master replaces them."""
    web = ChaosWeb(home=HOME, environment=served_environment | {"TEST_DATABASE_CONN_MAX_AGE": "600"})
    web.start_web()
    try:
        yield web
    finally:
        web.kill_all()
