"""What models cost each day, for the insights."""

from collections.abc import Mapping
from datetime import date

from django.db.models import Sum
from django.http import HttpRequest

from memory.admin.chosen_project import narrow_to_chosen
from memory.admin.trends import Period
from reflection.llm.models import DailySpend


def count_spending(request: HttpRequest, period: Period) -> Mapping[date, float]:
    """Return what models cost on each day; nothing for people who may not see it."""
    if not request.user.has_perm("reflection.view_dailyspend"):
        return {}
    rows = narrow_to_chosen(DailySpend.objects.filter(day__gte=period.days[0]), request).order_by()
    return {day: float(cost) for day, cost in rows.values_list("day").annotate(cost=Sum("cost_usd"))}
