"""A thousand random writes past the application: what is left is valid, or a rule names it (reliability C1, F26)."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import DatabaseError, connection, models, transaction

from memory.curation.decisions import retire_heuristic
from memory.heuristics.models import HeuristicRevision
from memory.intake.recording import record_trajectory
from memory.mistakes.models import MistakeCard
from memory.projects.actors import Actor
from memory.runs.models import Trajectory
from memory.trust.invariants import find_violations
from reflection.reflectors.models import Proposal
from tests.chaos.profile import make_random, pick, report
from tests.factories import (
    approve_as_read,
    approve_card_as_read,
    make_heuristic,
    make_idempotency_record,
    make_project,
    make_reflection,
    make_retrieval,
)
from tests.security.any_rows import all_models

pytestmark = pytest.mark.django_db

WRITES = pick(100, 1000, full=500)
BY = Actor(label="user:ana")
CARD = {"mistake_type": "fare", "bad_decision": "Cancelled.", "correct_decision": "Look first."}
# What no constraint can hold without reading other tables at every write, or what only erasure may do; the rules that
# `verify_audit` asks find it.
FOUND_NOT_REFUSED = {
    "acknowledged_run_exists",
    "effect_and_end_are_one",
    "erased_run_is_gone",
    "heuristic_has_its_revision",
    "job_costs_what_its_calls_cost",
    "machine_lesson_has_evidence",
    "memory_retrieval.api_key_id_same_project",
    "review_is_in_the_audit",
    "served_has_a_review",
    "support_is_counted",
}
_EDGES: dict[str, list[Any]] = {
    "BooleanField": [True, False],
    "CharField": ["", "0" * 64, "f" * 64, "x" * 64, "G" * 64, "short"],
    "DateField": ["1000-01-01", "2026-11-21", "9999-12-31"],
    "DateTimeField": ["1000-01-01T00:00:00Z", "2026-11-21T00:00:00Z", "9999-12-31T23:59:59Z"],
    "DecimalField": [0, -1, 10**7],
    "FloatField": [0.0, 0.5, 1.0, 1.5, -0.1, float("nan"), float("inf")],
    "JSONField": ["{}", "[]", "null", '"text"', "[1]"],
    "TextField": ["", " ", "\n", "x", "approved", "proposed", "running", "done", "dead", "unknown", "x" * 5000],
    "UUIDField": ["00000000-0000-0000-0000-000000000001"],
}
_NUMBERS = [0, 1, 2, -1, 7, 32767, 2**31 - 1]


@dataclass(frozen=True, kw_only=True)
class Write:
    """One statement that changes one row, and the model whose rule the row has to keep."""

    model: type[models.Model]
    statement: str
    parameters: list[Any]

    def __str__(self) -> str:
        return f"{self.statement} {self.parameters}"[:400]


def populate() -> None:
    """Two projects with one of nearly everything, as the services leave it."""
    for _ in range(2):
        project = make_project()
        run = record_trajectory(project, data={"task": "t", "mistake_cards": [CARD]}, by=BY, reflect=False).trajectory
        other = record_trajectory(project, data={"task": "u"}, by=BY, reflect=False).trajectory
        approve_card_as_read(MistakeCard.objects.get(project=project), by=BY)
        served = approve_as_read(make_heuristic(trajectory=run), by=BY)
        retire_heuristic(approve_as_read(make_heuristic(trajectory=other), by=BY), by=BY)
        make_heuristic(trajectory=run)
        done = make_reflection(trajectory=run, status="done", heuristics_proposed=1)
        make_reflection(trajectory=other)
        Proposal.objects.create(project=project, reflection=done, ordinal=1, heuristic=served, effect="new")
        make_idempotency_record(project=project, resource_id=run.pk)
        Trajectory.objects.filter(pk=run.pk).update(retrieval=make_retrieval(project=project))


def draw(chance: random.Random) -> Write | None:
    """Draw a change, a copy with a change, or a deletion of a row that is there."""
    model = chance.choice([each for each in all_models() if each._meta.pk and each._meta.pk.concrete])
    table, key = model._meta.db_table, model._meta.pk.column
    keys = _read(f"SELECT {key}::text FROM {table} ORDER BY 1")  # noqa: S608 - our own names
    if not keys:
        return None
    (which,) = chance.choice(keys)
    fields = [field for field in model._meta.local_concrete_fields if not field.primary_key]
    field = chance.choice(fields)
    match chance.choice(["update", "update", "update", "insert", "delete"]):
        case "delete":
            return Write(model=model, statement=f"DELETE FROM {table} WHERE {key}::text = %s", parameters=[which])  # noqa: S608
        case "insert":
            return Write(model=model, statement=_copy(model, field.column), parameters=[_value(chance, field), which])
    statement = f'UPDATE {table} SET "{field.column}" = %s WHERE {key}::text = %s'  # noqa: S608
    return Write(model=model, statement=statement, parameters=[_value(chance, field), which])


def _copy(model: type[models.Model], changed: str) -> str:
    """Write the statement that copies a row under a key of its own, with one column changed."""
    assert model._meta.pk is not None
    table, key = model._meta.db_table, model._meta.pk.column
    new_keys = {
        "uuid": "gen_random_uuid()",
        "text": "gen_random_uuid()::text",
        "bigint": f"nextval(pg_get_serial_sequence('{table}', 'id'))",
    }
    parts = {field.column: f't."{field.column}"' for field in model._meta.local_concrete_fields}
    parts |= {changed: f"%s::{_type(table, changed)}"}
    if key == "id":
        parts |= {key: new_keys[_type(table, key)]}
    names = ", ".join(f'"{column}"' for column in parts)
    return f"INSERT INTO {table} ({names}) SELECT {', '.join(parts.values())} FROM {table} t WHERE t.{key}::text = %s"  # noqa: S608


def judge(write: Write) -> str:
    """Make a write and say what became of it: refused, valid, the rules that found it, or what a model holds of it."""
    with transaction.atomic(), connection.cursor() as cursor:
        try:
            cursor.execute(write.statement, write.parameters)
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")
            broken = sorted(violation.invariant.name for violation in find_violations())
            return ", ".join(broken) or next(_objections(write.model), "valid")
        except DatabaseError:
            return "refused"
        finally:
            transaction.set_rollback(True)


def _objections(model: type[models.Model]) -> Iterator[str]:
    """Say what a model would have refused of the rows that the database holds."""
    left_out = [field.name for field in model._meta.fields if field.blank or field.null or not field.editable]
    for row in model._base_manager.all():
        try:
            row.clean_fields(exclude=left_out)
            row.validate_constraints()
        except ValidationError as error:
            # `blank` says what forms ask for; what may not be empty has a constraint of its own.
            said = [f"{name}: {each.code}" for name, found in error.error_dict.items() for each in found]
            yield from (f"{model._meta.db_table}.{each}" for each in said if not each.endswith(": blank"))


def _value(chance: random.Random, field: Any) -> Any:
    """Draw something that the column may take, or just not: an edge of its type, or what another row has there."""
    if field.is_relation and not chance.random() < 0.1:
        parent = field.related_model._meta
        others = _read(f"SELECT {parent.pk.column}::text FROM {parent.db_table} ORDER BY 1")  # noqa: S608
        return chance.choice([None, *(other for (other,) in others)])
    choices = [value for value, _ in field.choices or ()]
    return chance.choice([None, *choices, *choices, *_EDGES.get(field.get_internal_type(), _NUMBERS)])


def _type(table: str, column: str) -> str:
    ((name,),) = _read(
        "SELECT format_type(atttypid, NULL) FROM pg_attribute WHERE attrelid = %s::regclass AND attname = %s",
        [table, column],
    )
    return str(name)


def _read(statement: str, parameters: list[Any] | None = None) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return list(cursor.fetchall())


def write_at_random(name: str) -> Counter[str]:
    """Make so many writes, each to the same rows, and count what became of them."""
    chance = make_random(name)
    outcomes: Counter[str] = Counter()
    while outcomes.total() < WRITES:
        if (write := draw(chance)) is not None:
            outcomes[judge(write)] += 1
    return outcomes


def unexplained(outcomes: Counter[str]) -> list[str]:
    """Return what is neither refused nor valid nor a case for the rules."""
    explained = {"refused", "valid"}
    return [each for each in outcomes if each not in explained and not set(each.split(", ")) <= FOUND_NOT_REFUSED]


def test_what_random_writes_leave_is_valid_or_found(settings: Any) -> None:
    settings.ERL_EMBEDDER = "none"
    populate()

    outcomes = write_at_random("F26")

    found = sum(times for each, times in outcomes.items() if each not in ("refused", "valid"))
    report("F26", writes=WRITES, refused=outcomes["refused"], valid=outcomes["valid"], found_by_rules=found)
    assert unexplained(outcomes) == []
    assert outcomes["refused"] > 0
    assert outcomes["valid"] > 0


def test_write_past_the_triggers_is_noticed(settings: Any) -> None:
    settings.ERL_EMBEDDER = "none"
    populate()
    write = Write(
        model=HeuristicRevision,
        statement='UPDATE memory_heuristicrevision SET "guideline" = %s WHERE served',
        parameters=["Something else"],
    )
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")

    assert unexplained(Counter([judge(write)])) != []


def test_database_holds_every_field_with_choices_to_them() -> None:
    fields = {
        (model._meta.db_table, field.name)
        for model in all_models()
        for field in model._meta.local_concrete_fields
        if field.choices
    }
    checked = {
        (model._meta.db_table, field)
        for model in all_models()
        for constraint in model._meta.constraints
        if isinstance(constraint, models.CheckConstraint)
        for field in _fields_of(constraint.condition)
    }

    assert fields - checked == set()


def _fields_of(condition: Any) -> set[str]:
    """Return the fields that a condition holds to lists of values."""
    lookups = (_fields_of(part) if isinstance(part, models.Q) else {part[0]} for part in condition.children)
    return {name.removesuffix("__in") for names in lookups for name in names}
