"""Webhooks in the admin, for the operators of a project: add, rotate, test, disable, and see what was delivered."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.cache import add_never_cache_headers

from desk.shell.chosen_project import chosen_project
from desk.shell.columns import column, link, structure
from desk.shell.read_only import JobFilter, MemberRows, ReadOnlyAdmin
from desk.shell.requests import get_actor
from memory.egress import find_project_url_fault
from memory.events import EventKind
from memory.projects.access import has_role, projects_with_role
from memory.projects.actors import Actor
from memory.projects.models import ProjectMembership
from reflection.errors import ReflectionError
from reflection.webhooks import endpoints
from reflection.webhooks.models import EVENTS, WebhookDelivery, WebhookEndpoint
from reflection.webhooks.signatures import find_secret

SHOWN_DELIVERIES = 20
_OPERATOR = ProjectMembership.Role.OPERATOR
_FIELDS = ["project", "url", "events", "style", "with_text", "desk_url"]


class WebhookForm(forms.ModelForm[WebhookEndpoint]):
    """An address is one line, and the events are boxes to tick."""

    events = forms.MultipleChoiceField(
        label="Send a message when", choices=EventKind.choices, widget=forms.CheckboxSelectMultiple
    )

    class Meta:
        model = WebhookEndpoint
        fields = _FIELDS
        labels = {"url": "Send to", "style": "Message format", "with_text": "Include the words of lessons"}
        widgets = {name: forms.URLInput(attrs={"class": "vURLField"}) for name in ("url", "desk_url")}

    def clean_url(self) -> str:
        """Refuse an address that nothing may be sent to."""
        url: str = self.cleaned_data["url"].strip()
        if fault := find_project_url_fault(url):
            raise forms.ValidationError(fault)
        return url

    def clean_desk_url(self) -> str:
        """Accept the root of a site."""
        url: str = self.cleaned_data["desk_url"].strip().rstrip("/")
        if not url.startswith(("http://", "https://")):
            raise forms.ValidationError("Enter the address of this site, starting with https:// or http://.")
        return url


@admin.register(WebhookEndpoint)
class WebhookEndpointAdmin(MemberRows[WebhookEndpoint]):
    """Only operators of its project see a webhook: addresses of chat services are secrets."""

    form = WebhookForm
    change_form_template = "admin/reflection/webhook.html"
    nothing_yet = "No webhook has been added. A webhook tells another service, such as a chat, what happens here."
    list_display = ["host", "project", "message_format", "state", "failing_since", "created_at"]
    list_filter = ["project", "style"]
    list_select_related = ["project"]
    ordering = ["-created_at"]
    fields = [*_FIELDS]
    actions = None

    @admin.display(description="webhook")
    def host(self, endpoint: WebhookEndpoint) -> str:
        return endpoint.host

    @admin.display(description="message format", ordering="style")
    def message_format(self, endpoint: WebhookEndpoint) -> str:
        return str(endpoint.get_style_display())

    @admin.display(description="state")
    def state(self, endpoint: WebhookEndpoint) -> str:
        if endpoint.disabled_at:
            return f"disabled: {endpoint.disabled_reason}"
        return "failing" if endpoint.failing_since else "enabled"

    # ── Who may ───────────────────────────────────────────────────────────────────────────────────────────────────
    def get_queryset(self, request: HttpRequest) -> QuerySet[WebhookEndpoint]:
        return super().get_queryset(request).filter(project__in=projects_with_role(request.user, _OPERATOR))

    def has_view_permission(self, request: HttpRequest, obj: WebhookEndpoint | None = None) -> bool:
        return super().has_view_permission(request, obj) and _is_operator(request, obj)

    def has_change_permission(self, request: HttpRequest, obj: WebhookEndpoint | None = None) -> bool:
        return super().has_change_permission(request, obj) and _is_operator(request, obj)

    def has_delete_permission(self, request: HttpRequest, obj: WebhookEndpoint | None = None) -> bool:
        return super().has_delete_permission(request, obj) and _is_operator(request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Name the webhook alone: its secrets and messages go with it, and need no permission of their own."""
        return [str(endpoint) for endpoint in objs], {}, set(), []

    # ── Adding and changing ───────────────────────────────────────────────────────────────────────────────────────
    def get_readonly_fields(self, request: HttpRequest, obj: WebhookEndpoint | None = None) -> list[str]:
        return ["project"] if obj else []

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        kwargs["queryset"] = projects_with_role(request.user, _OPERATOR)
        kwargs["empty_label"] = "Choose a project"
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        initial: dict[str, Any] = {
            "desk_url": request.build_absolute_uri(reverse("home")).rstrip("/"),
            "events": EventKind.values,
        }
        # Two are enough to see whether there is only one.
        own = list(projects_with_role(request.user, _OPERATOR)[:2])
        if project := chosen_project(request) or (own[0] if len(own) == 1 else None):
            initial["project"] = project.pk
        return initial | super().get_changeform_initial_data(request)

    def save_model(self, request: HttpRequest, obj: WebhookEndpoint, form: Any, change: bool) -> None:
        if change:
            endpoints.change_endpoint(obj, fields=form.changed_data, by=get_actor(request))
        else:
            # The page that follows shows it, once.
            request.new_secret = endpoints.add_endpoint(obj, by=get_actor(request))  # type: ignore[attr-defined]

    def response_add(self, request: HttpRequest, obj: WebhookEndpoint, post_url_continue: str | None = None) -> Any:
        return self._show_secret(request, request.new_secret)  # type: ignore[attr-defined]

    def delete_model(self, request: HttpRequest, obj: WebhookEndpoint) -> None:
        endpoints.delete_endpoint(obj, by=get_actor(request))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"title": "Webhooks", **(extra_context or {})})

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **options: Any) -> Any:
        context |= {"show_save_and_add_another": False, "show_save_and_continue": False}
        endpoint: WebhookEndpoint | None = options["obj"]
        if endpoint is not None:
            secrets = endpoint.secrets.filter(retired_at__isnull=True)
            context |= {
                "title": "Webhook",
                "subtitle": None,
                "endpoint": endpoint,
                "secrets": [{"row": row, "is_lost": find_secret(row) is None} for row in secrets],
                "deliveries": WebhookDelivery.objects.filter(endpoint=endpoint)[:SHOWN_DELIVERIES],  # newest first
                "may_change": self.has_change_permission(request, endpoint),
            }
        return super().render_change_form(request, context, *args, **options)

    # ── Buttons ───────────────────────────────────────────────────────────────────────────────────────────────────
    def get_urls(self) -> list[URLPattern]:
        act = self.admin_site.admin_view(self.act)
        return [path("<uuid:id>/act/", act, name="reflection_webhookendpoint_act"), *super().get_urls()]

    def act(self, request: HttpRequest, id: Any) -> HttpResponse:
        """Do what a button on the page of a webhook says."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        endpoint = get_object_or_404(self.get_queryset(request), pk=id)
        if not self.has_change_permission(request, endpoint):
            raise PermissionDenied
        try:
            new = _act(endpoint, request.POST, by=get_actor(request))
        except ReflectionError as refusal:
            messages.error(request, str(refusal))
        else:
            if isinstance(new, endpoints.NewSecret):
                return self._show_secret(request, new)
            messages.success(request, str(new))
        return HttpResponseRedirect(reverse("admin:reflection_webhookendpoint_change", args=[endpoint.pk]))

    def _show_secret(self, request: HttpRequest, new: endpoints.NewSecret) -> HttpResponse:
        """Show a new secret, this once."""
        context = {**self.admin_site.each_context(request), "title": "Webhook secret", "opts": self.opts}
        context |= {"endpoint": new.endpoint, "secret": new.secret}
        answer = TemplateResponse(request, "admin/reflection/webhook_secret.html", context)
        add_never_cache_headers(answer)
        return answer


def _act(endpoint: WebhookEndpoint, posted: Any, *, by: Actor) -> "endpoints.NewSecret | str":
    """Return a new secret, or a sentence about what was done.

    Raises:
        ReflectionError: it cannot be done.
    """
    match posted.get("do"):
        case "test":
            endpoints.send_test(endpoint, by=by)
            return "A test message is queued. Reload the page to see the result."
        case "add_secret":
            return endpoints.add_secret(endpoint, by=by)
        case "retire_secret":
            endpoints.retire_secret(get_object_or_404(endpoint.secrets, pk=posted.get("secret")), by=by)
            return "The secret is retired. Messages are no longer signed with it."
        case "disable":
            endpoints.disable_endpoint(endpoint, by=by)
            return "The webhook is disabled. Waiting messages are given up."
        case "enable":
            endpoints.enable_endpoint(endpoint, by=by)
            return "The webhook is enabled."
        case "send_again":
            delivery = get_object_or_404(WebhookDelivery, endpoint=endpoint, pk=posted.get("delivery"))
            endpoints.send_again(delivery, by=by)
            return "The message is queued again with the same id."
        case _:
            return "Nothing was changed."


class EventFilter(JobFilter):
    title = "event"
    parameter_name = "event"
    member = "payload__event"
    choices_offered = tuple(EVENTS.items())


@admin.register(WebhookDelivery)
class WebhookDeliveryAdmin(ReadOnlyAdmin[WebhookDelivery]):
    nothing_yet = "No message has been sent. Each event that a webhook asks for is one."
    list_display = [
        column("happened_at", "when"),
        column("event_label", "event"),
        column("endpoint", "webhook"),
        "status",
        column("status_code", "answer"),
        "attempts",
        "last_error",
    ]
    list_filter = ["status", EventFilter, "project", "created_at"]
    list_select_related = ["endpoint", "project"]
    facts = [
        column("event_label", "event"),
        link("endpoint", "webhook"),
        column("happened_at", "when"),
        "status",
        column("status_code", "answer"),
        "attempts",
        "last_error",
        column("available_at", "next attempt after"),
        "finished_at",
        structure("details", "details"),
        column("lesson_ids", "ids of the lessons", lambda ids: ", ".join(map(str, ids))),
        column("message_id", "id of the message"),
    ]

    def get_queryset(self, request: HttpRequest) -> QuerySet[WebhookDelivery]:
        return super().get_queryset(request).filter(project__in=projects_with_role(request.user, _OPERATOR))


def _is_operator(request: HttpRequest, endpoint: WebhookEndpoint | None) -> bool:
    return endpoint is None or has_role(request.user, endpoint.project_id, _OPERATOR)
