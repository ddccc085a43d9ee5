"""What waits for a person, by kind; other apps add theirs."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, QuerySet
from django.http import HttpRequest
from django.urls import reverse

from memory.admin.chosen_project import narrow_to_chosen
from memory.heuristics.models import Heuristic
from memory.mistakes.models import MistakeCard
from memory.projects.models import RuleChange


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """How many of a kind wait, and since when the oldest does."""

    label: str
    count: int
    oldest: datetime | None
    link: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """A kind of thing that a person decides. `rows` are those that wait; `since` is their column of time."""

    label: str
    table: str
    permission: str
    rows: Callable[[], QuerySet[Any]]
    since: str = "created_at"
    query: str = "status__exact=proposed"


_kinds: list[Kind] = []


def add_kind(kind: Kind) -> None:
    """Show one more kind on the home page."""
    _kinds.append(kind)


def find_waiting(request: HttpRequest) -> Iterable[Waiting]:
    """Return what waits in the chosen project, or in all that a person may see. One query a kind."""
    for kind in _kinds:
        if not request.user.has_perm(kind.permission):
            continue
        counted = narrow_to_chosen(kind.rows(), request).order_by().aggregate(count=Count("pk"), oldest=Min(kind.since))
        link = f"{reverse(f'admin:{kind.table}_changelist')}?{kind.query}"
        yield Waiting(label=kind.label, count=counted["count"], oldest=counted["oldest"], link=link)


add_kind(
    Kind(
        label="Lessons",
        table="memory_heuristic",
        permission="memory.view_heuristic",
        rows=lambda: Heuristic.objects.proposed().leading(),
    )
)
add_kind(
    Kind(
        label="Harmful lessons",
        table="memory_heuristic",
        permission="memory.view_heuristic",
        rows=lambda: Heuristic.objects.filter(status=Heuristic.Status.APPROVED, harm__isnull=False),
        query="status__exact=approved&harm__isnull=False",
    )
)
add_kind(
    Kind(
        label="Mistake cards",
        table="memory_mistakecard",
        permission="memory.view_mistakecard",
        rows=lambda: MistakeCard.objects.proposed(),
    )
)
add_kind(
    Kind(
        label="Changes of rules",
        table="memory_rulechange",
        permission="memory.view_rulechange",
        rows=lambda: RuleChange.objects.filter(status=RuleChange.Status.REQUESTED),
        since="requested_at",
        query="status__exact=requested",
    )
)
