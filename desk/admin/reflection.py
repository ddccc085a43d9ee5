"""Reflections in the admin: what each cost, its result, and queueing it again."""

from typing import Any, ClassVar

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.text import Truncator

from desk.shell.columns import column, count, link, money, structure, who, words
from desk.shell.read_only import BY_MODEL_OR_RULES, JobFilter, ReadOnlyAdmin
from desk.shell.requests import get_actor
from memory.projects.models import ProjectMembership
from memory.redaction.visible_text import show_text
from reflection.llm.models import DailySpend, ModelCall
from reflection.reflectors.models import Proposal, Reflection
from reflection.reflectors.requests import requeue_reflection

_STEP = column("step", "for", lambda step: step.replace(":", " "))
_SPENT = [count("input_tokens", "tokens in"), count("output_tokens", "tokens out"), money()]


class ReadOnlyInline(admin.TabularInline[Any, Reflection]):
    can_delete = False
    extra = 0

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ProposalInline(ReadOnlyInline):
    model = Proposal
    fk_name = "reflection"
    fields: ClassVar[Any] = [
        "effect",
        link("heuristic", "lesson"),
        link("near", "similar to"),
        column("similarity", "similarity", "{:.0%}".format),
    ]
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> QuerySet[Proposal]:
        return super().get_queryset(request).select_related("heuristic__current_revision", "near__current_revision")


class ModelCallInline(ReadOnlyInline):
    model = ModelCall
    fields: ClassVar[Any] = [_STEP, "provider", "model", "response", *_SPENT]
    readonly_fields = fields


class ReflectorFilter(JobFilter):
    title = "reflector"
    parameter_name = "reflector"
    member = "result__reflector"
    choices_offered = BY_MODEL_OR_RULES


@admin.register(Reflection)
class ReflectionAdmin(ReadOnlyAdmin[Reflection]):
    list_display = [
        "task_line",
        "status",
        "reflector",
        column("heuristics_proposed", "lessons proposed"),
        "attempts",
        money(),
        words("last_error_code", "last error"),
        "project",
        "created_at",
    ]
    nothing_yet = "No run has been reflected on yet. Workers reflect on runs soon after they are recorded."
    facts = [
        link("trajectory", "run"),
        "status",
        "reflector",
        "reflector_version",
        "prompt_version",
        column("heuristics_proposed", "lessons proposed"),
        column("skip_reason", "left out"),
        column("carried_by", "work done by"),
        "attempts",
        column("last_error", "last error"),
        "model",
        *_SPENT,
        "project",
        who("requested_by", "requested by"),
        "created_at",
        "started_at",
        "finished_at",
    ]
    list_filter = ["status", ReflectorFilter, "project", "created_at"]
    list_select_related = ["trajectory", "project"]
    search_fields = ["trajectory__task", "result__skip_reason", "last_error", "request_id"]
    date_hierarchy = "created_at"
    inlines = [ProposalInline, ModelCallInline]
    actions = ["reflect_again"]

    @admin.display(description="run", ordering="trajectory__task")
    def task_line(self, reflection: Reflection) -> str:
        return show_text(Truncator(reflection.trajectory.task).chars(80))

    @admin.action(description="Reflect again on the selected runs", permissions=["requeue"])
    def reflect_again(self, request: HttpRequest, queryset: QuerySet[Reflection]) -> None:
        def requeue(reflection: Reflection) -> str:
            requeue_reflection(reflection, by=get_actor(request))
            return f"Queued again: {reflection.trajectory}"

        self.for_each(request, queryset.select_related("trajectory"), requeue, role=ProjectMembership.Role.OPERATOR)

    def has_requeue_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("reflection.requeue_reflection")


@admin.register(ModelCall)
class ModelCallAdmin(ReadOnlyAdmin[ModelCall]):
    list_display = [column("created_at", "when"), _STEP, "provider", "model", *_SPENT, "project"]
    list_filter = ["provider", "model", "project", "created_at"]
    list_select_related = ["project"]
    nothing_yet = "No language model has been called yet. Reflection by rules needs none."
    facts = [
        column("created_at", "when"),
        _STEP,
        "subject",
        "provider",
        "model",
        "response",
        structure("tool_calls", "tools it called"),
        words("finish_reason", "why it ended"),
        *_SPENT,
        column("latency_ms", "time", lambda ms: f"{ms:,.0f} ms"),
        "attempt",
        "project",
        column("prompt_sha256", "hash of the prompt"),
    ]


@admin.register(DailySpend)
class DailySpendAdmin(ReadOnlyAdmin[DailySpend]):
    nothing_yet = "Nothing has been spent yet. Each day on which a language model is called has a row here."
    list_display = ["day", "project", count("calls", "calls"), count("tokens", "tokens"), money()]
    facts = list_display
    list_filter = ["project", "day"]
    list_select_related = ["project"]
