"""Projects, their members and polarity quotas."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join

from desk.admin.consolidation import queue_consolidations
from desk.admin.project_form import SIZE, MembershipForm, ProjectForm
from desk.admin.rule_change import REQUESTED
from desk.shell.columns import column, who
from desk.shell.read_only import MemberRows
from desk.shell.requests import get_actor
from memory.errors import MemoryAppError
from memory.projects.access import has_role, projects_with_role, visible_projects
from memory.projects.actors import Actor, name_actor
from memory.projects.api_keys import find_deciding_keys
from memory.projects.models import RECORD_SIZES, Project, ProjectMembership
from memory.projects.rule_changes import RULE_SETTINGS, add_reviewer, change_settings, may_change, requires_two
from memory.redaction.visible_text import show_text
from memory.retrieval.models import PolarityQuota


@admin.register(Project)
class ProjectAdmin(admin.ModelAdmin[Project]):
    list_display = [
        "name",
        "slug",
        "four_eyes",
        "archived_at",
        "created_at",
    ]
    form = ProjectForm
    fieldsets = [
        (None, {"fields": ["name", "slug", "reflect_on_record"]}),
        (
            "Daily budgets",
            {
                "description": "When one is used up, reflections wait until the next UTC day. Empty means no limit.",
                "fields": ["daily_call_budget", "daily_token_budget", "daily_cost_budget_usd"],
            },
        ),
        ("Who decides", {"fields": ["four_eyes", "mistake_card_policy"]}),
        (
            "Retention, in days",
            {
                "description": "Leave empty to keep everything. Settings › Retention shows what is due now.",
                "fields": [
                    "run_retention_days",
                    "conversation_retention_days",
                    "passage_retention_days",
                    "answer_retention_days",
                    "mistake_card_retention_days",
                ],
            },
        ),
        (
            "Retrieval: the record of earlier runs",
            {
                "description": "Before their lessons, agents get a record of earlier runs. Empty keeps the default.",
                "fields": ["record_budget_tokens", *(f"{SIZE}{name}" for name in RECORD_SIZES)],
            },
        ),
        ("Closing", {"fields": ["archived_at", "id", "created_at"]}),
    ]
    search_fields = ["name", "slug"]
    readonly_fields = ["id", "created_at"]
    prepopulated_fields = {"slug": ["name"]}
    actions = ["consolidate"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Project]:
        return visible_projects(request.user)

    def has_change_permission(self, request: HttpRequest, obj: Project | None = None) -> bool:
        allowed = super().has_change_permission(request, obj)
        return allowed and (obj is None or has_role(request.user, obj.pk, ProjectMembership.Role.OPERATOR))

    @admin.action(description="Consolidate what is new in these projects", permissions=["consolidate"])
    def consolidate(self, request: HttpRequest, queryset: QuerySet[Project]) -> None:
        queue_consolidations(request, queryset, again=False)

    def has_consolidate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("reflection.consolidate_project")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        # The records of a project go by erasure, not by one click.
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: Project | None = None) -> list[str]:
        """Who decides is changed by people who may review; others see it."""
        may = request.user.has_perm("memory.review_heuristic") if obj is None else may_change(request.user, obj)
        return [*self.readonly_fields, *(() if may else RULE_SETTINGS)]

    def save_model(self, request: HttpRequest, obj: Project, form: Any, change: bool) -> None:
        by = get_actor(request)
        name_actor(by)
        if change:
            self._change(request, obj, form, by=by)
            return
        super().save_model(request, obj, form, change)
        if not has_role(request.user, obj.pk, ProjectMembership.Role.OPERATOR):
            role = ProjectMembership.Role.OPERATOR  # else who made it would not see it
            ProjectMembership.objects.create(user_id=request.user.pk or 0, project=obj, role=role)

    def _change(self, request: HttpRequest, project: Project, form: Any, *, by: Actor) -> None:
        """Save what was changed; who decides is changed by its own service, which may ask for a second person."""
        rules = {name: form.cleaned_data[name] for name in RULE_SETTINGS if name in form.changed_data}
        if others := [name for name in form.changed_columns if name not in rules]:
            project.save(update_fields=others)
        if not rules:
            return
        try:
            requested = change_settings(project, values=rules, by=by)
        except MemoryAppError as refusal:
            messages.error(request, str(refusal))
        else:
            if requested is not None:
                messages.warning(request, REQUESTED)


@admin.register(ProjectMembership)
class ProjectMembershipAdmin(admin.ModelAdmin[ProjectMembership]):
    """Who works where. It gives rights, so no group has it: superusers, and whom they gave the permission."""

    form = MembershipForm
    add_label = "Add a member"
    nothing_yet = "No one is a member yet. Superusers see every project without it."
    list_display = ["user", "where", "role", "created_at"]
    list_filter = ["role", "project"]
    list_select_related = ["user", "project"]
    search_fields = ["user__username", "project__name"]

    @admin.display(description="project", ordering="project")
    def where(self, membership: ProjectMembership) -> str:
        return str(membership.project or "every project")

    def has_delete_permission(self, request: HttpRequest, obj: ProjectMembership | None = None) -> bool:
        return super().has_delete_permission(request, obj) and (obj is None or may_change(request.user, obj.project))

    def save_model(self, request: HttpRequest, obj: ProjectMembership, form: Any, change: bool) -> None:
        by = get_actor(request)
        name_actor(by)
        decides = obj.role == ProjectMembership.Role.REVIEWER and bool(form.changed_data)
        if not decides or (may_change(request.user, obj.project) and not requires_two(obj.project)):
            super().save_model(request, obj, form, change)
            if change and form.changed_data:
                was = ProjectMembership(user_id=form.initial["user"])  # its person may be another now
                _list_keys(request, was.user, None)
            return
        try:
            add_reviewer(obj.user, project=obj.project, by=by)
        except MemoryAppError as refusal:
            messages.error(request, str(refusal))
        else:
            messages.warning(request, REQUESTED)

    def delete_model(self, request: HttpRequest, obj: ProjectMembership) -> None:
        name_actor(get_actor(request))
        super().delete_model(request, obj)
        _list_keys(request, obj.user, obj.project)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[ProjectMembership]) -> None:
        for membership in queryset.select_related("project"):
            if self.has_delete_permission(request, membership):
                self.delete_model(request, membership)
            else:
                messages.error(request, f"{membership}: you may not review there, so nothing was changed.")

    def log_addition(self, request: HttpRequest, obj: ProjectMembership, message: Any) -> Any:
        return super().log_addition(request, obj, message) if obj.pk else None

    def response_add(self, request: HttpRequest, obj: ProjectMembership, post_url_continue: Any = None) -> Any:
        if obj.pk:
            return super().response_add(request, obj, post_url_continue)
        return HttpResponseRedirect(reverse("admin:memory_rulechange_changelist"))


def _list_keys(request: HttpRequest, user: Any, project: Project | None) -> None:
    """Name the keys that decide as a person who was a member of a project or, for None, of every one."""
    if keys := find_deciding_keys(user.pk, project):
        links = [(reverse("admin:memory_apikey_change", args=[key.pk]), key, key.project) for key in keys]
        drawn = format_html_join(", ", '<a href="{}">{}</a> in {}', links)
        text = "API keys of {} that decide: {}. They decide only what {} still may, so replace or revoke them."
        messages.warning(request, format_html(text, user, drawn, user))


def _share_field(lessons: str) -> forms.FloatField:
    return forms.FloatField(
        required=False,
        min_value=0,
        max_value=1,
        label=f"Maximum share: {lessons}",
        help_text=f"From 0 to 1: how much of an answer may be lessons about {lessons}. Leave empty for no limit.",
    )


class PolarityQuotaForm(forms.ModelForm[PolarityQuota]):
    """A task family is a short name, so it gets a one-line field."""

    max_works_share = _share_field("what works")
    max_avoid_share = _share_field("what to avoid")

    class Meta:
        model = PolarityQuota
        fields = ("project", "task_id", "max_works_share", "max_avoid_share")
        widgets = {"task_id": forms.TextInput(attrs={"class": "vTextField"})}


@admin.register(PolarityQuota)
class PolarityQuotaAdmin(MemberRows[PolarityQuota]):
    form = PolarityQuotaForm
    add_label = "Add a quota"
    nothing_yet = "No quota has been set, so answers may have any mix of lessons about what works and what to avoid."
    fieldsets = [
        (
            None,
            {
                "description": "manage.py evaluate measures which mix a kind of task needs.",
                "fields": ["project", "task_id", "max_works_share", "max_avoid_share"],
            },
        )
    ]
    list_display = [
        "family",
        column("max_works_share", "what works, at most", "{:.0%}".format),
        column("max_avoid_share", "what to avoid, at most", "{:.0%}".format),
        "project",
        who("set_by", "set by"),
        "set_at",
    ]
    list_filter = ["project"]
    list_select_related = ["project"]
    search_fields = ["task_id"]

    @admin.display(description="task family", ordering="task_id")
    def family(self, quota: PolarityQuota) -> str:
        return show_text(str(quota))

    def has_change_permission(self, request: HttpRequest, obj: PolarityQuota | None = None) -> bool:
        return super().has_change_permission(request, obj) and _is_operator(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: PolarityQuota | None = None) -> bool:
        return super().has_delete_permission(request, obj) and _is_operator(request, obj)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs["queryset"] = projects_with_role(request.user, ProjectMembership.Role.OPERATOR)
        kwargs["empty_label"] = "Choose a project"
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def save_model(self, request: HttpRequest, obj: PolarityQuota, form: Any, change: bool) -> None:
        obj.set_by, obj.set_at = get_actor(request).label, timezone.now()
        super().save_model(request, obj, form, change)


def _is_operator(request: HttpRequest, quota: PolarityQuota | None) -> bool:
    return quota is None or has_role(request.user, quota.project_id, ProjectMembership.Role.OPERATOR)
