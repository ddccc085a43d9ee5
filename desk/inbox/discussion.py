"""What people arrange about an item of any kind: comments, who sees to it, and when it comes back to the list."""

from dataclasses import replace
from datetime import datetime, time, timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.defaultfilters import date as write_date
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_date
from django.utils.text import capfirst
from django.views.decorators.http import require_POST

from desk.inbox.kinds import ItemKind, ItemRow, Pane, Tab
from desk.inbox.requests import (
    get_kind,
    list_own_kinds,
    read_filters,
    read_query,
    wants_json,
    without_storing,
)
from desk.shell.requests import find_way_back, get_actor, read_number
from memory.discussion.mentions import find_people
from memory.discussion.models import MAX_COMMENT, Comment, ItemState
from memory.discussion.services import Item, assign_item, may_discuss, snooze_item, write_comment
from memory.errors import MemoryAppError
from memory.projects.models import ProjectMembership
from memory.redaction.visible_text import show_text
from memory.rows import find_row

TAB = "discussion"
SHOWN_COMMENTS = 200
_TEMPLATE = "admin/inbox/discussion.html"


def add_discussion(request: HttpRequest, pane: Pane) -> tuple[Pane, str]:
    """Add the tab to a pane, and return what is arranged about its item. Two queries."""
    if not pane.kind.is_discussed:
        return pane, ""
    count = _comments(pane.kind, pane.id).count()
    tab = Tab(name=TAB, label=f"Discussion {count}" if count else "Discussion")
    if request.GET.get("tab") == TAB and request.method == "GET":
        tab = draw_tab(request, pane.kind, pane.id) or tab
    return replace(pane, tabs=[*pane.tabs, tab]), describe(_find_state(pane.kind, pane.id))


def draw_tab(request: HttpRequest, kind: ItemKind, id: UUID) -> Tab | None:
    """Return the tab as it is shown; None if there is no such item."""
    row = kind.find(request.user, id) if kind.is_discussed else None
    if row is None:
        return None
    state = _find_state(kind, id)
    query = read_query(request)
    page = reverse("admin:inbox_item", args=[kind.name, id])
    # The newest are kept, and shown in the order in which they were written.
    comments = list(_comments(kind, id).order_by("-written_at", "-id")[:SHOWN_COMMENTS])[::-1]
    context: dict[str, Any] = {
        "comments": comments,
        "state": state,
        "noun": kind.noun,
        "may_discuss": may_discuss(request.user, row.project_id),
        "most": MAX_COMMENT,
        "tomorrow": timezone.now().date() + timedelta(days=1),
        "action": reverse("admin:inbox_discuss", args=[kind.name, id]),
        "back": f"{page}?tab={TAB}&{query}" if query else f"{page}?tab={TAB}",
    }
    if context["may_discuss"]:
        context["reviewers"] = list(find_people(row.project_id, ProjectMembership.Role.REVIEWER))
        context["people"] = list(find_people(row.project_id)[:20])
    label = f"Discussion {len(comments)}" if comments else "Discussion"
    return Tab(name=TAB, label=label, template=_TEMPLATE, context={"talk": context})


@require_POST
def discuss(request: HttpRequest, kind_name: str, id: UUID) -> HttpResponse:
    """Comment on an item, assign it, snooze it or put it back."""
    kind = get_kind(request, kind_name)
    row = kind.find(request.user, id) if kind.is_discussed else None
    if row is None:
        raise Http404
    back = find_way_back(request, "back", reverse("admin:inbox_item", args=[kind.name, id]))
    try:
        message, leaves = _carry_out(request, kind, row)
    except MemoryAppError as refusal:
        if wants_json(request):
            return JsonResponse({"said": str(refusal)}, status=409)
        messages.error(request, str(refusal))
        return HttpResponseRedirect(back)
    if not wants_json(request):
        messages.success(request, message)
        return HttpResponseRedirect(back)
    tab = draw_tab(request, kind, id)
    assert tab is not None
    state = _find_state(kind, id)
    return JsonResponse(
        {
            "said": message,
            "leaves": leaves,
            "label": tab.label,
            "panel": render_to_string(_TEMPLATE, tab.context, request=request),
            "arranged": describe(state),
            "assignee": write_assignee(_name_assignee(state)),
        }
    )


def count(request: HttpRequest) -> HttpResponse:
    """Return how many items wait for a decision of the person, for the navigation."""
    query = read_filters(request)
    waiting = sum(kind.count(request.user, query) for kind in list_own_kinds(request))
    context = {"waiting": waiting}
    return without_storing(HttpResponse(render_to_string("admin/inbox/count.html", context)))


def add_assignees(rows: list[ItemRow]) -> list[ItemRow]:
    """Say in the rows to whom they are assigned. One query."""
    ids = [row.id for row in rows]
    states = ItemState.objects.filter(object_id__in=ids, assignee__isnull=False).select_related("assignee")
    names = {(state.kind, state.object_id): _name_assignee(state) for state in states} if ids else {}
    return [replace(row, assignee=write_assignee(names.get((row.kind, row.id), ""))) for row in rows]


def describe(state: ItemState | None) -> str:
    """Say in a few words who sees to an item and when."""
    name = _name_assignee(state)
    parts = [f"Assigned to {show_text(name)}"] if name else []
    if state is not None and state.is_asleep:
        parts.append(f"snoozed until {write_date(state.snoozed_until, 'j F')}")
    return capfirst(" · ".join(parts))


def write_assignee(name: str) -> str:
    return f"for {show_text(name)}" if name else ""


def _carry_out(request: HttpRequest, kind: ItemKind, row: Any) -> tuple[str, bool]:
    """Do what the button says; return a sentence about it, and whether the item leaves the list."""
    by, form = get_actor(request), request.POST
    link = request.build_absolute_uri(reverse("admin:inbox_item", args=[kind.name, row.pk]) + f"?tab={TAB}")
    item = Item(kind=kind.name, id=row.pk, project_id=row.project_id, noun=kind.noun, link=link)
    match form.get("do"):
        case "comment":
            write_comment(replace(item, kind=kind.subject or kind.name), text=form.get("text", ""), by=by)
            return "Comment added.", False
        case "assign":
            state = assign_item(item, to=read_number(form.get("assignee")), by=by)
            name = _name_assignee(state)
            return (f"Assigned to {name}." if name else "It is no longer assigned to anyone."), False
        case "snooze":
            try:
                day = parse_date(form.get("until", ""))
            except ValueError:  # such as 31 February
                day = None
            if day is None:
                raise MemoryAppError("Choose the day on which it comes back.")
            until = timezone.make_aware(datetime.combine(day, time.min))
            snooze_item(item, until=until, by=by)
            return f"Snoozed. It comes back on {write_date(until, 'j F')}; until then it is under Snoozed.", True
        case "wake":
            snooze_item(item, until=None, by=by)
            return "It is back in the list.", False
        case _:
            raise MemoryAppError("This page has no such button. Load it again.")


def _comments(kind: ItemKind, id: UUID) -> Any:
    return Comment.objects.filter(kind=kind.subject or kind.name, object_id=id)


def _find_state(kind: ItemKind, id: UUID) -> ItemState | None:
    return find_row(ItemState.objects.filter(kind=kind.name, object_id=id).select_related("assignee"))


def _name_assignee(state: ItemState | None) -> str:
    return state.assignee.get_username() if state is not None and state.assignee is not None else ""
