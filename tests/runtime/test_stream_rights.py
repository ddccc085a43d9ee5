"""A stream ends soon after its reader may no longer follow."""

from collections.abc import Callable, Iterator
from threading import Timer
from typing import Any

import pytest
from django.contrib.auth.models import Permission
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from memory.projects.api_keys import revoke_api_key
from memory.projects.models import ApiKey
from runtime.models.runs import Run
from runtime.streaming.events import append_event
from tests.factories import bearer, make_api_key, make_member
from tests.runtime.running import make_agent, make_run
from tests.waiting import step_through

pytestmark = pytest.mark.django_db(transaction=True)
LATE = b'"status":"succeeded"'


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A run that waits. A stream that goes on after all ends with it, so that no test hangs."""
    monkeypatch.setattr("runtime.streaming.feed.CHECK_SECONDS", 0.0)
    run = make_run(make_agent())

    def end() -> None:
        append_event(run.pk, "run", status="succeeded")
        connection.close()

    timer = Timer(20.0, end)
    timer.start()
    yield run
    timer.cancel()
    timer.join()


def read_first(answer: Any) -> Iterator[bytes]:
    """Return the parts of a stream from the first that brings nothing."""
    parts: Iterator[bytes] = step_through(answer.streaming_content)
    next(part for part in parts if not part)
    return parts


def revoke(key: ApiKey) -> None:
    revoke_api_key(key)


def expire(key: ApiKey) -> None:
    ApiKey.objects.filter(pk=key.pk).update(expires_at=timezone.now())


def take_scope(key: ApiKey) -> None:
    ApiKey.objects.filter(pk=key.pk).update(scopes=["retrieve"])


@pytest.mark.parametrize("loss", [revoke, expire, take_scope])
def test_stream_of_a_key_ends_with_its_right(run: Run, loss: Callable[[ApiKey], None]) -> None:
    key = make_api_key(project=run.project)
    parts = read_first(Client().get(f"/api/v1/runs/{run.pk}/events", headers=bearer(key.token)))
    loss(key.api_key)

    assert LATE not in b"".join(parts)


@pytest.mark.nightly
def test_stream_of_another_key_goes_on(run: Run) -> None:
    key, other = make_api_key(project=run.project), make_api_key(project=run.project, client="other")
    parts = read_first(Client().get(f"/api/v1/runs/{run.pk}/events", headers=bearer(key.token)))
    revoke_api_key(other.api_key)
    assert next(parts) == next(parts) == b""  # the readers were looked at meanwhile

    append_event(run.pk, "run", status="succeeded")

    assert LATE in b"".join(parts)


def leave(person: Any) -> None:
    person.project_memberships.all().delete()


def lose_permission(person: Any) -> None:
    person.user_permissions.remove(Permission.objects.get(codename="view_run"))


def be_deactivated(person: Any) -> None:
    type(person).objects.filter(pk=person.pk).update(is_active=False)


def get_new_password(person: Any) -> None:
    person.set_password("another")
    person.save()


def sign_out(person: Any) -> None:
    Session.objects.all().delete()


@pytest.mark.parametrize("loss", [leave, lose_permission, be_deactivated, get_new_password, sign_out])
def test_stream_of_a_person_ends_with_the_right(run: Run, loss: Callable[[Any], None]) -> None:
    person = make_member("ana", project=run.project, permissions=["view_run"])
    client = Client()
    client.force_login(person)
    parts = read_first(client.get(reverse("admin:agents_run_events", args=[run.pk])))
    loss(person)

    assert LATE not in b"".join(parts)
