"""API keys: made, replaced and revoked by operators; a key is shown once."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import pluralize
from django.utils import timezone
from django.utils.cache import add_never_cache_headers

from desk.shell.chosen_project import chosen_project
from desk.shell.columns import column
from desk.shell.read_only import ReadOnlyAdmin
from desk.shell.requests import get_actor
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
    ("import", "import – bring in a project from elsewhere, with its decisions and settings"),
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
        self.for_each(request, queryset, lambda key: _revoke(key, by=get_actor(request)), role=_OPERATOR)

    @admin.action(description="Quarantine lessons from the selected keys, last 24 hours", permissions=["quarantine"])
    def quarantine_day(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        self._quarantine(request, queryset, since=database_now() - timedelta(hours=24))

    @admin.action(description="Quarantine all lessons from the selected keys", permissions=["quarantine"])
    def quarantine_all(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        # Before any lesson was made.
        self._quarantine(request, queryset, since=datetime(2000, 1, 1, tzinfo=UTC))

    def _quarantine(self, request: HttpRequest, queryset: QuerySet[ApiKey], *, since: datetime) -> None:
        def quarantine(key: ApiKey) -> str:
            order = quarantine_source(key.project, api_key=key, since=since, by=get_actor(request))
            lessons, answers = len(order.heuristic_ids), len(order.carried)
            return (
                f"Quarantined {lessons:,} lesson{pluralize(lessons)} of the key {key}; {answers:,} "
                f"answer{pluralize(answers)} contained them. See the quarantine order for the list."
            )

        self.for_each(request, queryset.select_related("project"), quarantine, role=_OPERATOR)

    def has_quarantine_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memory.quarantine_source")

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memory.change_apikey")

    # ── Making and replacing ──────────────────────────────────────────────────────────────────────────────────────
    def has_add_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("memory.change_apikey")

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
                asked = form.cleaned_data
                check_may_give(request.user, asked["project"], asked["scopes"])
                days = asked["expires_days"]
                new = create_api_key(
                    asked["project"],
                    client=asked["client"],
                    scopes=asked["scopes"],
                    expires_at=timezone.now() + timedelta(days=days) if days else None,
                    by=get_actor(request),
                )
                return self._show_key(request, new)
            except MemoryAppError as refusal:
                form.add_error(None, str(refusal))
        return self.draw(request, "admin/form.html", "New API key", form=form, button="Create the key")

    def row_context(self, request: HttpRequest, row: ApiKey) -> dict[str, Any]:
        may_act = self.has_revoke_permission(request) and has_role(request.user, row.project_id, _OPERATOR)
        return {
            "may_act": may_act and ApiKey.objects.usable().filter(pk=row.pk).exists(),
            "key": row,
            "overlap_hours": _OVERLAP_HOURS,
            "title": f"API key of {row}",
        }

    def press(self, request: HttpRequest, row: ApiKey) -> str | HttpResponse:
        """Replace a key or revoke it."""
        is_rotated = request.POST.get("do") == "rotate"
        check_may_give(request.user, row.project, row.scopes if is_rotated else ())
        if is_rotated:
            return self._show_key(request, rotate_api_key(row, by=get_actor(request)))
        return _revoke(row, by=get_actor(request))

    def _show_key(self, request: HttpRequest, new: NewApiKey) -> HttpResponse:
        """Show a new key, this once."""
        answer = self.draw(request, "admin/memory/apikey/made.html", "New API key", new=new, key=new.api_key)
        add_never_cache_headers(answer)
        return answer


def _revoke(key: ApiKey, *, by: Actor) -> str:
    revoke_api_key(key, by=by)
    return f"The key {key} is revoked; it stops working within 5 seconds."
