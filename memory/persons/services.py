"""Find a person in a project, give out everything about them, and erase it."""

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import structlog
from django.apps import apps
from django.db import transaction
from django.db.models import Model

from memory.errors import MemoryAppError
from memory.heuristics.models import Heuristic
from memory.ids import uuid7
from memory.persons.query import Person, text_columns
from memory.persons.sources import PersonSource, person_sources, write_row
from memory.projects.actors import Actor, name_actor
from memory.projects.models import Project
from memory.redaction.visible_text import show_text
from memory.trust.erasure import forget_log_entries, set_erasing
from memory.trust.models import Erasure

log = structlog.get_logger(__name__)

READ_AT_ONCE = 100  # rows, whose texts may be long
EXAMPLES = 3
EXAMPLE_CHARS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonFinding:
    """How many rows of a kind are about a person, with the first of them as examples."""

    kind: str
    label: str
    count: int
    examples: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonErased:
    """What went, by kind; what is left, and why; the places nothing here erases; and the id of the receipt."""

    receipt: UUID
    counts: dict[str, int]
    refused: list[str]
    left: dict[str, int]

    @property
    def is_complete(self) -> bool:
        return not self.refused and not self.left


def find_person(project: Project, person: Person) -> list[PersonFinding]:
    """Return what is about a person, by kind, without those of which there is nothing.

    What goes with a row, such as the lessons that rest on a run alone, is not counted.
    """
    findings = []
    for source in person_sources():
        rows = source.find(project, person)
        if count := rows.count():
            examples = [_shorten(source.show(row)) for row in rows[:EXAMPLES]]
            findings.append(PersonFinding(kind=source.kind, label=source.label, count=count, examples=examples))
    return findings


def export_person(project: Project, person: Person) -> Generator[tuple[str, dict[str, Any]], None, None]:
    """Yield every row about a person, with its kind, as it is stored."""
    for source in person_sources():
        rows = source.find(project, person)
        ids = list(rows.values_list("pk", flat=True))
        # Not by a cursor of the database: a reader who stops halfway would leave it open.
        for start in range(0, len(ids), READ_AT_ONCE):
            for row in rows.filter(pk__in=ids[start : start + READ_AT_ONCE]):
                yield source.kind, write_row(row)


def erase_person(project: Project, person: Person, *, by: Actor, at_most: int | None = None) -> PersonErased:
    """Erase everything about a person, with what was made of it, and write a receipt.

    Each row is a transaction of its own, unless the caller has one: a stop in the middle keeps what is done, and the
    same call goes on. What refuses to go now, such as a conversation in which a run goes on, is named.

    Args:
        at_most: how many rows of each kind go in this call.
    """
    counts: Counter[str] = Counter()
    refused: list[str] = []
    lessons: list[UUID] = []
    for source in person_sources():
        ids = list(source.find(project, person).values_list("pk", flat=True)[:at_most])
        for id in ids:
            fault = _erase_row(source, project, person, id, by=by)
            if fault is None:
                counts[source.kind] += 1
                lessons += [id] if source.kind == "lessons" else []
            elif fault:
                refused.append(f"{source.label}: {fault}")
    left = _count_left(project, person)
    receipt = _write_receipt(project, counts, refused, left, lessons, by=by)
    log.info("person_erased", project_id=str(project.pk), receipt=str(receipt), **counts)
    return PersonErased(receipt=receipt, counts=dict(counts), refused=refused, left=left)


def _erase_row(source: PersonSource, project: Project, person: Person, id: UUID, *, by: Actor) -> str | None:
    """Erase a row; return None if it went, else why it did not, "" if another row took it along."""
    try:
        with transaction.atomic():
            row = source.find(project, person).filter(pk=id).first()
            if row is None:
                return ""
            name_actor(by)
            set_erasing("on")
            source.erase(row, person, by)
            set_erasing("on")
            forget_log_entries([id])
            set_erasing("off")
    except MemoryAppError as error:
        return str(error)
    return None


@transaction.atomic
def _write_receipt(
    project: Project, counts: Counter[str], refused: list[str], left: dict[str, int], lessons: list[UUID], *, by: Actor
) -> UUID:
    """Record what went, when and by whom, without a word about the person. It is in the audit chain."""
    name_actor(by)
    receipt = {"counts": dict(counts), "refused": len(refused), "left": left}
    # Lessons that lost old wordings only are still there, and their reviews with them.
    gone = set(lessons) - set(Heuristic.objects.filter(pk__in=lessons).values_list("pk", flat=True))
    row = Erasure.objects.create(
        project_id=project.pk,
        trajectory_id=uuid7(),
        heuristic_ids=sorted(gone),
        receipt=receipt,
        erased_by=by.label,
    )
    return row.pk


def _count_left(project: Project, person: Person) -> dict[str, int]:
    """Return what is there still: rows by kind, or where no kind is left, by the column that holds a text."""
    kinds = {source.kind: source.find(project, person).count() for source in person_sources()}
    return {kind: count for kind, count in kinds.items() if count} or find_left(project, person)


def find_left(project: Project, person: Person) -> dict[str, int]:
    """Return in which columns of the project a text about the person still is, and in how many rows of each."""
    left = {}
    for model in _models():
        for name in text_columns(model):
            rows = model._base_manager.filter(person.in_columns(model, name), project_id=project.pk)
            if count := rows.count():
                left[f"{model._meta.db_table}.{name}"] = count
    return left


def _models() -> Iterator[type[Model]]:
    for model in apps.get_models():
        columns = {field.attname for field in model._meta.local_concrete_fields}
        if "project_id" in columns and not model._meta.proxy:
            yield model


def _shorten(text: str) -> str:
    line = show_text(" ".join(text.split()))
    return line if len(line) <= EXAMPLE_CHARS else f"{line[: EXAMPLE_CHARS - 1]}…"
