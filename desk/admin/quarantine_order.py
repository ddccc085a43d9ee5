"""Quarantine orders: what each covers, the answers that carried the words, and lifting it."""

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from desk.shell.columns import column, who
from desk.shell.read_only import PROJECT, LastingRecordAdmin
from memory.heuristics.models import Heuristic
from memory.mistakes.models import MistakeCard
from memory.projects.access import has_role
from memory.projects.actors import Actor, describe_actor
from memory.projects.models import Project, ProjectMembership
from memory.trust.carried import find_carried
from memory.trust.models import QuarantineOrder
from memory.trust.quarantine import find_covered_by, lift_order

SHOWN = 500
_ORDER: list[Any] = [
    column("ordered_at", "when"),
    who("source", "learnt from"),
    column("since", "since"),
    "reason",
    who("ordered_by", "ordered by"),
]


@admin.register(QuarantineOrder)
class QuarantineOrderAdmin(LastingRecordAdmin[QuarantineOrder]):
    nothing_yet = (
        "No source has been quarantined. Quarantining an API key, or a client with `manage.py quarantine`, takes "
        "everything learnt from it out of service."
    )
    list_display = [
        *_ORDER,
        column("retrieval_count", "answers that carried its words"),
        "is_lifted",
        PROJECT,
    ]
    search_fields = ["source", "reason", "ordered_by"]
    date_hierarchy = "ordered_at"
    facts = [*_ORDER, PROJECT, "lifted", "covered", "answers"]
    actions = ["lift"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[QuarantineOrder]:
        return super().get_queryset(request).prefetch_related("lifts")

    @admin.display(description="lifted", boolean=True)
    def is_lifted(self, order: QuarantineOrder) -> bool:
        return any(lift.subject_id is None for lift in order.lifts.all())

    @admin.display(description="lifted")
    def lifted(self, order: QuarantineOrder) -> str:
        said = [
            f"{lift.lifted_at:%Y-%m-%d %H:%M} by {describe_actor(lift.lifted_by)}"
            + (f" for {lift.subject_id}" if lift.subject_id else " for all it covers")
            + (f": {lift.reason}" if lift.reason else "")
            for lift in order.lifts.all()
        ]
        return "; ".join(said) or "No. Nothing that it covers is served."

    @admin.display(description="lessons and mistake cards in its words")
    def covered(self, order: QuarantineOrder) -> SafeString | str:
        wordings = find_covered_by(order)
        lessons = Heuristic.objects.filter(revisions__in=wordings).distinct().select_related("current_revision")
        cards = MistakeCard.objects.filter(revisions__in=wordings).distinct()
        rows = [(_link("heuristic", each.pk), str(each), each.get_status_display()) for each in lessons[:SHOWN]]
        rows += [(_link("mistakecard", each.pk), str(each), each.get_status_display()) for each in cards[:SHOWN]]
        return (
            format_html("<ul>{}</ul>", format_html_join("", '<li><a href="{}">{}</a> ({})</li>', rows)) if rows else "–"
        )

    @admin.display(description="answers that carried the words")
    def answers(self, order: QuarantineOrder) -> SafeString | str:
        carried = find_carried(Project.objects.get(pk=order.project_id), find_covered_by(order))
        rows = [
            (
                _link("retrieval", each.retrieval_id),
                f"{each.answered_at:%Y-%m-%d %H:%M:%S}",
                each.client,
                each.request_id,
            )
            for each in carried[:SHOWN]
        ]
        shown = format_html_join("", '<li><a href="{}">{}</a> client {}, request {}</li>', rows)
        more = f"{len(carried):,} in all. The first {SHOWN:,}:" if len(carried) > SHOWN else f"{len(carried):,} in all."
        return format_html("{}<ul>{}</ul>", more, shown)

    @admin.action(description="Lift the selected orders", permissions=["lift"])
    def lift(self, request: HttpRequest, queryset: QuerySet[QuarantineOrder]) -> None:
        assert request.user.is_authenticated
        for order in queryset:
            if not has_role(request.user, order.project_id, ProjectMembership.Role.OPERATOR):
                messages.error(request, f"You are not an operator of the project of {order}. The order stays.")
                continue
            lift_order(order, by=Actor.person(request.user))
            messages.success(request, f"Lifted: {order}. This serves nothing by itself; review the lessons next.")

    def has_lift_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memory.quarantine_source")


def _link(model: str, pk: UUID) -> str:
    return reverse(f"admin:memory_{model}_change", args=[pk])
