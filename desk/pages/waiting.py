"""What waits for a person, by the kinds of the inbox."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from desk.inbox.all_kinds import list_kinds
from desk.inbox.requests import is_reviewer_of_chosen, read_filters


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """How many of a kind wait, and since when the oldest does."""

    label: str
    count: int
    oldest: datetime | None
    link: str
    is_own: bool  # the person may decide on it


def find_waiting(request: HttpRequest) -> Iterable[Waiting]:
    """Return what waits in the chosen project, or in all that a person may see. One query a kind."""
    user: Any = request.user
    query, is_reviewer = read_filters(request), is_reviewer_of_chosen(request)
    for kind in list_kinds(user):
        count, oldest = kind.measure(user, query)
        link = reverse("admin:inbox", query={"kind": kind.name})
        is_own = is_reviewer and user.has_perm(kind.decides)
        yield Waiting(label=kind.label, count=count, oldest=oldest, link=link, is_own=is_own)
