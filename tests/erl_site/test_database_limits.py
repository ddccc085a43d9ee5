"""Time limits for statements, locks, transactions and dead clients (reliability C4)."""

import os
import subprocess
import sys
import threading

import psycopg
import pytest
from django.db import OperationalError, connection, transaction

from memory.projects.models import Project


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("statement_timeout", "0"),
        ("lock_timeout", "2s"),
        ("idle_in_transaction_session_timeout", "1min"),
        ("client_connection_check_interval", "250ms"),
    ],
)
def test_connections_carry_the_limit(name: str, value: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        assert cursor.fetchone() == (value,)


@pytest.mark.parametrize(
    "start", ["import erl_site.asgi", "from erl_site.quickstart.web import limit_statements; limit_statements()"]
)
def test_web_server_limits_its_statements(start: str) -> None:
    program = f"{start}; from django.conf import settings; print(settings.DATABASES['default']['OPTIONS']['options'])"
    environment = {k: v for k, v in os.environ.items() if k != "ERL_DATABASE_STATEMENT_TIMEOUT_SECONDS"}

    shown = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )

    assert "-c statement_timeout=5000ms" in shown.stdout


@pytest.mark.django_db(transaction=True)
def test_waiting_for_a_lock_ends() -> None:
    project = Project.objects.create(slug="a", name="A")
    locked, done = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Project.objects.select_for_update().get(pk=project.pk)
            locked.set()
            done.wait(30)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    locked.wait(30)
    try:
        with pytest.raises(OperationalError) as refused, transaction.atomic():
            Project.objects.select_for_update().get(pk=project.pk)
    finally:
        done.set()
        holder.join()

    assert isinstance(refused.value.__cause__, psycopg.errors.LockNotAvailable)
