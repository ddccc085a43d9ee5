"""Requests made up from the committed OpenAPI document: never a 5xx, never an answer it does not describe (F14).

schemathesis makes some of them up, which takes longer than answering them. Those, and the examples of the document
about rows that exist, are the stock of which mutants are made: most requests are mutants, or follow from one that took
effect (tests/security/fuzzing.py).
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

import pytest
import schemathesis
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, seed
from hypothesis import settings as Budget
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.api.operations import DOCUMENT
from tests.chaos.profile import SEED, make_random, pick, report
from tests.security.contract import Recorder, Sent, application, read_body, requests_on_this_connection
from tests.security.fuzzing import Fuzz, Tally, is_broken_off, make_examples, make_fuzz

pytestmark = [pytest.mark.nightly, pytest.mark.django_db]

ROUNDS = pick(1, 20, full=4)
MADE_UP, MUTANTS = pick(2, 12), pick(12, 185)  # of every operation in a round
FEW = 8  # of those that only say how the server is
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)


def send_made_up(operation: Any, fuzz: Fuzz, *, targets: list[str], round_number: int) -> list[Sent]:
    """Send requests that schemathesis makes up for one operation, half of them about rows that exist; return them."""
    recorder = Recorder(fuzz.application)
    made: list[Sent] = []

    @seed(SEED + round_number)
    @Budget(
        max_examples=MADE_UP,
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
        if targets and len(made) % 2:
            case.path_parameters = {**case.path_parameters, "id": targets[len(made) % len(targets)]}
        before = transaction.savepoint()
        response = case.call(app=recorder, headers={"Authorization": f"Bearer {fuzz.token}"})
        assert recorder.last is not None
        made.append(recorder.last)
        name = operation.definition.raw["operationId"]
        fuzz.tally.count(name, "made up", response.status_code)
        if is_broken_off():
            transaction.savepoint_rollback(before)
            fuzz.tally.blame(name, "the database refused a value that was let through", recorder.last)
        else:
            transaction.savepoint_commit(before)
        try:
            case.validate_response(response, checks=CHECKS)
        except FailureGroup as group:
            fuzz.tally.blame(name, str(group.exceptions[0]), recorder.last)

    send()
    return made


@pytest.fixture(autouse=True)
def _product(settings: Any) -> Iterator[None]:
    """Let requests run on the test's connection, and turn none away for being many."""
    settings.ALLOWED_HOSTS = ["*"]
    settings.ERL_RATE_LIMITS = []
    settings.ERL_EMBEDDER, settings.ERL_PENDING_PROPOSALS_PER_CLIENT = "none", 0
    with requests_on_this_connection():
        yield


@pytest.fixture(scope="module")
def operations() -> list[Any]:
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    return [cast(Any, result).ok() for result in schema.get_all_operations()]


@pytest.mark.parametrize("number", range(ROUNDS))
def test_fuzzed_requests_never_break_the_contract(operations: list[Any], number: int) -> None:
    tally, started = Tally(), time.process_time()
    fuzz = make_fuzz(application, chance=make_random(f"fuzz:{number}"), tally=tally)
    for operation in operations:
        examples = make_examples(operation.method, operation.path, fuzz.project, fuzz.chance)
        place = operation.path.split("/").index("{id}") if "{id}" in operation.path else None
        targets = [example.path.split("/")[place] for example in examples] if place is not None else []
        made = send_made_up(operation, fuzz, targets=targets, round_number=number)
        fuzz.send_mutants(examples, made, MUTANTS if operation.path.startswith("/api/") else FEW)

    found = {"found": tally.told} if tally.told else {}
    report("F14", **tally.counts(), seconds_of_cpu=round(time.process_time() - started), **found)
    assert tally.told == []
    assert tally.operations >= {operation.definition.raw["operationId"] for operation in operations}
    assert tally.sent.total() > len(operations) * MUTANTS * 0.9
    assert tally.succeeded > tally.sent.total() * 0.15


@dataclass(frozen=True, kw_only=True)
class Broken:
    """The product with a defect that shows for some requests only."""

    shows_for: Callable[[dict[str, Any]], bool]
    break_answer: Callable[[str, bytes], tuple[str, bytes]]

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        begun: list[Any] = []
        answer = application(environ, lambda *said: begun.append(said))
        (status, headers, *_), body = begun[0], read_body(answer)
        if self.shows_for(environ):
            status, body = self.break_answer(status, body)
        start_response(status, headers)
        return [body]


BROKEN = {
    "reflect: 500": Broken(
        shows_for=lambda environ: "HTTP_IDEMPOTENCY_KEY" in environ,
        break_answer=lambda *_: ("500 Internal Server Error", b""),
    ),
    "listTrajectories: status 418 is not described": Broken(
        shows_for=lambda environ: "HTTP_IF_NONE_MATCH" in environ,
        break_answer=lambda _, body: ("418 I'm a Teapot", body),
    ),
    "getTrajectory: 404: /status: ": Broken(
        shows_for=lambda environ: True, break_answer=lambda status, body: (status, body.replace(b": 404", b': "404"'))
    ),
    "followRun: 200: /: ": Broken(
        shows_for=lambda environ: True, break_answer=lambda status, body: (status, body.replace(b"event: ", b"kind: "))
    ),
    "listReviews: 200: the body is not application/json": Broken(
        shows_for=lambda environ: environ["QUERY_STRING"] != "",
        break_answer=lambda status, body: (status, body[:-1]),
    ),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_check_notices_what_the_document_does_not_describe(fault: str) -> None:
    [where] = [
        (method, path)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
        if operation["operationId"] == fault.partition(":")[0]
    ]
    fuzz = make_fuzz(BROKEN[fault], chance=make_random("broken"), tally=Tally())

    fuzz.send_mutants(make_examples(*where, fuzz.project, fuzz.chance), [], 150)

    assert [found for found in fuzz.tally.faults if found.startswith(fault)]
