"""The home page: what waits, how it goes, what one decided, and the first steps of a new project."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from desk.effects.uplift import describe_effect
from desk.effects.verdicts import count_alarms
from desk.inbox.all_kinds import list_kinds
from desk.inbox.requests import is_reviewer_of_chosen, read_filters
from desk.lessons.release_facts import count_roll_backs
from desk.pages.trends import Period, count_decisions, count_runs
from desk.reflections.figures import count_failing_webhooks, count_reflections
from desk.shell.chosen_project import chosen_project, narrow_to_chosen, offered_projects
from desk.shell.pages import Figure
from desk.shell.plots import draw_sparkline
from memory.projects.actors import Actor
from memory.projects.models import ApiKey
from memory.retrieval.models import Retrieval
from memory.review.models import Review
from memory.runs.models import Trajectory

_LONG_WAIT = timedelta(days=7)
_SHOWN_DAYS = 14
_SHOWN_DECISIONS = 6


def find_waiting(request: HttpRequest) -> Iterable[dict[str, Any]]:
    """Return how many of each kind wait for a person, and since when the oldest does. One query a kind."""
    query, is_reviewer = read_filters(request), is_reviewer_of_chosen(request)
    for kind in list_kinds(request.user):
        count, oldest = kind.measure(request.user, query)
        yield {
            "label": kind.label,
            "count": count,
            "oldest": oldest,
            "link": reverse("admin:inbox", query={"kind": kind.name}),
            "is_own": is_reviewer and request.user.has_perm(kind.decides),  # the person may decide on it
        }


def home_context(request: HttpRequest) -> dict[str, Any]:
    """Collect the home page, in a fixed number of queries for each permission."""
    user: Any = request.user
    if not offered_projects(request):
        return {"has_no_project": True, "may_add_project": user.has_perm("memory.add_project")}
    kinds = list(find_waiting(request))
    own = [kind for kind in kinds if kind["is_own"]]
    waiting = own or kinds
    oldest = min((kind["oldest"] for kind in waiting if kind["oldest"]), default=None)
    counts = (count_roll_backs, count_failing_webhooks, count_reflections, count_alarms, describe_effect)
    figures = [figure for count in counts for figure in count(request)]
    # After these steps lessons come, are used, and are measured.
    steps = list(_first_steps(request)) if user.has_perm("memory.view_trajectory") else []
    return {
        "waiting": waiting,
        "may_decide": bool(own),
        "waiting_count": sum(kind["count"] for kind in waiting),
        "oldest": oldest,
        "is_late": oldest is not None and oldest < timezone.now() - _LONG_WAIT,
        "start": reverse("admin:inbox"),
        "tiles": [*_tiles(request), *(figure for figure in figures if figure.is_large)],
        "figures": [figure for figure in figures if not figure.is_large],
        "decided": _find_own_decisions(request),
        "steps": [] if all(step["is_done"] for step in steps) else steps,
    }


def _tiles(request: HttpRequest) -> list[Figure]:
    """Return numbers with their days as a small line."""
    period = Period.last(_SHOWN_DAYS)
    shown = []
    if request.user.has_perm("memory.view_trajectory"):
        shown.append(("Runs", count_runs(request, period).runs, "admin:memory_trajectory_changelist"))
    if request.user.has_perm("memory.view_review"):
        shown.append(("Decisions", count_decisions(request, period)["all"], "admin:memory_review_changelist"))
    return [
        Figure(
            label=label,
            value=f"{sum(days):,}",
            note=f"in {_SHOWN_DAYS} days, {days[-1]:,} today",
            link=reverse(page),
            points=draw_sparkline(days),
        )
        for label, days, page in shown
    ]


def _find_own_decisions(request: HttpRequest) -> list[Review]:
    """Return the newest decisions of the person, with their lessons. One query."""
    if not request.user.has_perm("memory.view_review"):
        return []
    mine = Review.objects.of_lessons().filter(reviewer=Actor.person(request.user).label)  # type: ignore[arg-type]
    rows = narrow_to_chosen(mine, request).select_related("heuristic__current_revision").order_by("-created_at", "-id")
    return list(rows[:_SHOWN_DECISIONS])


def _first_steps(request: HttpRequest) -> Iterable[dict[str, Any]]:
    runs = narrow_to_chosen(Trajectory.objects.order_by(), request)
    approvals = Review.objects.of_lessons().filter(decision=Review.Decision.APPROVE).order_by()
    project = chosen_project(request)
    keys = reverse("admin:memory_apikey_add", query={"project": project.pk} if project else None)
    docs = reverse("api-docs")
    yield {
        "label": "Create an API key",
        "hint": "An agent needs one to send its runs.",
        "link": keys if request.user.has_perm("memory.change_apikey") else "",
        "is_done": narrow_to_chosen(ApiKey.objects.order_by(), request).exists(),
    }
    yield {
        "label": "Record a run",
        "hint": "POST /api/v1/trajectories when a task is done, or let a client do it.",
        "link": docs,
        "is_done": runs.exists(),
    }
    yield {
        "label": "Approve a lesson",
        "hint": "Lessons are proposed from runs; agents get those you approve.",
        "link": reverse("admin:inbox"),
        "is_done": narrow_to_chosen(approvals, request).exists(),
    }
    yield {
        "label": "Ask for lessons",
        "hint": "POST /api/v1/retrieve before a task, and put the answer into the prompt.",
        "link": docs,
        "is_done": narrow_to_chosen(Retrieval.objects.order_by(), request).exists(),
    }
    yield {
        "label": "Report the outcome",
        "hint": "Send retrieval_id and the outcome with the run, so that the effect can be measured.",
        "link": docs,
        "is_done": runs.filter(retrieval__isnull=False).exclude(outcome=Trajectory.Outcome.UNKNOWN).exists(),
    }
