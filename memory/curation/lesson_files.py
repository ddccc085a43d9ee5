"""Import lessons that `export_memory` wrote as proposals: what was approved elsewhere is not approved here."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from memory.curation.proposals import propose_heuristic, redact_text
from memory.errors import InvalidInput, MemoryAppError
from memory.heuristics.models import HeuristicRevision
from memory.heuristics.text import Authorship, HeuristicText
from memory.limits import MAX_LESSON_TEXT_CHARS
from memory.projects.actors import Actor
from memory.projects.models import Project

TEXTS = ("trigger", "guideline", "avoid", "not_when", "rationale", "polarity", "scope", "task_id", "source_task")


@dataclass(kw_only=True, slots=True)
class ImportedLessons:
    """How many lessons were proposed, how many were there already, and what could not be read, by line."""

    proposed: int = 0
    unchanged: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)


def is_lesson(value: Any) -> bool:
    """Tell whether a value is a line of `export_memory --format lessons`."""
    return isinstance(value, dict) and {"trigger", "guideline", "content_sha256"} <= value.keys()


def import_lessons(project: Project, lines: Iterable[str], *, by: Actor) -> ImportedLessons:
    """Propose the lessons of a file that are not there with the same words. Importing it again changes nothing."""
    done = ImportedLessons()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            is_new = _import(project, line, by=by)
        except (MemoryAppError, ValueError) as error:
            done.failures.append((number, str(error)))
        else:
            done.proposed += is_new
            done.unchanged += not is_new
    return done


@transaction.atomic
def _import(project: Project, line: str, *, by: Actor) -> bool:
    row = json.loads(line)
    if not is_lesson(row):
        raise InvalidInput({"": ["This is no lesson that export_memory wrote."]})
    texts = {name: row.get(name, "") for name in TEXTS}
    tags = row.get("tags", [])
    for name, text in texts.items():
        if not isinstance(text, str) or len(text) > MAX_LESSON_TEXT_CHARS:
            raise InvalidInput(
                {f"/{name}": [f"This should be a text of at most {MAX_LESSON_TEXT_CHARS:,} characters."]}
            )
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise InvalidInput({"/tags": ["This should be a list of texts."]})
    text = redact_text(HeuristicText(**texts, tags=tuple(tags)))
    same = HeuristicRevision.objects.of_lessons().filter(
        project=project,
        trigger=text.trigger,
        guideline=text.guideline,
        avoid=text.avoid,
        not_when=text.not_when,
        task_id=text.task_id,
        scope=text.scope,
    )
    if same.exists():
        return False
    origin = Authorship(reflector="import", client=by.label, confidence=row.get("confidence"))
    propose_heuristic(project, text=text, by=by, origin=origin)
    return True
