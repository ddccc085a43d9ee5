"""Releases: the list with its lineage, what is in each, how it differs from another, and the button that cuts one."""

from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.paginator import Paginator
from django.db.models import Exists, F, Func, IntegerField, OuterRef, QuerySet, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from desk.admin.deployment_form import may_deploy
from desk.effects.uplift import draw_release_uplift
from desk.effects.verdicts import describe_release
from desk.shell.read_only import ReadOnlyAdmin
from desk.shell.requests import get_actor
from desk.shell.word_diff import DiffPart, diff_heuristics
from memory.errors import MemoryAppError, NoSuchRelease
from memory.heuristics.models import HeuristicRevision
from memory.limits import MAX_REASON_CHARS
from memory.projects.access import projects_with_role, visible_projects
from memory.projects.actors import describe_actor
from memory.projects.models import Project, ProjectMembership
from memory.redaction.visible_text import show_text
from memory.releases.deployments import cut_release, get_release
from memory.releases.diff import diff_releases
from memory.releases.models import Deployment, DeploymentEvent, Release

LESSONS_A_PAGE = 50
MOST_CHANGES = 100  # shown of each kind; the rest are counted
_Role = ProjectMembership.Role
_SETTINGS = {
    "retrieval.mode": "Mode",
    "retrieval.top_k": "Maximum number of lessons",
    "retrieval.context_budget_tokens": "Tokens in the block",
    "retrieval.constants_sha256": "Constants of the code",
}


class CutForm(forms.Form):
    """The project whose approved lessons become a release, and what is new in it."""

    project = forms.ModelChoiceField(queryset=Project.objects.none(), empty_label=None)
    note = forms.CharField(required=False, max_length=MAX_REASON_CHARS, label="What is new", help_text="Optional.")

    def __init__(self, *args: Any, projects: QuerySet[Project], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["project"].queryset = projects  # type: ignore[attr-defined]


@admin.register(Release)
class ReleaseAdmin(ReadOnlyAdmin[Release]):
    change_list_template = "admin/memory/release/change_list.html"
    change_form_template = "admin/memory/release/release.html"
    list_display = ["name", "state", "uplift", "lessons", "parent_number", "about", "project", "cut"]
    list_filter = ["project", "how", "created_at"]
    search_fields = ["sha256", "note", "created_by"]
    actions = None
    nothing_yet = "No release has been cut yet. Until then every approval is live at once."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Release]:
        then_stable = DeploymentEvent.objects.annotate(then_stable=KeyTextTransform("stable_id", "state"))
        was_stable = then_stable.filter(project=OuterRef("project"), then_stable=Cast(OuterRef("pk"), TextField()))
        counted = Func(F("manifest__lessons"), function="jsonb_array_length", output_field=IntegerField())
        rows = super().get_queryset(request).select_related("parent", "project__deployment")
        # Manifests are large, and a list only needs to know how many lessons they hold.
        return rows.defer("manifest", "parent__manifest").annotate(lesson_count=counted, was_stable=Exists(was_stable))

    def add_figures(self, rows: list[Any]) -> None:
        """Add what each release does, as far as that was measured."""
        drawn = draw_release_uplift(rows)
        for row in rows:
            row.drawn_uplift = drawn.get(row.pk)

    @admin.display(description="release", ordering="number")
    def name(self, release: Release) -> str:
        return f"{release.number} ({release.sha256[:8]})"

    @admin.display(description="state")
    def state(self, release: Release) -> str:
        return find_state(release)

    @admin.display(description="against the hold-out [95%]")
    def uplift(self, release: Release) -> SafeString | str:
        """Return success with its lessons minus success in the hold-out, in points."""
        return getattr(release, "drawn_uplift", None) or "–"

    @admin.display(description="lessons", ordering="lesson_count")
    def lessons(self, release: Release) -> str:
        return f"{release.lesson_count:,}"  # type: ignore[attr-defined]  # annotated

    @admin.display(description="parent", ordering="parent__number")
    def parent_number(self, release: Release) -> str:
        return str(release.parent.number) if release.parent else "–"

    @admin.display(description="reason", ordering="note")
    def about(self, release: Release) -> str:
        return show_text(Truncator(release.note).chars(120))

    @admin.display(description="cut", ordering="created_at")
    def cut(self, release: Release) -> str:
        return f"{release.created_at:%Y-%m-%d %H:%M} by {show_text(describe_actor(release.created_by))}"

    def get_urls(self) -> list[URLPattern]:
        cut = path("cut/", self.admin_site.admin_view(self.cut_view), name="memory_release_cut")
        return [cut, *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        projects = projects_with_role(request.user, _Role.REVIEWER, _Role.OPERATOR).filter(archived_at=None)
        may_cut = request.user.has_perm("memory.deploy_release") and projects.exists()
        context = {"cut_form": CutForm(projects=projects.order_by("name")) if may_cut else None}
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def row_context(self, request: HttpRequest, row: Release) -> dict[str, Any]:
        """Collect what is in a release, and how it differs from its parent or from the one that is asked for."""
        context = release_context(row, wanted=request.GET.get("compare", ""), page=request.GET.get("page", "1"))
        context["experiments"] = describe_release(request.user, row)
        context["may_deploy"] = may_deploy(request.user, row.project)
        return context

    def cut_view(self, request: HttpRequest) -> HttpResponse:
        """Cut a release of what is approved in a project, and show it."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        form = CutForm(request.POST, projects=visible_projects(request.user))
        if not form.is_valid():
            messages.error(
                request, f"Nothing was cut: choose a project, and write at most {MAX_REASON_CHARS:,} letters."
            )
            return HttpResponseRedirect(reverse("admin:memory_release_changelist"))
        note = form.cleaned_data["note"]
        try:
            release = cut_release(form.cleaned_data["project"], by=get_actor(request), note=note)
        except MemoryAppError as refusal:
            messages.error(request, str(refusal))
            return HttpResponseRedirect(reverse("admin:memory_release_changelist"))
        (messages.success if release.is_new else messages.warning)(request, release.cut_in_words(note=note))
        return HttpResponseRedirect(reverse("admin:memory_release_change", args=[release.pk]))


def find_state(release: Release) -> str:
    """Return what a release is now: stable, on trial, or what it was."""
    deployment = getattr(release.project, "deployment", None)
    if deployment is not None and deployment.stable_id == release.pk:
        return "stable"
    if deployment is not None and deployment.candidate_id == release.pk:
        return f"candidate, {deployment.canary_share / 10:g}%"
    return "former" if getattr(release, "was_stable", False) else "not deployed"


def release_context(release: Release, *, wanted: str, page: str) -> dict[str, Any]:
    """Collect what the page of a release shows. A fixed number of queries.

    Args:
        wanted: the number or hash of the release to compare with; empty for the parent.
        page: which lessons are shown.
    """
    lessons = Paginator(release.manifest["lessons"], LESSONS_A_PAGE).get_page(page)
    ids = [lesson["revision"] for lesson in lessons]
    revisions = HeuristicRevision.objects.filter(project=release.project_id, pk__in=ids)
    words = {str(revision.pk): revision for revision in revisions}
    other, fault = release.parent, ""
    if wanted:
        try:
            other = get_release(release.project, wanted.replace("\x00", ""))
        except NoSuchRelease:
            other, fault = None, "There is no such release. Give the number of another one of this project."
    quotas = [(family or "all families", *shares) for family, shares in release.manifest["quotas"].items()]
    retrieval = release.manifest["retrieval"]
    deployment = getattr(release.project, "deployment", None)
    return {
        "title": f"Release {release.number}",
        "release": release,
        "state": find_state(release),
        "serves_releases": deployment is not None and deployment.mode == Deployment.Mode.RELEASES,
        "lessons": lessons,
        "wordings": [(lesson["heuristic"], words.get(lesson["revision"])) for lesson in lessons],
        "settings": [(_SETTINGS.get(f"retrieval.{name}", name), value) for name, value in retrieval.items()],
        "quotas": quotas,
        "other": other,
        "wanted": wanted,
        "compare_fault": fault,
        "children": release.children.order_by("number").only("number", "project_id")[:20],
        **(_compare(other, release) if other is not None else {}),
    }


def _compare(before: Release, after: Release) -> dict[str, Any]:
    diff = diff_releases(before, after)
    changes = []
    for title, lessons in (("Added", diff.added), ("Removed", diff.removed), ("Reworded", diff.reworded)):
        if not lessons:
            continue
        rows = []
        for change in lessons[:MOST_CHANGES]:
            parts: list[DiffPart] = []
            if change.before is not None and change.after is not None:
                parts = diff_heuristics(change.before.as_text(), change.after.as_text())
            rows.append((change, parts))
        changes.append({"title": title, "count": len(lessons), "more": len(lessons) - len(rows), "rows": rows})
    return {
        "changes": changes,
        "changed_settings": [(_SETTINGS.get(name, name), was, now) for name, was, now in diff.settings],
        "unchanged": diff.unchanged,
    }
