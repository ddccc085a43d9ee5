"""API keys: made, replaced and revoked by operators; a key is shown once."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.defaultfilters import pluralize
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.cache import add_never_cache_headers

from desk.shell.chosen_project import chosen_project
from desk.shell.columns import column
from desk.shell.read_only import ReadOnlyAdmin
from memory.database_clock import database_now
from memory.errors import MemoryAppError
from memory.limits import MAX_NAME_CHARS
from memory.projects.access import has_role, projects_with_role
from memory.projects.actors import Actor
from memory.projects.api_keys import (
    AGENT_SCOPES,
    NewApiKey,
    check_may_give,
    create_api_key,
    revoke_api_key,
    rotate_api_key,
)
from memory.projects.models import ApiKey, Project, ProjectMembership
from memory.trust.quarantine import quarantine_source

_OPERATOR = ProjectMembership.Role.OPERATOR
_OVERLAP_HOURS = 24
_SCOPES = (
    ("trajectories:read", "trajectories:read – read runs"),
    ("trajectories:write", "trajectories:write – record runs"),
    ("heuristics:read", "heuristics:read – read lessons"),
    ("heuristics:write", "heuristics:write – propose lessons"),
    ("retrieve", "retrieve – ask for lessons"),
    ("reflect", "reflect – start reflections"),
    ("memory:read", "memory:read – read blocks and passages"),
    ("memory:write", "memory:write – write blocks and passages"),
    ("evaluate", "evaluate – start evaluations"),
    ("run", "run – start agent runs, which may cost money"),
    ("agents", "agents – define agents and tools"),
    ("review", "review – decide on lessons"),
    ("release", "release – cut and deploy releases"),
    ("approve", "approve – decide on agent calls"),
)


class KeyForm(forms.Form):
    """What a new key is for."""

    project = forms.ModelChoiceField(queryset=Project.objects.none(), empty_label=None)
    client = forms.CharField(
        max_length=MAX_NAME_CHARS,
        label="Agent or tool",
        help_text="Who will use the key, for example airline-agent. Keys with the same name share idempotency keys.",
    )
    scopes = forms.MultipleChoiceField(
        choices=_SCOPES,
        initial=AGENT_SCOPES,
        widget=forms.CheckboxSelectMultiple,
        label="What it may do",
        help_text="An agent needs the ticked ones.",
    )
    expires_days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=36_500,
        label="Days until it expires",
        help_text="Leave empty for a key that does not expire.",
    )

    def __init__(self, *args: Any, user: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        projects: Any = self.fields["project"]
        projects.queryset = projects_with_role(user, _OPERATOR)


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin[ApiKey]):
    """Operators of a project make its keys; only a hash of a key is kept."""

    list_display = [
        "client",
        "prefix",
        "project",
        column("created_by", "owner"),
        "scopes",
        "created_at",
        "expires_at",
        "revoked_at",
        "last_used_at",
    ]
    list_filter = ["project", "revoked_at"]
    list_select_related = ["project", "created_by"]
    search_fields = ["client", "prefix"]
    exclude = ["secret_sha256"]
    actions = ["revoke", "quarantine_day", "quarantine_all"]
    change_form_template = "admin/memory/apikey/page.html"
    add_label = "Create a key"
    nothing_yet = "No key has been made yet. An agent needs one to send runs and to ask for lessons."

    @admin.action(description="Revoke the selected keys", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        assert request.user.is_authenticated
        for key in queryset:
            if not has_role(request.user, key.project_id, ProjectMembership.Role.OPERATOR):
                messages.error(request, f"You are not an operator of the project of the key {key}. It still works.")
                continue
            revoke_api_key(key, by=Actor.person(request.user))
            messages.success(request, f"The key {key} is revoked; it stops working within 5 seconds.")

    @admin.action(description="Quarantine lessons from the selected keys, last 24 hours", permissions=["quarantine"])
    def quarantine_day(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        self._quarantine(request, queryset, since=database_now() - timedelta(hours=24))

    @admin.action(description="Quarantine all lessons from the selected keys", permissions=["quarantine"])
    def quarantine_all(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        self._quarantine(request, queryset, since=datetime(2000, 1, 1, tzinfo=UTC))

    def _quarantine(self, request: HttpRequest, queryset: QuerySet[ApiKey], *, since: datetime) -> None:
        assert request.user.is_authenticated
        for key in queryset.select_related("project"):
            if not has_role(request.user, key.project_id, ProjectMembership.Role.OPERATOR):
                messages.error(request, f"You are not an operator of the project of the key {key}. Nothing was done.")
                continue
            done = quarantine_source(key.project, api_key=key, since=since, by=Actor.person(request.user))
            messages.success(
                request,
                f"Quarantined {len(done.heuristic_ids):,} lesson{pluralize(len(done.heuristic_ids))} of the key {key}; "
                f"{len(done.carried):,} answer{pluralize(len(done.carried))} contained them. "
                "See the quarantine order for the list.",
            )

    def has_quarantine_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memory.quarantine_source")

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memory.change_apikey")

    # ── Making and replacing ──────────────────────────────────────────────────────────────────────────────────────
    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memory.change_apikey")

    def get_urls(self) -> list[URLPattern]:
        act = path("<uuid:id>/act/", self.admin_site.admin_view(self.act), name="memory_apikey_act")
        return [act, *super().get_urls()]

    def add_view(
        self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Ask what the key is for, make it, and show it once."""
        if not (self.has_add_permission(request) and projects_with_role(request.user, _OPERATOR).exists()):
            raise PermissionDenied
        initial = {"project": request.GET.get("project") or chosen_project(request)}
        form = KeyForm(request.POST or None, user=request.user, initial=initial)
        if request.method == "POST" and form.is_valid():
            try:
                return self._show_key(request, self._make(request, form.cleaned_data))
            except MemoryAppError as refusal:
                form.add_error(None, str(refusal))
        shown = {"title": "New API key", "opts": self.opts, "form": form, "button": "Create the key"}
        return TemplateResponse(request, "admin/form.html", {**self.admin_site.each_context(request), **shown})

    def act(self, request: HttpRequest, id: Any) -> HttpResponse:
        """Do what a button on the page of a key says: replace it or revoke it."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        key = get_object_or_404(self.get_queryset(request).select_related("project"), pk=id)
        try:
            check_may_give(request.user, key.project, key.scopes if request.POST.get("do") == "rotate" else ())
            if request.POST.get("do") == "rotate":
                return self._show_key(request, rotate_api_key(key, by=Actor.person(request.user)))  # type: ignore[arg-type]
            revoke_api_key(key, by=Actor.person(request.user))  # type: ignore[arg-type]
            messages.success(request, f"The key {key} is revoked; it stops working within 5 seconds.")
        except MemoryAppError as refusal:
            messages.error(request, str(refusal))
        return HttpResponseRedirect(reverse("admin:memory_apikey_change", args=[key.pk]))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        key = self.get_object(request, object_id)
        may_act = key is not None and self._may_act(request, key)
        shown = {"may_act": may_act, "key": key, "overlap_hours": _OVERLAP_HOURS, "title": f"API key of {key}"}
        return super().change_view(request, object_id, form_url, {**shown, **(extra_context or {})})

    def _may_act(self, request: HttpRequest, key: ApiKey) -> bool:
        may = self.has_revoke_permission(request) and has_role(request.user, key.project_id, _OPERATOR)
        return may and ApiKey.objects.usable().filter(pk=key.pk).exists()

    def _make(self, request: HttpRequest, asked: dict[str, Any]) -> NewApiKey:
        check_may_give(request.user, asked["project"], asked["scopes"])
        days = asked["expires_days"]
        return create_api_key(
            asked["project"],
            client=asked["client"],
            scopes=asked["scopes"],
            expires_at=timezone.now() + timedelta(days=days) if days else None,
            by=Actor.person(request.user),  # type: ignore[arg-type]  # the admin requires it
        )

    def _show_key(self, request: HttpRequest, new: NewApiKey) -> HttpResponse:
        """Show a new key, this once."""
        shown = {"title": "New API key", "opts": self.opts, "new": new, "key": new.api_key}
        context = {**self.admin_site.each_context(request), **shown}
        answer = TemplateResponse(request, "admin/memory/apikey/made.html", context)
        add_never_cache_headers(answer)
        return answer
