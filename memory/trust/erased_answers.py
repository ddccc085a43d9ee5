"""Take what is erased out of the answers that were given, and out of those kept for repeated requests."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet

from memory.api.idempotency import forget_stored_answers
from memory.api.models import IdempotencyRecord
from memory.retrieval.context import get_label
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory

ASKED_BEFORE = timedelta(days=1)  # an agent asks for lessons before its run is recorded

# The reasons of items, which a language model may have written about the task.
_FORGET_REASONS = """
UPDATE memory_retrieval SET items = (
    SELECT coalesce(jsonb_agg(item || '{"reason": ""}' ORDER BY place), '[]')
    FROM jsonb_array_elements(items) WITH ORDINALITY AS recorded (item, place))
WHERE id = ANY(%s)
"""


def forget_answers(trajectory: Trajectory, *, lessons: Sequence[UUID]) -> None:
    """Clear the questions about a run, and what other answers carried of it and of these lessons."""
    answers = Retrieval.objects.filter(project_id=trajectory.project_id)
    since = trajectory.created_at - ASKED_BEFORE
    asked = Q(task=trajectory.task, created_at__gte=since, created_at__lte=trajectory.created_at + ASKED_BEFORE)
    questions = answers.filter(Q(pk=trajectory.retrieval_id) | asked)
    # Answers to other tasks named this one as similar, and a language model that ranked them was told it.
    similar = answers.filter(created_at__gte=since, items__contains=[{"matched_run": str(trajectory.pk)}])
    carried = answers.filter(Q(heuristic_ids__overlap=lessons) | Q(injected_ids__overlap=lessons))
    stored = IdempotencyRecord.objects.filter(project=trajectory.project_id, resource_id__isnull=False)
    repeatable = Q(pk__in=stored.values("resource_id"))
    asked_ids = list(questions.values_list("pk", flat=True))
    similar_ids = list(similar.filter(repeatable | Q(mode=Retrieval.Mode.ERL)).values_list("pk", flat=True))
    carried_ids = list(carried.filter(repeatable).values_list("pk", flat=True)) if lessons else []
    forget_stored_answers([trajectory.pk, *lessons, *asked_ids, *similar_ids, *carried_ids])
    with connection.cursor() as cursor:
        cursor.execute(_FORGET_REASONS, [[*asked_ids, *similar_ids]])
    answers.filter(pk__in=asked_ids).update(task="", task_id="", subtasks=[], options={})
    answers.filter(injected_ids__overlap=lessons).exclude(record_text="").update(record_text="")


def forget_cards(trajectory: Trajectory, *, cards: Iterable[UUID]) -> None:
    """Clear the record of earlier runs in answers that carried mistake cards which are deleted."""
    answers = Retrieval.objects.filter(project_id=trajectory.project_id, created_at__gte=trajectory.created_at)
    for card in cards:
        carried = answers.exclude(record_text="").filter(record_text__contains=get_label(card, letter="M"))
        forget_stored_answers(carried.values_list("pk", flat=True))
        carried.update(record_text="")


def forget_lessons(project_id: UUID, lessons: Sequence[UUID]) -> None:
    """Clear what answers carried of lessons and mistake cards that are deleted, and what is stored of those answers."""
    carried = Retrieval.objects.filter(project_id=project_id).filter(
        Q(heuristic_ids__overlap=lessons) | Q(injected_ids__overlap=lessons)
    )
    forget_stored_answers([*lessons, *carried.values_list("pk", flat=True)])
    carried.exclude(record_text="").update(record_text="")


def forget_questions(answers: QuerySet[Retrieval]) -> None:
    """Clear the questions of answers, the reasons that a language model gave, and what is stored of the requests."""
    ids = list(answers.values_list("pk", flat=True))
    forget_stored_answers(ids)
    with connection.cursor() as cursor:
        cursor.execute(_FORGET_REASONS, [ids])
    asked = Retrieval.objects.filter(pk__in=ids)
    asked.update(task="", task_id="", unit="", subtasks=[], options={}, record_text="")
