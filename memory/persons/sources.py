"""Where texts about a person are: each kind of row says how it is found, shown, and erased with what was made of it.

Apps above this one add their own. They are asked in their order: what takes most with it comes first.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import Exists, Model, OuterRef, Q, QuerySet

from memory.api.idempotency import erase_records
from memory.api.models import IdempotencyRecord
from memory.blocks.models import Block, BlockRevision
from memory.blocks.withdrawal import erase_lines
from memory.curation.proposal_groups import leave_group
from memory.discussion.models import Comment
from memory.effects.models import UsageVerdict
from memory.heuristics.models import Evidence, Heuristic, HeuristicRevision
from memory.mistakes.erasure import delete_card
from memory.mistakes.models import MistakeCard
from memory.passages.models import Passage
from memory.passages.storage import delete_passage
from memory.persons.query import NOWHERE, Person
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.models import Retrieval
from memory.review.models import Review
from memory.runs.models import SystemPrompt, Trajectory
from memory.trust.erased_answers import forget_lessons, forget_questions
from memory.trust.erasure import delete_lessons, erase_trajectory

Find = Callable[[Project, Person], "QuerySet[Any]"]
Erase = Callable[[Any, Person, Actor], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonSource:
    """A kind of row. `show` returns a line that tells a row from others; `first` is what takes others with it."""

    kind: str
    label: str
    find: Find
    erase: Erase
    show: Callable[[Any], str]
    first: bool = False


_sources: list[PersonSource] = []


def add_person_sources(*sources: PersonSource) -> None:
    """Let another app's rows be found and erased, too. Apps may be set up more than once in a process."""
    known = {source.kind for source in _sources}
    _sources.extend(source for source in sources if source.kind not in known)


def person_sources() -> list[PersonSource]:
    """Return all kinds, those first that take others with them."""
    return sorted((*SOURCES, *_sources), key=lambda source: not source.first)


def write_row(row: Model) -> dict[str, Any]:
    """Return all columns of a row as they are stored, for a person who asks for them."""
    values = {field.name: field.value_from_object(row) for field in row._meta.concrete_fields}
    plain: dict[str, Any] = json.loads(json.dumps(values, cls=_Encoder))
    return plain


class _Encoder(DjangoJSONEncoder):
    def default(self, o: Any) -> Any:
        if isinstance(o, bytes | memoryview):
            return bytes(o).decode(errors="replace")
        return super().default(o)


# ── Runs and lessons ──────────────────────────────────────────────────────────────────────────────────────────────
def _find_runs(project: Project, person: Person) -> QuerySet[Trajectory]:
    quoted = Evidence.objects.filter(person.in_columns(Evidence), trajectory=OuterRef("pk"))
    said = person.of_user() | person.in_columns(Trajectory) | Q(Exists(quoted))
    return Trajectory.objects.for_project(project).filter(said).order_by("pk")


def _erase_run(run: Trajectory, person: Person, by: Actor) -> None:
    erase_trajectory(run, by=by)


def _find_system_prompts(project: Project, person: Person) -> QuerySet[SystemPrompt]:
    rows = SystemPrompt.objects.filter(project=project)
    return rows.filter(person.in_columns(SystemPrompt)).order_by("pk")


def _erase_system_prompt(prompt: SystemPrompt, person: Person, by: Actor) -> None:
    # The runs stay: a policy that names somebody was told in runs about anyone. The row goes with the last of them.
    Trajectory.objects.filter(project_id=prompt.project_id, system_prompt=prompt).update(system_prompt=None)


def _find_lessons(project: Project, person: Person) -> QuerySet[Heuristic]:
    wordings = HeuristicRevision.objects.filter(person.in_columns(HeuristicRevision), heuristic=OuterRef("pk"))
    rows = Heuristic.objects.filter(project=project).select_related("current_revision")
    return rows.filter(person.in_columns(Heuristic) | Q(Exists(wordings))).order_by("pk")


def _erase_lesson(lesson: Heuristic, person: Person, by: Actor) -> None:
    """Delete a lesson that speaks of the person; of one that no longer does, delete the wordings that did."""
    wordings = lesson.revisions.filter(person.in_columns(HeuristicRevision))
    about_row = Heuristic.objects.filter(person.in_columns(Heuristic), pk=lesson.pk).exists()
    if not about_row and lesson.current_revision_id not in set(wordings.values_list("pk", flat=True)):
        forget_lessons(lesson.project_id, [lesson.pk])
        wordings.delete()
        return
    forget_lessons(lesson.project_id, [lesson.pk])
    if lesson.kind == Heuristic.Kind.MISTAKE:
        delete_card(MistakeCard.objects.select_for_update().get(pk=lesson.pk))
        return
    leave_group(lesson)
    delete_lessons([lesson])


def _show_lesson(lesson: Heuristic) -> str:
    return f"{lesson.kind}, {lesson.status}: {lesson}"


# ── What agents keep ──────────────────────────────────────────────────────────────────────────────────────────────
def _find_passages(project: Project, person: Person) -> QuerySet[Passage]:
    return Passage.objects.filter(person.of_user() | person.in_columns(Passage), project=project).order_by("pk")


def _erase_passage(passage: Passage, person: Person, by: Actor) -> None:
    delete_passage(passage, by=by)


def _find_blocks(project: Project, person: Person) -> QuerySet[Block]:
    holding = BlockRevision.objects.filter(person.in_columns(BlockRevision), block=OuterRef("pk"))
    return Block.objects.filter(Exists(holding), project=project).select_related("current").order_by("pk")


def _erase_lines(block: Block, person: Person, by: Actor) -> None:
    erase_lines(block, holds=person.is_in, by=by)


# ── What people wrote ─────────────────────────────────────────────────────────────────────────────────────────────
def _find_comments(project: Project, person: Person) -> QuerySet[Comment]:
    return Comment.objects.filter(person.in_columns(Comment), project=project).order_by("pk")


def _erase_comment(comment: Comment, person: Person, by: Actor) -> None:
    comment.delete()


def _find_reviews(project: Project, person: Person) -> QuerySet[Review]:
    return Review.objects.filter(person.in_columns(Review), project=project).order_by("pk")


def _erase_reason(review: Review, person: Person, by: Actor) -> None:
    # The decision stays, since it may be what lets agents be given a text. The chain says that its reason was erased.
    Review.objects.filter(pk=review.pk).update(reason="")


def _find_remarks(project: Project, person: Person) -> QuerySet[UsageVerdict]:
    return UsageVerdict.objects.filter(person.in_columns(UsageVerdict), project=project).order_by("pk")


def _erase_remark(verdict: UsageVerdict, person: Person, by: Actor) -> None:
    UsageVerdict.objects.filter(pk=verdict.pk).update(comment="")


# ── Questions and stored requests ─────────────────────────────────────────────────────────────────────────────────
def _find_questions(project: Project, person: Person) -> QuerySet[Retrieval]:
    asked_as = Q(unit=person.user_id) if person.user_id else NOWHERE
    said = person.in_columns(Retrieval) | person.in_columns(Retrieval, "unit") | asked_as
    return Retrieval.objects.filter(said, project=project).order_by("pk")


def _erase_question(answer: Retrieval, person: Person, by: Actor) -> None:
    forget_questions(Retrieval.objects.filter(pk=answer.pk))


def _find_requests(project: Project, person: Person) -> QuerySet[IdempotencyRecord]:
    said = person.in_columns(IdempotencyRecord) | person.in_columns(IdempotencyRecord, "key")
    return IdempotencyRecord.objects.filter(said, project=project).order_by("pk")


def _erase_request(record: IdempotencyRecord, person: Person, by: Actor) -> None:
    erase_records([record])


SOURCES = (
    PersonSource(
        kind="runs",
        label="runs",
        find=_find_runs,
        erase=_erase_run,
        show=lambda run: f"{run.created_at:%Y-%m-%d} {run.agent or 'an agent'}: {run}",
    ),
    PersonSource(
        kind="system_prompts",
        label="instructions of agents",
        find=_find_system_prompts,
        erase=_erase_system_prompt,
        show=str,
    ),
    PersonSource(
        kind="lessons", label="lessons and mistake cards", find=_find_lessons, erase=_erase_lesson, show=_show_lesson
    ),
    PersonSource(kind="passages", label="passages", find=_find_passages, erase=_erase_passage, show=str),
    PersonSource(
        kind="blocks", label="blocks with lines about the person", find=_find_blocks, erase=_erase_lines, show=str
    ),
    PersonSource(
        kind="comments", label="comments", find=_find_comments, erase=_erase_comment, show=lambda row: row.text
    ),
    PersonSource(
        kind="reviews",
        label="reasons of decisions",
        find=_find_reviews,
        erase=_erase_reason,
        show=lambda row: row.reason,
    ),
    PersonSource(
        kind="remarks",
        label="remarks about lessons",
        find=_find_remarks,
        erase=_erase_remark,
        show=lambda row: row.comment,
    ),
    PersonSource(
        kind="questions",
        label="questions that were asked with a task",
        find=_find_questions,
        erase=_erase_question,
        show=str,
    ),
    PersonSource(
        kind="requests",
        label="requests kept for their Idempotency-Key",
        find=_find_requests,
        erase=_erase_request,
        show=lambda row: f"{row.method} {row.route}, {row.created_at:%Y-%m-%d %H:%M}",
    ),
)
