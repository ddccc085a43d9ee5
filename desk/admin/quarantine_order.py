"""Quarantine orders: what each covers, the answers that carried the words, and lifting it."""

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from desk.shell.columns import column, who
from desk.shell.read_only import PROJECT, LastingRecordAdmin
from desk.shell.requests import get_actor
from memory.heuristics.models import Heuristic
from memory.mistakes.models import MistakeCard
from memory.projects.actors import describe_actor
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
        lines = []
        for lift in order.lifts.all():
            about = str(lift.subject_id) if lift.subject_id else "all it covers"
            reason = f": {lift.reason}" if lift.reason else ""
            by = describe_actor(lift.lifted_by)
            lines.append(f"{lift.lifted_at:%Y-%m-%d %H:%M} by {by} for {about}{reason}")
        return "; ".join(lines) or "No. Nothing that it covers is served."

    @admin.display(description="lessons and mistake cards in its words")
    def covered(self, order: QuarantineOrder) -> SafeString | str:
        wordings = find_covered_by(order)
        lessons = Heuristic.objects.filter(revisions__in=wordings).distinct().select_related("current_revision")
        cards = MistakeCard.objects.filter(revisions__in=wordings).distinct()
        rows = [(_link("heuristic", row.pk), str(row), row.get_status_display()) for row in lessons[:SHOWN]]
        rows += [(_link("mistakecard", row.pk), str(row), row.get_status_display()) for row in cards[:SHOWN]]
        links = format_html_join("", '<li><a href="{}">{}</a> ({})</li>', rows)
        return format_html("<ul>{}</ul>", links) if rows else "–"

    @admin.display(description="answers that carried the words")
    def answers(self, order: QuarantineOrder) -> SafeString | str:
        carried = find_carried(Project.objects.get(pk=order.project_id), find_covered_by(order))
        rows = [
            (_link("retrieval", row.retrieval_id), f"{row.answered_at:%Y-%m-%d %H:%M:%S}", row.client, row.request_id)
            for row in carried[:SHOWN]
        ]
        shown = format_html_join("", '<li><a href="{}">{}</a> client {}, request {}</li>', rows)
        more = f"{len(carried):,} in all. The first {SHOWN:,}:" if len(carried) > SHOWN else f"{len(carried):,} in all."
        return format_html("{}<ul>{}</ul>", more, shown)

    @admin.action(description="Lift the selected orders", permissions=["lift"])
    def lift(self, request: HttpRequest, queryset: QuerySet[QuarantineOrder]) -> None:
        def lift(order: QuarantineOrder) -> str:
            lift_order(order, by=get_actor(request))
            return f"Lifted: {order}. This serves nothing by itself; review the lessons next."

        self.for_each(request, queryset, lift, role=ProjectMembership.Role.OPERATOR)

    def has_lift_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memory.quarantine_source")


def _link(model: str, pk: UUID) -> str:
    return reverse(f"admin:memory_{model}_change", args=[pk])
