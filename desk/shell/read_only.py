"""Read-only admin pages for records, shown to the members of their project."""

from collections.abc import Sequence
from typing import Any, TypeVar

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.db import DataError
from django.db.models import Model, OuterRef, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.utils.text import capfirst

from desk.shell.chosen_project import chosen_project, names_a_project
from desk.shell.columns import column
from memory.projects.access import narrow_to_projects, visible_projects
from memory.projects.models import Project

Row = TypeVar("Row", bound=Model)


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
            return super().get_changelist_instance(request)
        except (DataError, ValueError, OverflowError) as error:  # a value no column can hold, such as U+0000
            raise IncorrectLookupParameters(error) from error  # which the list answers without filters

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:  # type: ignore[override]
        """Refuse filters by a field that the page does not show: the matches would tell what it holds, bit by bit."""
        return lookup.partition("__")[0] not in (self.exclude or ()) and super().lookup_allowed(lookup, value, request)

    def get_list_filter(self, request: HttpRequest) -> Any:
        filters = super().get_list_filter(request)
        return [("project", MemberProjectsFilter) if each == "project" else each for each in filters]


def _is_list(request: HttpRequest) -> bool:
    """Tell whether a list or its figures are shown. The page of a row opens from any project, as links to it may."""
    match = request.resolver_match
    return match is not None and (match.url_name or "").endswith(("_changelist", "_statistics"))


class ReadOnlyAdmin(MemberRows[Row]):
    """Lists and shows rows. Adding, changing and deleting go through services, so the admin offers none of them."""

    facts: Sequence[Any] = ()  # what the page of a row shows, as in list_display; else every field
    row_title = ""  # what the page of a row is called, if it is not the name of the model

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        title = capfirst(self.opts.verbose_name_plural)
        return super().changelist_view(request, {"title": title, **(extra_context or {})})

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        title = self.row_title or capfirst(self.opts.verbose_name)
        return super().changeform_view(request, object_id, form_url, {"title": title, **(extra_context or {})})

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


class LastingRecordAdmin(ReadOnlyAdmin[Row]):
    """Shows rows that outlive what they describe: they name their project by id, and here by its name."""

    project_path = "project_id"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Row]:
        name = Project.objects.filter(pk=OuterRef("project_id")).values("name")
        rows: QuerySet[Row] = super().get_queryset(request).annotate(project_name=Subquery(name))
        return rows


PROJECT = column("project_name", "project")
