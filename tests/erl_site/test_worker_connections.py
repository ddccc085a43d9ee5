"""Workers keep their database connection between tasks, as CONN_MAX_AGE promises."""

import pytest
from celery.fixups.django import DjangoWorkerFixup  # type: ignore[attr-defined]  # the stubs lack it
from django.db import connection

from erl_site.celery import app, check_connections

pytestmark = pytest.mark.django_db(transaction=True)


def end_task() -> None:
    DjangoWorkerFixup(app).close_database()
    check_connections()


@pytest.mark.parametrize(("most_seconds", "is_kept"), [(600, True), (0, False)])
def test_connection_after_a_task(monkeypatch: pytest.MonkeyPatch, most_seconds: int, is_kept: bool) -> None:
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", most_seconds)
    connection.ensure_connection()
    before = connection.connection

    end_task()

    assert (connection.connection is before) is is_kept
    connection.close()
