import socket
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from django.db import connection
from django.test import Client, override_settings
from structlog.testing import capture_logs

from erl_site.embedded.roles import ADMINISTRATOR
from erl_site.web.application import waiting_requests
from erl_site.web.health import Probe
from tests.api.problems import error_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A server that accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


def test_health_asks_nobody(client: Client, django_assert_num_queries: object) -> None:
    with django_assert_num_queries(0):  # type: ignore[operator]
        response = client.get("/health")

    assert (response.status_code, response.json()) == (200, {"status": "ok"})


def test_waiting_says_how_many_requests_have_no_thread(client: Client) -> None:
    token = waiting_requests.set(3)
    response = client.get("/waiting")
    waiting_requests.reset(token)

    assert response.content == b"# TYPE erl_waiting_requests gauge\nerl_waiting_requests 3\n"


def test_ready_when_everything_answers(client: Client, broker: str) -> None:
    response = client.get("/ready")

    assert response.status_code == 200
    assert response.json() == {"status": "ready", "checks": {"database": "ok", "broker": "ok", "embedder": "ok"}}


@override_settings(CELERY_BROKER_URL="redis://127.0.0.1:1/0")
def test_ready_without_broker_is_degraded(client: Client) -> None:
    response = client.get("/ready")

    assert (response.status_code, response.json()["status"]) == (200, "degraded")
    assert response.json()["checks"]["broker"] == "unavailable"


def test_broker_that_hangs_costs_half_a_second(client: Client, silent_server: str) -> None:
    started = time.monotonic()
    with override_settings(CELERY_BROKER_URL=silent_server):
        response = client.get("/ready")

    assert response.json()["checks"]["broker"] == "unavailable"
    assert time.monotonic() - started < 1.5


@override_settings(CELERY_BROKER_URL="nonsense://")
def test_broker_address_that_makes_no_sense_is_degraded(client: Client) -> None:
    assert client.get("/ready").json()["checks"]["broker"] == "unavailable"


@override_settings(ERL_EMBEDDER="magic")
def test_ready_without_embedder_is_degraded(client: Client, broker: str) -> None:
    assert client.get("/ready").json() == {
        "status": "degraded",
        "checks": {"database": "ok", "broker": "ok", "embedder": "unavailable"},
    }


@override_settings(ERL_EMBEDDER="none")
def test_embedder_that_is_switched_off_is_not_missed(client: Client, broker: str) -> None:
    assert client.get("/ready").json()["status"] == "ready"


def test_not_ready_without_database(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connection.settings_dict, "NAME", "no_such_database")

    response = client.get("/ready")

    assert (response.status_code, response["Retry-After"]) == (503, "5")
    assert (response.json()["status"], response.json()["checks"]["database"]) == ("unavailable", "unavailable")
    assert response.json()["error"]["code"] == "database_unavailable"


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_watching_only_reads(client: Client, path: str) -> None:
    response = client.post(path)

    assert error_of(response) == (405, "method_not_allowed")
    assert response["Allow"] == "GET, HEAD"


def test_question_that_hangs_is_a_no_within_its_time() -> None:
    release = threading.Event()

    def ask() -> None:
        release.wait(30)

    probe = Probe("test", ask, seconds=0.05)
    started = time.monotonic()

    answers = [probe.succeeds(), probe.succeeds()]
    release.set()

    assert answers == [False, False]
    assert time.monotonic() - started < 5


def test_question_that_hangs_is_not_asked_again() -> None:
    asked = []
    release = threading.Event()

    def ask() -> None:
        asked.append(1)
        release.wait(30)

    probe = Probe("test", ask, seconds=0.01)
    answers = [probe.succeeds() for _ in range(5)]
    release.set()

    assert (any(answers), len(asked)) == (False, 1)


def test_probe_recovers_when_the_question_is_answered_again() -> None:
    failing = True

    def ask() -> None:
        if failing:
            raise OSError

    probe = Probe("test", ask, seconds=1)
    first = probe.succeeds()
    failing = False

    assert (first, probe.succeeds()) == (False, True)


def test_probe_says_once_that_something_changed() -> None:
    answers = iter([True, True, False, False, True])

    def ask() -> None:
        if not next(answers):
            raise OSError

    probe = Probe("test", ask, seconds=1)
    with capture_logs() as logs:
        for _ in range(5):
            probe.succeeds()

    assert [(log["log_level"], log["error"]) for log in logs] == [("warning", "OSError"), ("info", "")]


@pytest.fixture
def role_setting(transactional_db: None) -> Iterator[Callable[[str], None]]:
    """Change a setting of new sessions of the application's role in the tests' database."""
    config = connection.settings_dict
    with psycopg.connect(
        host=config["HOST"], port=config["PORT"], user=ADMINISTRATOR, dbname=config["NAME"], autocommit=True
    ) as administrator:
        role = f'ALTER ROLE "{config["USER"]}" IN DATABASE "{config["NAME"]}"'

        def change(setting: str) -> None:
            administrator.execute(f"{role} SET {setting}".encode())

        yield change
        administrator.execute(f"{role} RESET ALL".encode())


@pytest.mark.parametrize("setting", ["temp_file_limit = 256", "default_transaction_read_only = on"])
def test_not_ready_where_the_database_cannot_write(
    client: Client, role_setting: Callable[[str], None], setting: str
) -> None:
    role_setting(setting)  # the first as a full disk: the database writes nothing more

    response = client.get("/ready")

    assert response.status_code == 503
    assert response.json()["checks"]["database"] == "not_writable"
    assert client.get("/health").status_code == 200


@pytest.mark.parametrize(
    "path", ["/admin/", "/admin/login/", "/admin/nothing/", "/admin/jsi18n/", "/api/v1/releases", "/ready", "/nothing"]
)
def test_no_cache_keeps_an_answer_that_does_not_say_so(client: Client, path: str) -> None:
    response = client.get(path)

    assert "private" in response.headers["Cache-Control"]
    assert "no-store" in response.headers["Cache-Control"]
