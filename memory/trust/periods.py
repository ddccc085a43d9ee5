"""How long a project keeps its texts: the table of its periods, what is due by now, and its erasure."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from django.conf import settings
from django.db.models import Exists, Model, OuterRef, Q, QuerySet

from memory.database_clock import database_now
from memory.errors import MemoryAppError
from memory.limits import MAX_RETENTION_DAYS
from memory.mistakes.models import MistakeCard
from memory.passages.models import Passage
from memory.passages.storage import delete_passage
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.retrieval.models import Retrieval
from memory.runs.models import LAST_WORDS_AT, Trajectory
from memory.trust.erasure import erase_trajectory
from memory.trust.retention import find_evidence

log = structlog.get_logger(__name__)

BY = Actor.policy("retention")
AT_ONCE = 500  # rows of a kind and a project in an hour


@dataclass(frozen=True, kw_only=True, slots=True)
class RetentionPeriod:
    """A kind of row with the column of the project that says how long it is kept.

    `find` returns those from before a time, the oldest first; `erase` is None where something else does it.
    """

    column: str
    label: str
    since: str  # what the days are counted from
    does: str
    find: Callable[[Project, datetime], "QuerySet[Any]"]
    erase: Callable[[Any, Actor], object] | None = None
    default_days: Callable[[], int | None] = lambda: None


@dataclass(frozen=True, kw_only=True, slots=True)
class DueRows:
    """A line of the table: a period as it applies to a project, and how many rows are due now."""

    period: RetentionPeriod
    days: int | None
    is_default: bool
    count: int


_periods: list[RetentionPeriod] = []


def add_retention_periods(*periods: RetentionPeriod) -> None:
    """Let another app's rows have a period, too. Apps may be set up more than once in a process."""
    known = {period.column for period in _periods}
    _periods.extend(period for period in periods if period.column not in known)


def find_due(project: Project) -> list[DueRows]:
    """Return the table of a project's periods with what is due now. Nothing is changed: it is the dry run."""
    lines = []
    for period in (*PERIODS, *_periods):
        own: int | None = getattr(project, period.column)
        days = own if own is not None else period.default_days()
        count = period.find(project, _until(days)).count() if days else 0
        lines.append(DueRows(period=period, days=days, is_default=own is None, count=count))
    return lines


def erase_due(project: Project, *, at_most: int | None = None) -> dict[str, int]:
    """Erase what a project keeps no longer; return how many rows went, by the label of their kind.

    Each row is a transaction of its own. What cannot go now, such as a conversation in which a run goes on, is left to
    the next call.
    """
    erased: dict[str, int] = {}
    for period in (*PERIODS, *_periods):
        days: int | None = getattr(project, period.column)
        if not days or period.erase is None:
            continue
        rows = period.find(project, _until(days))
        # One row at a time: all of them with their texts may be more than the memory holds.
        for pk in list(rows.values_list("pk", flat=True)[:at_most]):
            if (row := rows.filter(pk=pk).first()) is None:
                continue  # another row took it along
            try:
                period.erase(row, BY)
            except MemoryAppError as error:
                log.info("not_erased_yet", kind=period.label, reason=type(error).__name__)
            else:
                erased[period.label] = erased.get(period.label, 0) + 1
    return erased


def erase_all_due() -> None:
    """Erase what is due in every project, some at a time."""
    limited = Q()
    for period in (*PERIODS, *_periods):
        limited |= Q(**{f"{period.column}__isnull": False})
    for project in Project.objects.filter(limited):
        if erased := erase_due(project, at_most=AT_ONCE):
            log.info("retention_applied", project_id=str(project.pk), **erased)


def _until(days: int) -> datetime:
    return database_now() - timedelta(days=min(days, MAX_RETENTION_DAYS))


def _find_runs(project: Project, until: datetime) -> QuerySet[Trajectory]:
    rows = Trajectory.objects.for_project(project).alias(last=LAST_WORDS_AT)
    return rows.filter(last__lt=until).order_by("created_at", "pk")


def _find_passages(project: Project, until: datetime) -> QuerySet[Passage]:
    return Passage.objects.filter(project=project, created_at__lt=until).order_by("created_at", "pk")


def _find_answers(project: Project, until: datetime) -> QuerySet[Retrieval]:
    rows = Retrieval.objects.filter(project=project, created_at__lt=until)
    for model in find_evidence():
        rows = rows.exclude(Exists(model._default_manager.filter(retrieval=OuterRef("pk"))))
    return rows.order_by("created_at", "pk")


def _find_cards(project: Project, until: datetime) -> QuerySet[MistakeCard]:
    return MistakeCard.objects.unseen_since(until).filter(project=project)


def _delete(row: Model, by: Actor) -> None:
    row.delete()


PERIODS = (
    RetentionPeriod(
        column="run_retention_days",
        label="runs",
        since="the last step",
        does="erased, with lessons that rest on them alone",
        find=_find_runs,
        erase=lambda run, by: erase_trajectory(run, by=by),
    ),
    RetentionPeriod(
        column="passage_retention_days",
        label="passages",
        since="when they were kept",
        does="deleted",
        find=_find_passages,
        erase=lambda passage, by: delete_passage(passage, by=by),
    ),
    RetentionPeriod(
        column="answer_retention_days",
        label="answers that no run refers to",
        since="when they were given",
        does="deleted, a whole month at a time under the server's default",
        find=_find_answers,
        erase=_delete,
        default_days=lambda: settings.ERL_RETENTION_DAYS or None,
    ),
    RetentionPeriod(
        column="mistake_card_retention_days",
        label="mistake cards",
        since="the last run that reported them",
        does="retired, and can be proposed again",
        find=_find_cards,
    ),
)
