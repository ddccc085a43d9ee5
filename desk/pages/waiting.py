"""What waits for a person: the kinds of the inbox, and what is decided on pages of its own."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from desk.inbox.all_kinds import list_kinds
from desk.inbox.requests import is_reviewer_of_chosen, read_filters
from desk.shell.chosen_project import narrow_to_chosen
from memory.blocks.models import BlockRevision
from memory.projects.models import RuleChange
from runtime.models.tools import ToolRevision


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """How many of a kind wait, and since when the oldest does."""

    label: str
    count: int
    oldest: datetime | None
    link: str
    is_own: bool  # the person may decide on it


@dataclass(frozen=True, kw_only=True, slots=True)
class _Queue:
    """What waits on the page of a list of the admin."""

    label: str
    rows: Callable[[], QuerySet[Any]]
    sees: str  # the permission to see it
    decides: str  # the permission to decide on it
    since: str = "created_at"
    page: str
    query: tuple[str, str] = ("waiting", "yes")


_QUEUES = (
    _Queue(
        label="Blocks",
        rows=BlockRevision.objects.waiting,
        sees="memory.view_block",
        decides="memory.review_block",
        page="admin:memory_block_changelist",
    ),
    _Queue(
        label="Tools",
        rows=ToolRevision.objects.waiting,
        sees="agents.view_tool",
        decides="agents.review_tool",
        page="admin:agents_tool_changelist",
    ),
    _Queue(
        label="Rule changes",
        rows=RuleChange.objects.waiting,
        sees="memory.view_rulechange",
        decides="memory.review_heuristic",
        since="requested_at",
        page="admin:memory_rulechange_changelist",
        query=("status__exact", RuleChange.Status.REQUESTED),
    ),
)


def find_waiting(request: HttpRequest) -> Iterable[Waiting]:
    """Return what waits in the chosen project, or in all that a person may see. One query a kind and one more."""
    user: Any = request.user
    query, is_reviewer = read_filters(request), is_reviewer_of_chosen(request)
    for kind in list_kinds(user):
        count, oldest = kind.measure(user, query)
        link = reverse("admin:inbox", query={"kind": kind.name})
        is_own = is_reviewer and user.has_perm(kind.decides)
        yield Waiting(label=kind.label, count=count, oldest=oldest, link=link, is_own=is_own)
    for queue in _QUEUES:
        if user.has_perm(queue.sees):
            open_now = queue.rows().exclude(project__archived_at__lte=timezone.now())
            rows = narrow_to_chosen(open_now, request).order_by()
            counted = rows.aggregate(count=Count("pk"), oldest=Min(queue.since))
            link = reverse(queue.page, query=dict([queue.query]))
            is_own = is_reviewer and user.has_perm(queue.decides)
            yield Waiting(label=queue.label, **counted, link=link, is_own=is_own)
