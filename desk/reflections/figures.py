"""What the home page says of reflections and webhooks: what failed, what waits, and what models cost."""

from collections.abc import Iterable
from datetime import timedelta

from django.db.models import Count, Q, Sum
from django.http import HttpRequest
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils import timezone

from desk.shell.chosen_project import narrow_to_chosen
from desk.shell.pages import Figure
from memory.projects.access import projects_with_role
from memory.projects.models import ProjectMembership
from reflection.llm.models import DailySpend
from reflection.reflectors.models import Reflection
from reflection.webhooks.models import WebhookEndpoint


def count_reflections(request: HttpRequest) -> Iterable[Figure]:
    """Return how many reflections failed and wait, and what the models cost."""
    if request.user.has_perm("reflection.view_reflection"):
        counted = narrow_to_chosen(Reflection.objects.all(), request).aggregate(
            dead=Count("id", filter=Q(status=Reflection.Status.DEAD)),
            live=Count("id", filter=Q(status__in=Reflection.LIVE)),
        )
        link = reverse("admin:reflection_reflection_changelist")
        yield Figure(
            label=f"reflection{pluralize(counted['dead'])} failed",
            value=str(counted["dead"]),
            link=f"{link}?status__exact=dead",
            note=f"{counted['live']} still to do" if counted["live"] else "",
            alarming=counted["dead"] > 0,
        )
    if request.user.has_perm("reflection.view_dailyspend"):
        # Seven days, today included.
        since = timezone.now().date() - timedelta(days=6)
        spent = (
            narrow_to_chosen(DailySpend.objects.all(), request)
            .filter(day__gte=since)
            .aggregate(cost=Sum("cost_usd"), calls=Sum("calls"))
        )
        yield Figure(
            label="model cost, 7 days",
            value=f"${spent['cost'] or 0:.2f}",
            link=reverse("admin:reflection_dailyspend_changelist") + f"?day__gte={since}",
            note=f"{spent['calls'] or 0} calls",
        )


def count_failing_webhooks(request: HttpRequest) -> Iterable[Figure]:
    """Return how many webhooks fail or were disabled because they did, if any."""
    if request.user.has_perm("reflection.view_webhookendpoint"):
        projects = projects_with_role(request.user, ProjectMembership.Role.OPERATOR)
        rows = WebhookEndpoint.objects.filter(project__in=projects, failing_since__isnull=False)
        failing = narrow_to_chosen(rows, request).count()
        if failing:
            link = reverse("admin:reflection_webhookendpoint_changelist")
            yield Figure(label=f"webhook{pluralize(failing)} failing", value=str(failing), link=link, alarming=True)
