"""Requests made up from the committed OpenAPI document: never a 5xx, never an answer it does not describe (F14)."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, connection, transaction
from hypothesis import HealthCheck, Phase, given, seed
from hypothesis import settings as Budget
from psycopg.pq import TransactionStatus
from schemathesis.checks import not_a_server_error
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from erl_site.wsgi import application
from memory.models import Project
from tests.api.operations import DOCUMENT, OPERATIONS, make_target
from tests.chaos.profile import SEED, pick, report
from tests.factories import make_api_key, make_project

pytestmark = pytest.mark.django_db

EACH, ROUNDS = pick(8, 100), pick(1, 25)  # requests to every operation, made up from the schema and against it
MOST_SECONDS = 1800  # then the rounds that were ended are the result
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)


def fuzz(operation: Any, *, number: int, project: Project, token: str, target: str | None, seen: Counter[int]) -> None:
    """Send made-up requests to one operation, others in each round; half of them about a row that exists."""

    @seed(SEED + number)
    @Budget(
        max_examples=EACH,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
        | operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    )
    def send(case: Any) -> None:
        if target is not None and sum(seen.values()) % 2:
            case.path_parameters = {"id": target}
        before = transaction.savepoint()
        response = case.call(headers={"Authorization": f"Bearer {token}"})
        seen[response.status_code] += 1
        if connection.connection.info.transaction_status == TransactionStatus.INERROR:
            transaction.savepoint_rollback(before)
            raise AssertionError(f"The database refused a value that the API let through: {case.as_curl_command()}")
        transaction.savepoint_commit(before)
        case.validate_response(response, checks=CHECKS)

    send()


@pytest.fixture
def schema() -> Iterator[Any]:
    """The operations, sent to the product in this process on the test's connection, which a request must not end."""
    ended_by = (request_started, request_finished)
    for signal in ended_by:
        signal.disconnect(close_old_connections)
    made = schemathesis.openapi.from_dict(DOCUMENT)
    made.app = application
    yield made
    for signal in ended_by:
        signal.connect(close_old_connections)


def test_fuzzed_requests_never_break_the_contract(schema: Any, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    settings.ERL_RATE_LIMITS = []
    settings.ERL_EMBEDDER, settings.ERL_PENDING_PROPOSALS_PER_CLIENT = "none", 0
    project = make_project()
    token = make_api_key(project=project).token
    seen: Counter[int] = Counter()
    by_id = {one.id: one for one in OPERATIONS}
    operations = [result.ok() for result in schema.get_all_operations()]
    targets = {}
    for operation in operations:
        known = by_id.get(operation.definition.raw["operationId"])
        targets[operation.label] = str(make_target(known, project)) if known is not None and known.has_id else None
    end = time.monotonic() + MOST_SECONDS
    for number in range(ROUNDS):
        if time.monotonic() > end:
            break
        for operation in operations:
            fuzz(
                operation,
                number=number,
                project=project,
                token=token,
                target=targets[operation.label],
                seen=seen,
            )

    report("F14", requests=sum(seen.values()), server_errors=sum(n for status, n in seen.items() if status >= 500))
    assert sum(seen.values()) >= EACH
    assert max(seen) < 500
