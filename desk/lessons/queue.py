"""The review queue: its filters, its order, and why each proposal has its place."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Count, Exists, Model, OuterRef, Q, QuerySet
from django.http import HttpRequest
from django.template.defaultfilters import pluralize
from django.utils import timezone

from memory.heuristics.extensions import Tally
from memory.heuristics.models import Heuristic
from memory.projects.access import narrow_to_projects
from memory.review.models import Review

Row = TypeVar("Row", bound=Model)
BY_EFFECT = ("-review_priority", "-created_at", "-id")
ORDERS = {"oldest": ("created_at", "id"), "newest": ("-created_at", "-id")}  # by their names in the address
_FAMILIES = 30
# What the admin's own filters put into the address.
_EXACT = ("project__id__exact", "current_revision__polarity__exact", "reflector")


class QueueFilter(admin.SimpleListFilter):
    """A filter of the list that the desk also applies to find the next proposal."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Heuristic]) -> QuerySet[Heuristic]:
        value = self.value()
        return queryset if value is None else self.narrow(queryset, value, request.user)

    @classmethod
    def narrow(cls, queryset: QuerySet[Heuristic], value: str, user: Any) -> QuerySet[Heuristic]:
        """Return what a value of the filter leaves."""
        raise NotImplementedError


class ClaimFilter(QueueFilter):
    title = "reviewer"
    parameter_name = "claim"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, str]]:
        return [("mine", "Claimed by me"), ("unassigned", "Unclaimed"), ("others", "Claimed by others")]

    @classmethod
    def narrow(cls, queryset: QuerySet[Heuristic], value: str, user: Any) -> QuerySet[Heuristic]:
        claimed = Q(claimed_by__isnull=False, claimed_until__gt=timezone.now())
        if value == "mine":
            return queryset.filter(claimed, claimed_by=user.pk)
        if value == "others":
            return queryset.filter(claimed).exclude(claimed_by=user.pk)
        return queryset.filter(Q(claimed_by=None) | Q(claimed_until__lte=timezone.now()))


class ApprovalsFilter(QueueFilter):
    title = "approvals"
    parameter_name = "approvals"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, str]]:
        return [("second", "Needs a second approval"), ("first", "Not approved yet")]

    @classmethod
    def narrow(cls, queryset: QuerySet[Heuristic], value: str, user: Any) -> QuerySet[Heuristic]:
        approved_once = Exists(_first_approvals())
        return queryset.filter(approved_once if value == "second" else ~approved_once)


class RiskFilter(QueueFilter):
    title = "checks"
    parameter_name = "risk"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, str]]:
        rows = narrow_to_projects(Heuristic.objects.proposed().leading(), request.user).exclude(risk_flags=[])
        # Without an order, whose columns would count as part of what is distinct.
        codes = rows.order_by().values_list("risk_flags", flat=True).distinct()
        flags = sorted({code for row in codes for code in row})
        return [("any", "Flagged"), ("none", "Not flagged"), *((code, code) for code in flags)]

    @classmethod
    def narrow(cls, queryset: QuerySet[Heuristic], value: str, user: Any) -> QuerySet[Heuristic]:
        if value == "any":
            return queryset.exclude(risk_flags=[])
        return queryset.filter(risk_flags=[]) if value == "none" else queryset.filter(risk_flags__contains=[value])


class FamilyFilter(QueueFilter):
    title = "task family"
    parameter_name = "family"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, str]]:
        rows = narrow_to_projects(Heuristic.objects.proposed().leading(), request.user)
        counted = rows.order_by().values_list("current_revision__task_id").annotate(n=Count("pk")).order_by("-n")
        return [(family or "-", family or "none") for family, _ in counted[:_FAMILIES]]

    @classmethod
    def narrow(cls, queryset: QuerySet[Heuristic], value: str, user: Any) -> QuerySet[Heuristic]:
        return queryset.filter(current_revision__task_id="" if value == "-" else value)


class SupportFilter(QueueFilter):
    title = "evidence"
    parameter_name = "support"
    _RANGES = {"0": Q(support=0), "1": Q(support=1), "2": Q(support__range=(2, 4)), "5": Q(support__gte=5)}

    def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, str]]:
        return [("0", "No run"), ("1", "1 run"), ("2", "2 to 4 runs"), ("5", "5 runs or more")]

    @classmethod
    def narrow(cls, queryset: QuerySet[Heuristic], value: str, user: Any) -> QuerySet[Heuristic]:
        return queryset.filter(cls._RANGES.get(value, Q()))


class AgeFilter(QueueFilter):
    title = "waiting time"
    parameter_name = "age"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, str]]:
        return [("day", "Less than a day"), ("week", "One to seven days"), ("older", "More than a week")]

    @classmethod
    def narrow(cls, queryset: QuerySet[Heuristic], value: str, user: Any) -> QuerySet[Heuristic]:
        now = timezone.now()
        day, week = now - timedelta(days=1), now - timedelta(days=7)
        ranges = {
            "day": Q(created_at__gt=day),
            "week": Q(created_at__lte=day, created_at__gt=week),
            "older": Q(created_at__lte=week),
        }
        return queryset.filter(ranges.get(value, Q()))


class OrderFilter(QueueFilter):
    """The order of the queue. Not a filter, but kept in the address like one."""

    title = "order"
    parameter_name = "order"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, str]]:
        return [("oldest", "Oldest first"), ("newest", "Newest first")]

    def choices(self, changelist: Any) -> Any:
        first, *rest = super().choices(changelist)
        return [{**first, "display": "Highest priority first"}, *rest]

    @classmethod
    def narrow(cls, queryset: QuerySet[Heuristic], value: str, user: Any) -> QuerySet[Heuristic]:
        return queryset


QUEUE_FILTERS = (
    ClaimFilter,
    ApprovalsFilter,
    RiskFilter,
    FamilyFilter,
    SupportFilter,
    AgeFilter,
    OrderFilter,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Queue:
    """The proposals a person works through, as the list shows them. `query` is the list's query string."""

    user: Any
    query: str

    def rows(self) -> QuerySet[Heuristic]:
        """Return the proposals that pass the list's filters, in no particular order."""
        given = dict(parse_qsl(self.query))
        rows = narrow_to_projects(Heuristic.objects.proposed().leading(), self.user).order_by()
        rows = rows.exclude(project__archived_at__lte=timezone.now())
        for queue_filter in QUEUE_FILTERS:
            if value := given.get(str(queue_filter.parameter_name)):
                rows = queue_filter.narrow(rows, value, self.user)
        exact = {name: given[name] for name in _EXACT if given.get(name)}
        try:
            return rows.filter(**exact)
        except (ValueError, ValidationError):  # a mistyped address
            return rows

    @property
    def order(self) -> tuple[str, ...]:
        """The fields the queue is ordered by."""
        return ORDERS.get(dict(parse_qsl(self.query)).get("order", ""), BY_EFFECT)

    def split(self) -> tuple[QuerySet[Heuristic], QuerySet[Heuristic]]:
        """Return the proposals without an approval, and those that wait for this person as the second of two."""
        rows, once = self.rows(), Exists(_first_approvals())
        mine = Exists(_first_approvals().filter(reviewer_user=self.user.pk))
        return rows.filter(~once), rows.filter(once, ~mine)


def read_projects(rows: QuerySet[Row], query: str) -> QuerySet[Row]:
    """Keep the rows of the project that a list's query string names, if it names one."""
    project = dict(parse_qsl(query)).get("project__id__exact")
    try:
        return rows.filter(project=project) if project else rows
    except (ValueError, ValidationError):  # a mistyped address
        return rows


def explain_priority(heuristic: Heuristic) -> str:
    """Explain a proposal's place in the queue in a few words."""
    basis = heuristic.review_basis
    if heuristic.prioritised_at is None or not basis:
        return "not computed yet"
    parts = [
        f"fits {basis['matches']} of the last {basis['tasks']:,} task{pluralize(basis['tasks'])}"
        if basis["tasks"]
        else "no recent tasks to compare",
        f"seen in {heuristic.support} run{'' if heuristic.support == 1 else 's'}",
    ]
    if basis.get("tally"):
        counted = str(Tally(**basis["tally"])).removesuffix(".")
        parts.append(counted[0].lower() + counted[1:])
    if heuristic.confidence is not None:
        parts.append(f"reflector confidence {heuristic.confidence:.0%}")
    if basis["flags"]:
        parts.append(f"checks: {', '.join(basis['flags'])}")
    if basis["broad"]:
        parts.append("applies to the whole project")
    if basis["replaces"]:
        parts.append("replaces a wording in use")
    return ", ".join(parts)


def _first_approvals() -> QuerySet[Review]:
    return Review.objects.filter(
        revision_id=OuterRef("current_revision"),
        decision=Review.Decision.FIRST_APPROVAL,
    )
