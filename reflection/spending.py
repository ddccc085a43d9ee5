"""What the home page and the insights show of suggestions and of what models cost."""

from collections.abc import Mapping
from datetime import date

from django.db.models import Sum
from django.http import HttpRequest

from memory.admin.chosen_project import narrow_to_chosen
from memory.admin.insights import add_spending
from memory.admin.trends import Period
from memory.admin.waiting import Kind, add_kind
from reflection.consolidation.models import Suggestion
from reflection.llm.models import DailySpend


def count_spending(request: HttpRequest, period: Period) -> Mapping[date, float]:
    """Return what models cost on each day; nothing for people who may not see it."""
    if not request.user.has_perm("reflection.view_dailyspend"):
        return {}
    rows = narrow_to_chosen(DailySpend.objects.filter(day__gte=period.days[0]), request).order_by()
    return {day: float(cost) for day, cost in rows.values_list("day").annotate(cost=Sum("cost_usd"))}


def register() -> None:
    """Show them."""
    add_spending(count_spending)
    add_kind(
        Kind(
            label="Suggestions",
            table="reflection_suggestion",
            permission="reflection.view_suggestion",
            rows=lambda: Suggestion.objects.filter(status=Suggestion.Status.OPEN).exclude(kind=Suggestion.Kind.NEW),
            query="status__exact=open",
        )
    )
