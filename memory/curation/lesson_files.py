"""Import lessons that `export_memory` wrote, as proposals, and the decisions on them if these are given too."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any

from django.db import transaction
from pydantic import AwareDatetime, BaseModel, Field

from memory.curation.decision_steps import ReviewNote
from memory.curation.decisions import approve_heuristic, reject_heuristic, retire_heuristic
from memory.curation.proposals import propose_heuristic, redact_text
from memory.errors import InvalidInput, MemoryAppError
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.text import Authorship, HeuristicText
from memory.limits import MAX_LESSON_TEXT_CHARS, MAX_NAME_CHARS, MAX_REASON_CHARS, MAX_VALID_DAYS
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.review.models import Review
from memory.strict_json import InvalidJson, parse_json

TEXTS = ("trigger", "guideline", "avoid", "not_when", "rationale", "polarity", "scope", "task_id", "source_task")


@dataclass(kw_only=True, slots=True)
class ImportedLessons:
    """How many lessons were proposed, how many were there already, and what could not be read, by line.

    `decided` were approved, rejected or retired here as they had been where they come from, `left_out` had been merged
    into others or put into quarantine there.
    """

    proposed: int = 0
    unchanged: int = 0
    decided: int = 0
    left_out: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)


class DecisionElsewhere(BaseModel):
    """What is read of an entry of GET /reviews."""

    heuristic_id: str
    decision: str
    content_sha256: str
    reason: Annotated[str, Field(max_length=MAX_REASON_CHARS)] = ""
    reviewer: Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARS)]
    seconds_on_screen: float | None = None
    created_at: AwareDatetime


class Validity(BaseModel):
    """How long a lesson of a file holds."""

    valid_until: AwareDatetime | None
    expires_after: Annotated[timedelta, Field(gt=timedelta(), le=timedelta(days=MAX_VALID_DAYS))] | None


def is_lesson(value: Any) -> bool:
    """Tell whether a value is a line of `export_memory --format lessons`."""
    return isinstance(value, dict) and {"trigger", "guideline", "content_sha256"} <= value.keys()


def import_lessons(
    project: Project,
    lines: Iterable[str],
    *,
    by: Actor,
    decisions: Mapping[str, Sequence[DecisionElsewhere]] | None = None,
) -> ImportedLessons:
    """Propose the lessons of a file that are not there with the same words. Importing it again changes nothing.

    Args:
        decisions: those of another installation by the id of their lesson, see `read_decisions`. With them, lessons
            get the state that they had there. None leaves all of them to the reviewers of this project.
    """
    done = ImportedLessons()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if decisions is not None and isinstance(row, dict) and row.get("status") in ("superseded", "quarantined"):
                done.left_out += 1
                continue
            # Each lesson is committed by itself, so that a broken line costs no other.
            lesson = _propose(project, row, by=by)
        except (MemoryAppError, ValueError) as error:
            done.failures.append((number, str(error)))
            continue
        if lesson is None:
            done.unchanged += 1
            continue
        done.proposed += 1
        try:
            # In a transaction of its own: where the decisions do not apply, the proposal stays.
            done.decided += decisions is not None and _decide(lesson, row, decisions.get(str(row.get("id")), ()))
        except (MemoryAppError, ValueError) as error:
            done.failures.append((number, f"It was imported as a proposal, without its decisions. {error}"))
    return done


def read_decisions(lines: Iterable[str]) -> dict[str, list[DecisionElsewhere]]:
    """Return the decisions of a file, one a line as GET /reviews has them, by the id of their lesson, oldest first.

    Raises:
        InvalidInput: a line is not a decision.
    """
    decisions: dict[str, list[DecisionElsewhere]] = defaultdict(list)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            decision = DecisionElsewhere.model_validate(parse_json(line.encode()))
        except (InvalidJson, ValueError):
            raise InvalidInput({f"/{number}": ["This line is not an entry of GET /api/v1/reviews."]}) from None
        decisions[decision.heuristic_id].append(decision)
    for entries in decisions.values():
        entries.sort(key=lambda decision: decision.created_at)
    return dict(decisions)


@transaction.atomic
def _propose(project: Project, row: Any, *, by: Actor) -> Heuristic | None:
    """Propose a lesson and return it; None if the project has the same words."""
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
    validity = Validity.model_validate({name: row.get(name) for name in Validity.model_fields})
    text = redact_text(HeuristicText(**texts, tags=tuple(tags), **dict(validity)))
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
        return None
    origin = Authorship(reflector="import", client=by.label, confidence=row.get("confidence"))
    return propose_heuristic(project, text=text, by=by, origin=origin)


@transaction.atomic
def _decide(lesson: Heuristic, row: dict[str, Any], decisions: Sequence[DecisionElsewhere]) -> bool:
    """Repeat what was decided on exactly these words elsewhere, until the lesson has the state that it had there."""
    # Redaction may have changed the words here, so the hash of the other installation is not theirs.
    content_sha256 = lesson.revisions.get().content_sha256
    on_these_words = {
        decision.decision: decision for decision in decisions if decision.content_sha256 == row["content_sha256"]
    }
    approval = on_these_words.get(Review.Decision.APPROVE)
    match row.get("status"):
        case Heuristic.Status.APPROVED if approval:
            steps = [approval]
        case Heuristic.Status.REJECTED if Review.Decision.REJECT in on_these_words:
            steps = [on_these_words[Review.Decision.REJECT]]
        case Heuristic.Status.RETIRED if approval and Review.Decision.RETIRE in on_these_words:
            steps = [approval, on_these_words[Review.Decision.RETIRE]]
        case _:
            return False
    for step in steps:
        # A name of another installation is no account of this one, so the label says where the decision was taken.
        actor = Actor(label=f"import:{step.reviewer}")
        note = ReviewNote(
            reason=step.reason,
            seconds_on_screen=step.seconds_on_screen,
            created_at=step.created_at,
        )
        match step.decision:
            case Review.Decision.APPROVE:
                approve_heuristic(lesson, by=actor, content_sha256=content_sha256, **note)
            case Review.Decision.REJECT:
                reject_heuristic(lesson, by=actor, content_sha256=content_sha256, **note)
            case Review.Decision.RETIRE:
                retire_heuristic(lesson, by=actor, **note)
    return True
