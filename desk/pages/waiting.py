"""What waits for a person, by kind: the kinds of the inbox, and requests to change who decides."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Min
from django.http import HttpRequest
from django.urls import reverse

from desk.inbox.all_kinds import list_kinds
from desk.inbox.requests import list_own_kinds, read_filters
from desk.shell.chosen_project import narrow_to_chosen
from memory.projects.models import RuleChange


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """How many of a kind wait, and since when the oldest does."""

    label: str
    count: int
    oldest: datetime | None
    link: str
    is_own: bool  # the person may decide on it


def find_waiting(request: HttpRequest) -> Iterable[Waiting]:
    """Return what waits in the chosen project, or in all that a person may see. One query a kind and one more."""
    user: Any = request.user
    query, own = read_filters(request), list_own_kinds(request)
    for kind in list_kinds(user):
        count, oldest = kind.measure(user, query)
        link = reverse("admin:inbox", query={"kind": kind.name})
        yield Waiting(label=kind.label, count=count, oldest=oldest, link=link, is_own=kind in own)
    if user.has_perm("memory.view_rulechange"):
        requested = RuleChange.objects.filter(status=RuleChange.Status.REQUESTED)
        rows = narrow_to_chosen(requested, request).order_by()
        counted = rows.aggregate(count=Count("pk"), oldest=Min("requested_at"))
        link = reverse("admin:memory_rulechange_changelist", query={"status__exact": RuleChange.Status.REQUESTED})
        is_own = bool(own) and user.has_perm("memory.review_heuristic")
        yield Waiting(label="Rule changes", **counted, link=link, is_own=is_own)
