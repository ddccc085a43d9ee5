"""What reflections add to the review desk and the home page: checks, costs, failures."""

from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

from django.db.models import Count, Q, Sum
from django.http import HttpRequest
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils import timezone

from memory.admin.chosen_project import narrow_to_chosen
from memory.admin.panels import Figure, Panel
from memory.errors import NoRunToReflectOn
from memory.heuristics.models import Heuristic
from memory.projects.actors import Actor
from reflection.llm.models import DailySpend
from reflection.reflectors.models import Proposal, Reflection
from reflection.reflectors.requests import enqueue_reflection


def draw_checks(heuristic: Heuristic) -> Panel:
    """Return what the checks found when a heuristic was proposed, and what proposing it cost. One query."""
    proposals = list(
        Proposal.objects.filter(heuristic=heuristic).select_related("reflection").order_by("created_at", "id")[:20]
    )
    findings = {finding["code"]: finding["message"] for proposal in proposals for finding in proposal.findings}
    first = proposals[0].reflection if proposals else None
    return Panel(
        template="admin/reflection/checks.html",
        context={"findings": findings, "reflection": first, "proposals": proposals},
    )


def find_flags(heuristic_ids: Iterable[UUID]) -> dict[UUID, set[str]]:
    """Return the codes of the checks' findings in these heuristics. One query."""
    flagged = Proposal.objects.filter(heuristic__in=list(heuristic_ids)).exclude(findings=[])
    found: dict[UUID, set[str]] = {}
    for heuristic_id, findings in flagged.values_list("heuristic_id", "findings"):
        found.setdefault(heuristic_id, set()).update(finding["code"] for finding in findings)
    return found


def reflect_on_run_again(heuristic: Heuristic, by: Actor) -> str:
    """Queue a reflection of the newest run a heuristic is drawn from.

    Raises:
        NoRunToReflectOn: a person wrote it by hand.
    """
    newest = heuristic.evidence.select_related("trajectory").order_by("-created_at", "-id").first()
    if newest is None:
        raise NoRunToReflectOn("No run is linked to this heuristic, so there is nothing to reflect on again.")
    enqueue_reflection(newest.trajectory, by=by)
    return "Its newest run is queued for another reflection. What it finds will be a separate proposal."


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
