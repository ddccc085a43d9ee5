"""A request that ends at each of its SQL statements (reliability A1, F2)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from rest_framework.test import APIClient

from memory.api.authentication import verified_keys
from memory.projects.api_keys import NewApiKey
from memory.projects.models import ApiKey
from tests.chaos.profile import report
from tests.chaos.web import BROKEN, RIGHT, find_violations
from tests.factories import make_api_key

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.urls("tests.chaos.urls"), pytest.mark.slow]


class Crash(BaseException):
    """The process is gone; nothing in it may answer."""


@contextmanager
def crash_at(statement: int, *, before: bool) -> Iterator[list[str]]:
    """Cut the connection before or after the n-th statement, as a killed process does. Yields what was executed."""
    executed: list[str] = []

    def execute(proceed: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        executed.append(sql)
        if len(executed) == statement and before:
            _cut()
        result = proceed(sql, params, many, context)
        if len(executed) == statement:
            _cut()
        return result

    with connection.execute_wrapper(execute):
        yield executed


def _cut() -> None:
    assert connection.connection is not None
    connection.connection.close()
    raise Crash


def post(new: NewApiKey, path: str, key: str) -> Any:
    client = APIClient(raise_request_exception=False)
    headers = {"Authorization": f"Bearer {new.token}", "Idempotency-Key": key}
    return client.post(path, {"task": key, "steps": [{"thought": "t", "observation": "o"}]}, headers=headers)


def forget() -> None:
    """Make the next request verify its key and note its use, so that these statements are crash points too."""
    verified_keys.clear()
    ApiKey.objects.update(last_used_at=None)


def crash_everywhere(new: NewApiKey, path: str) -> dict[str, list[str]]:
    """Crash at every statement, look, repeat the request, look again. Returns the violations at each point."""
    with crash_at(0, before=True) as statements:
        forget()
        assert post(new, path, "clean").status_code == 201
    found: dict[str, list[str]] = {}
    points = [(number, before) for number in range(1, len(statements) - 1) for before in (True, False)]
    for number, before in points:
        key = f"{'before' if before else 'after'}-{number}"
        forget()
        with crash_at(number, before=before), pytest.raises(Crash):
            post(new, path, key)
        connection.close()
        at_once = find_violations(new.api_key.project, {key: None})
        answer = post(new, path, key)
        found[key] = at_once + find_violations(new.api_key.project, {key: UUID(answer.json()["id"])})
    return found


def test_crash_at_any_statement_leaves_all_or_nothing() -> None:
    found = crash_everywhere(make_api_key(), RIGHT)

    report("F2", points=len(found), violations=sum(map(len, found.values())))
    assert len(found) > 10
    assert {key: wrong for key, wrong in found.items() if wrong} == {}


def test_check_notices_a_key_recorded_in_a_second_transaction() -> None:
    found = crash_everywhere(make_api_key(), BROKEN)

    assert [key for key, wrong in found.items() if wrong]
