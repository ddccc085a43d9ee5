"""A round of fuzzing: made-up requests and examples, mutants of both, what follows from them, and what it came to."""

import json
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from django.db import connection, transaction
from psycopg.pq import TransactionStatus

from memory.projects.models import ApiKey, Project
from tests.api.operations import DOCUMENT, OPERATIONS, Operation, fill_body, make_target
from tests.factories import make_api_key, make_project, make_trajectory
from tests.security.contract import Answer, Application, Contract, Sent, location_of, send
from tests.security.mutants import WORDS, World, mutate

CONTRACT = Contract()
EXAMPLES = 3  # of each operation in a round, each about a row of its own
AS_IT_IS, FROM_EXAMPLES = 0.1, 0.5  # of the mutants: nothing changed; made of an example and not of a made-up request
KEYED = 0.3  # under an idempotency key of their own
ERASED = 0.3  # of the runs that were recorded
UNDONE = 0.7  # of what took effect, so that most mutants meet their row in the state they apply to
MOST_TOLD = 30


@dataclass(kw_only=True)
class Tally:
    """What was sent and what came back."""

    sent: Counter[str] = field(default_factory=Counter)  # by how it came about
    answers: Counter[int] = field(default_factory=Counter)
    operations: set[str] = field(default_factory=set)
    faults: Counter[str] = field(default_factory=Counter)  # operation and fault
    told: list[str] = field(default_factory=list)  # one request for each

    def count(self, name: str, kind: str, status: int) -> None:
        self.sent[kind] += 1
        self.answers[status] += 1
        self.operations.add(name)

    def blame(self, name: str, fault: str, request: object) -> None:
        if not self.faults[f"{name}: {fault}"] and len(self.told) < MOST_TOLD:
            self.told.append(f"{name}: {fault}: {request}")
        self.faults[f"{name}: {fault}"] += 1

    @property
    def succeeded(self) -> int:
        return sum(number for status, number in self.answers.items() if status < 300)

    def counts(self) -> dict[str, int]:
        return {
            "requests": self.sent.total(),
            "made_up": self.sent["made up"],
            "mutants": self.sent["mutant"],
            "followed": self.sent["followed"],
            "operations_each": len(self.operations),
            "server_errors": sum(number for status, number in self.answers.items() if status >= 500),
            "faults": self.faults.total(),
            **{f"answers_{status}": number for status, number in sorted(self.answers.items())},
        }


@dataclass(kw_only=True)
class Fuzz:
    """Sends requests of one round to the application and judges the answers."""

    application: Application
    project: Project
    token: str
    chance: random.Random
    tally: Tally
    world: World

    def send(self, request: Sent, kind: str) -> Answer:
        answer = send(self.application, request)
        name = CONTRACT.find_operation(request.method, request.path) or request.path[:60]
        self.tally.count(name, kind, answer.status)
        if fault := CONTRACT.find_fault(request, answer):
            self.tally.blame(name, fault, request)
        if is_broken_off():
            self.tally.blame(name, "the database refused a value that was let through", request)
        return answer

    def send_mutants(self, examples: list[Sent], made_up: list[Sent], number: int) -> None:
        """Send so many mutants, half of them of examples, and what follows from those that took effect."""
        headers = {"HTTP_AUTHORIZATION": f"Bearer {self.token}"}
        before = transaction.savepoint()
        end = self.tally.sent.total() + number
        while self.tally.sent.total() < end:
            stock = examples if not made_up or self.chance.random() < FROM_EXAMPLES else made_up
            request = self.chance.choice(stock)
            key = {"HTTP_IDEMPOTENCY_KEY": f"key-{self.chance.getrandbits(64)}"} if self.chance.random() < KEYED else {}
            request = replace(request, headers=key | request.headers | headers)
            if self.chance.random() >= AS_IT_IS:
                request = mutate(request, self.world, self.chance)
            answer = self.send(request, "mutant")
            if is_broken_off():
                transaction.savepoint_rollback(before)
            elif request.method != "GET" and answer.status < 300:
                self.follow(request, answer)
                if self.chance.random() < UNDONE:
                    transaction.savepoint_rollback(before)
                else:
                    transaction.savepoint_commit(before)
                    before = transaction.savepoint()
        transaction.savepoint_commit(before)

    def follow(self, request: Sent, answer: Answer) -> None:
        """Read what a request brought about, send it again, erase it where that can be, and do both once more."""
        again = [request] if "HTTP_IDEMPOTENCY_KEY" in request.headers or self.chance.random() < 0.1 else []
        steps = again
        if path := location_of(answer):
            self.world.made.append(path.rpartition("/")[2])
            read = Sent(method="GET", path=path, headers={"HTTP_AUTHORIZATION": f"Bearer {self.token}"})
            steps = [read, *again]
            if CONTRACT.find_operation("DELETE", path) and self.chance.random() < ERASED:
                steps += [replace(read, method="DELETE"), read, *again]
        for step in steps:
            if not is_broken_off():
                self.send(step, "followed")


def is_broken_off() -> bool:
    """Tell whether PostgreSQL refused a statement that nothing foresaw, so that it takes no other."""
    return bool(connection.connection.info.transaction_status == TransactionStatus.INERROR)


def make_fuzz(application: Application, *, chance: random.Random, tally: Tally) -> Fuzz:
    """Return a round in a project of its own, with rows of it and of another."""
    project, other = make_project(), make_project()
    rows = [make_target(one, each) for each in (project, other) for one in OPERATIONS if one.has_id]
    erased = make_trajectory(project=project)
    erased.delete()
    fewer = [make_api_key(project=project, scopes=[ApiKey.Scope.HEURISTICS_READ]), make_api_key(project=other)]
    world = World(
        ids=[*map(str, rows), str(erased.pk), str(project.pk), "019a0000-0000-7000-8000-000000000000"],
        tokens=[key.token for key in fewer] + ["erl_live_" + "0" * 40],
        members=sorted({name for one in OPERATIONS for name in one.schema.get("properties", ())}),
        parameters=sorted({parameter["name"] for _, _, each in _queries() for parameter in each}),
    )
    token = make_api_key(project=project).token
    return Fuzz(application=application, project=project, token=token, chance=chance, tally=tally, world=world)


def make_examples(method: str, path: str, project: Project, chance: random.Random) -> list[Sent]:
    """Return valid requests of an operation about rows that are made for them."""
    known = next((one for one in OPERATIONS if (one.method, one.path) == (method, path)), None)
    if known is None:
        return [Sent(method=method.upper(), path=path)]
    return [_make_example(known, project, chance, plain=not number) for number in range(EXAMPLES)]


def _make_example(operation: Operation, project: Project, chance: random.Random, *, plain: bool) -> Sent:
    body = fill_body(operation, project)
    parameters = next(each for method, path, each in _queries() if (method, path) == (operation.method, operation.path))
    query = [
        (parameter["name"], _make_value(parameter["schema"], chance))
        for parameter in parameters
        if parameter.get("required") or chance.random() < 0.3
    ]
    return Sent(
        method=operation.method.upper(),
        path=(
            operation.path.replace("{id}", str(make_target(operation, project))) if operation.has_id else operation.path
        ).replace("{other}", "1"),
        query=urlencode(query, quote_via=quote),
        headers={} if body is None else {"CONTENT_TYPE": "application/json"},
        body=b"" if body is None else json.dumps(body).encode(),
    )


def _queries() -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield method, path, [each for each in operation.get("parameters", ()) if each["in"] == "query"]


def _make_value(schema: dict[str, Any], chance: random.Random) -> str:
    if "enum" in schema or "const" in schema:
        return str(chance.choice(schema.get("enum") or [schema["const"]]))
    match schema.get("type"), schema.get("format"):
        case "integer", _:
            least, most = schema.get("minimum", 0), schema.get("maximum", 2**31)
            return str(chance.choice((least, min(most, 5), most)))
        case "boolean", _:
            return chance.choice(("true", "false"))
        case _, "date-time":
            return chance.choice(("2026-01-01T00:00:00Z", "2100-01-01T00:00:00+01:00"))
        case _, "uuid":
            return "019a0000-0000-7000-8000-000000000000"
        case _:
            return chance.choice(WORDS)
