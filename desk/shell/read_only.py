"""Read-only admin pages for records, shown to the members of their project."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db import DataError
from django.db.models import Model, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import capfirst

from desk.shell.chosen_project import chosen_project, names_a_project, offered_projects
from desk.shell.columns import column
from desk.shell.requests import read_id
from evaluation.errors import EvaluationError
from memory.errors import MemoryAppError
from memory.projects.access import has_role, narrow_to_projects, visible_projects
from memory.projects.models import Project, ProjectMembership
from memory.redaction.visible_text import show_text
from reflection.errors import ReflectionError

Row = TypeVar("Row", bound=Model)
REFUSALS = (MemoryAppError, ReflectionError, EvaluationError)  # what services raise with a sentence for people
_ROLES: dict[str, str] = {ProjectMembership.Role.OPERATOR: "an operator", ProjectMembership.Role.REVIEWER: "a reviewer"}


class MemberProjectsFilter(admin.RelatedFieldListFilter):
    """Offers the projects a person may see, and no other's name."""

    def field_choices(self, field: Any, request: HttpRequest, model_admin: Any) -> list[Any]:
        return [(str(project.pk), str(project)) for project in visible_projects(request.user)]


class JobFilter(admin.SimpleListFilter):
    """Filters jobs by a member of their payload or result, such as result__method."""

    member = ""
    choices_offered: Sequence[tuple[str, str]] = ()

    def lookups(self, request: HttpRequest, model_admin: Any) -> Sequence[tuple[str, str]]:
        return self.choices_offered

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(**{self.member: self.value()}) if self.value() else queryset


BY_MODEL_OR_RULES = (("llm", "A language model"), ("rules", "Rules"))


class MemberRows(admin.ModelAdmin[Row]):
    """Shows the rows of the projects a person is a member of. `project_path` leads from a row to its project."""

    project_path = "project"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Row]:
        rows = narrow_to_projects(super().get_queryset(request), request.user, path=self.project_path)
        if not _is_list(request) or names_a_project(request.GET, self.project_path):
            return rows
        project = chosen_project(request)
        return rows if project is None else rows.filter(**{self.project_path: project.pk})

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        try:
            changelist = super().get_changelist_instance(request)
            # Read here, where its errors are caught.
            changelist.result_list = list(changelist.result_list)
            self.add_figures(changelist.result_list)
            return changelist
        # No column can hold some values, such as U+0000.
        except (DataError, ValueError, OverflowError) as error:
            raise IncorrectLookupParameters(error) from error  # which the list answers without filters

    def add_figures(self, rows: list[Row]) -> None:
        """Add to the rows of a list what is counted for all of them at once."""

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:  # type: ignore[override]
        """Refuse filters by a field that the page does not show: the matches would tell what it holds, bit by bit."""
        return lookup.partition("__")[0] not in (self.exclude or ()) and super().lookup_allowed(lookup, value, request)

    def get_list_filter(self, request: HttpRequest) -> Any:
        filters = super().get_list_filter(request)
        return [("project", MemberProjectsFilter) if name == "project" else name for name in filters]


def _is_list(request: HttpRequest) -> bool:
    """Tell whether a list or its figures are shown. The page of a row opens from any project, as links to it may."""
    match = request.resolver_match
    return match is not None and (match.url_name or "").endswith(("_changelist", "_statistics"))


class ReadOnlyAdmin(MemberRows[Row]):
    """Lists and shows rows. Adding, changing and deleting go through services, so the admin offers none of them.

    The page of a row is Django's change form: `change_form_template` draws it from `row_context`, and `press` does what
    its buttons say.
    """

    facts: Sequence[Any] = ()  # what the page of a row shows, as in list_display; else every field
    list_title = ""  # what the list and the page of a row are called, if it is not the name of the model
    row_title = ""
    show_full_result_count = False

    def row_context(self, request: HttpRequest, row: Row) -> dict[str, Any]:
        """Return what the template of the page shows of a row; `title` may be among it."""
        return {}

    def press(self, request: HttpRequest, row: Row) -> str | HttpResponse:
        """Do what a button of the page says; return a sentence about it, or an answer of its own.

        Raises:
            PermissionDenied: the person may not.
            MemoryAppError, ReflectionError, EvaluationError: it is refused.
        """
        raise PermissionDenied

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        title = self.list_title or capfirst(self.opts.verbose_name_plural)
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        # The admin quotes ids in its addresses.
        row = self.get_object(request, unquote(object_id)) if request.method == "POST" and object_id else None
        if row is not None and self.has_view_permission(request, row):
            try:
                answer = self.press(request, row)
            except REFUSALS as refusal:
                messages.error(request, str(refusal))
            else:
                if isinstance(answer, HttpResponse):
                    return answer
                messages.success(request, answer)
            return HttpResponseRedirect(request.path)
        title = self.row_title or capfirst(self.opts.verbose_name)
        return super().changeform_view(request, object_id, form_url, {"title": title, **(extra_context or {})})

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **options: Any) -> Any:
        context |= self.row_context(request, options["obj"])
        return super().render_change_form(request, context, *args, **options)

    def draw(self, request: HttpRequest, template: str, title: str, **context: Any) -> TemplateResponse:
        """Draw a page beside those of the table."""
        frame = {**self.admin_site.each_context(request), "opts": self.opts, "title": title}
        return TemplateResponse(request, template, frame | context)

    def for_each(
        self, request: HttpRequest, rows: Iterable[Row], do: Callable[[Row], str], *, role: str | None = None
    ) -> None:
        """Do something with each selected row, and say of each what was done or why not."""
        for row in rows:
            if role is not None and not has_role(request.user, row.project_id, role):  # type: ignore[attr-defined]
                messages.error(request, f"{show_text(str(row))}: you are not {_ROLES[role]} of its project.")
                continue
            try:
                messages.success(request, do(row))
            except REFUSALS as refusal:
                messages.error(request, f"{show_text(str(row))}: {refusal}")

    def get_list_display(self, request: HttpRequest) -> Any:
        """Leave out the project for a person who has only one."""
        several = len(offered_projects(request)) > 1
        return [name for name in super().get_list_display(request) if name != "project" or several]

    def get_fields(self, request: HttpRequest, obj: Row | None = None) -> Any:
        return [*self.facts] or super().get_fields(request, obj)

    def get_readonly_fields(self, request: HttpRequest, obj: Row | None = None) -> Any:
        return [*self.facts] or super().get_readonly_fields(request, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class InboxRows(ReadOnlyAdmin[Row]):
    """Lists rows that people decide on in the inbox. The page of each is its item there."""

    inbox_kind: str

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        id = read_id(unquote(object_id))
        if id is None or not self.has_view_permission(request):
            return super().change_view(request, object_id, form_url, extra_context)  # refuses, or says that it is gone
        address = reverse("admin:inbox_item", args=[self.inbox_kind, id], query=request.GET)
        return HttpResponseRedirect(address)


def yes_filter(
    title: str, parameter: str, label: str, narrow: Callable[[QuerySet[Any]], QuerySet[Any]]
) -> type[admin.SimpleListFilter]:
    """Return a filter that offers one choice besides all."""

    class YesFilter(admin.SimpleListFilter):
        def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
            return [("yes", label)]

        def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
            return narrow(queryset) if self.value() == "yes" else queryset

    YesFilter.title, YesFilter.parameter_name = title, parameter
    return YesFilter


class LastingRecordAdmin(ReadOnlyAdmin[Row]):
    """Shows rows that outlive what they describe: they name their project by id, and here by its name."""

    project_path = "project_id"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Row]:
        name = Project.objects.filter(pk=OuterRef("project_id")).values("name")
        rows: QuerySet[Row] = super().get_queryset(request).annotate(project_name=Subquery(name))
        return rows


PROJECT = column("project_name", "project")
