"""Search over everything a person may read: each kind of thing is a source."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.defaultfilters import pluralize
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import Truncator

from desk.shell.chosen_project import narrow_to_chosen
from desk.shell.navigation import build_navigation
from desk.shell.pages import page_context
from memory.heuristics.models import Heuristic
from memory.redaction.visible_text import show_text
from memory.releases.models import Release
from memory.runs.search import FoundRun, RunExcerpt, find_runs
from runtime.models.agents import Agent
from runtime.models.runs import Run

MAX_QUERY_CHARS = 200
FEW, MANY = 5, 20  # of each kind: in the list below the field, on the page


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """One thing that was found. `before`, `match` and `after` are the words around what was searched for."""

    title: str
    link: str
    note: str = ""
    before: str = ""
    match: str = ""
    after: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchSource:
    """A kind of thing. `find` is given the request, the words and how many are shown."""

    label: str
    permission: str
    find: Callable[[HttpRequest, str, int], Iterable[Hit]]


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundPages:
    """What was found of one kind."""

    label: str
    hits: list[Hit]


def search(request: HttpRequest, words: str, *, limit: int) -> list[FoundPages]:
    """Find what contains all the words, in the chosen project or in all that a person may see."""
    user: Any = request.user
    sources = [source for source in SOURCES if user.has_perm(source.permission)]
    groups = [FoundPages(label=source.label, hits=list(source.find(request, words, limit))) for source in sources]
    return [group for group in (FoundPages(label="Pages", hits=_find_pages(request, words)), *groups) if group.hits]


def search_page(request: HttpRequest) -> HttpResponse:
    """Show what was found: the list alone for htmx, else the page."""
    words = request.GET.get("q", "").replace("\x00", "").strip()[:MAX_QUERY_CHARS]
    is_part = request.headers.get("HX-Request") == "true"
    results = search(request, words, limit=FEW if is_part else MANY) if words else []
    shown = {"words": words, "found": results, "is_part": is_part}
    if is_part:
        return TemplateResponse(request, "admin/search_found.html", shown)
    return TemplateResponse(request, "admin/search.html", page_context(request, "Search", **shown))


def contains(rows: QuerySet[Any], words: str, *fields: str) -> QuerySet[Any]:
    """Keep the rows that have each word in one of the fields."""
    for word in words.split():
        condition = Q()
        for field in fields:
            condition |= Q(**{f"{field}__icontains": word})
        rows = rows.filter(condition)
    return rows


def shorten(text: str, length: int = 110) -> str:
    """Return the beginning of a text for one line."""
    return show_text(Truncator(" ".join(text.split())).chars(length))


def _find_pages(request: HttpRequest, words: str) -> list[Hit]:
    wanted = words.casefold()
    return [
        Hit(title=page.label, link=page.link, note=section.label)
        for section in build_navigation(request)
        for page in section.pages
        if wanted in page.label.casefold() or wanted == section.label.casefold()
    ][:FEW]


def _find_lessons(request: HttpRequest, words: str, limit: int) -> Iterable[Hit]:
    lessons = Heuristic.objects.with_words(words).select_related("current_revision", "project")
    rows = narrow_to_chosen(lessons, request)
    for heuristic in rows.order_by("-created_at", "-id")[:limit]:
        revision = heuristic.current_revision
        assert revision is not None  # by the filter
        link = reverse("admin:memory_heuristic_change", args=[heuristic.pk])
        seen = f"{heuristic.support:,} run{pluralize(heuristic.support)} · {heuristic.created_at:%Y-%m-%d}"
        note = f"{heuristic.get_status_display()} · {seen} · {shorten(revision.guideline)}"
        yield Hit(title=shorten(revision.trigger), link=link, note=note)


def _find_runs(request: HttpRequest, words: str, limit: int) -> Iterable[Hit]:
    for run in find_runs(words, limit=limit, narrow=lambda rows: narrow_to_chosen(rows, request)):
        passage: RunExcerpt = run.passage
        link = reverse("admin:memory_trajectory_change", args=[run.pk], query={"q": words})
        where = f"Step {passage.step} · " if passage.step else ""
        yield Hit(
            title=shorten(run.task),
            link=f"{link}#step-{passage.step}" if passage.step else link,
            note=where + _describe_run(run),
            before=show_text(passage.before),
            match=show_text(passage.match),
            after=show_text(passage.after),
        )


def _describe_run(run: FoundRun) -> str:
    """Say what tells a run from others with the same task."""
    parts = [run.outcome, shorten(run.agent, 40), f"{run.steps:,} step{pluralize(run.steps)}"]
    parts += [f"user {shorten(run.user_id, 40)}" if run.user_id else "", f"{run.created_at:%Y-%m-%d %H:%M}"]
    return " · ".join(part for part in parts if part)


def _find_releases(request: HttpRequest, words: str, limit: int) -> Iterable[Hit]:
    rows = narrow_to_chosen(Release.objects.select_related("project"), request)
    for release in contains(rows, words, "note", "project__name").order_by("-created_at")[:limit]:
        link = reverse("admin:memory_release_change", args=[release.pk])
        yield Hit(title=str(release), link=link, note=shorten(release.note))


def _find_agents(request: HttpRequest, words: str, limit: int) -> Iterable[Hit]:
    rows = contains(narrow_to_chosen(Agent.objects.all(), request), words, "name", "description")
    for agent in rows.order_by("name", "id")[:limit]:
        link = reverse("admin:agents_agent_change", args=[agent.pk])
        yield Hit(title=shorten(agent.name), link=link, note=shorten(agent.description))


def _find_conversations(request: HttpRequest, words: str, limit: int) -> Iterable[Hit]:
    runs = narrow_to_chosen(Run.objects.select_related("agent", "conversation"), request)
    rows = contains(runs, words, "task", "agent__name")
    for run in rows.order_by("-created_at", "-id")[:limit]:
        link = reverse("admin:agents_run_change", args=[run.pk])
        user = f" · user {shorten(run.conversation.user_id, 40)}" if run.conversation.user_id else ""
        steps = f"{run.steps_taken:,} step{pluralize(run.steps_taken)}"
        when = f"{run.created_at:%Y-%m-%d %H:%M}"
        note = f"{shorten(run.agent.name)} · {run.get_status_display()} · {steps}{user} · {when}"
        yield Hit(title=shorten(run.task), link=link, note=note)


SOURCES = (
    SearchSource(label="Lessons", permission="memory.view_heuristic", find=_find_lessons),
    SearchSource(label="Runs", permission="memory.view_trajectory", find=_find_runs),
    SearchSource(label="Releases", permission="memory.view_release", find=_find_releases),
    SearchSource(label="Agents", permission="agents.view_agent", find=_find_agents),
    SearchSource(label="Conversations", permission="agents.view_run", find=_find_conversations),
)
