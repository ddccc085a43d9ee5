"""The pages of the inbox: the list with one item, its fragments, and what happens when a person decides.

A browser with script fetches the next items as fragments and sends decisions in the background; it asks for JSON.
Without script the same addresses answer with whole pages, and every button is an ordinary form. An item that does not
wait is shown without the list, and stays on the page after a decision.
"""

import time
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.http import require_POST

from desk.inbox import discussion
from desk.inbox.all_kinds import find_kind, list_kinds
from desk.inbox.kinds import ItemKind, Pane
from desk.inbox.requests import (
    get_kind,
    is_fragment,
    read_filters,
    read_project,
    read_query,
    wants_json,
    with_query,
    without_storing,
)
from desk.lessons.release_facts import find_roll_backs
from desk.shell.requests import get_actor, read_id, read_number
from memory.errors import MemoryAppError
from memory.projects.access import visible_projects
from memory.review.decisions import UNDO_SECONDS

SHOWN_ROWS = 30  # of each kind; more are fetched before the list runs out, and where it is scrolled to its end
AHEAD = 3  # items that are fetched before they are needed
_UNDO = "inbox_undo"  # in the session: what the next page offers to undo, without script


def index(request: HttpRequest) -> HttpResponse:
    """Show what waits, and the first of it."""
    groups = _list_groups(request)
    first = next((row for group in groups for row in group["rows"]), None)
    kind = find_kind(first.kind, request.user) if first else None
    pane = kind.draw(request.user, first.id) if kind and first else None
    return _draw_page(request, groups, pane, screen="list")


def item(request: HttpRequest, kind_name: str, id: UUID) -> HttpResponse:
    """Show an item, or carry out a decision on it."""
    kind = get_kind(request, kind_name)
    if request.method == "POST":
        return _decide(request, kind, id)
    pane = kind.draw(request.user, id)
    if pane is None:
        if is_fragment(request):
            raise Http404
        return _say_gone(request, kind)
    if is_fragment(request):
        return without_storing(HttpResponse(_draw_fragment(request, pane)))
    return _draw_item(request, pane, screen="beside" if request.GET.get("tab") else "words")


def tab(request: HttpRequest, kind_name: str, id: UUID, name: str) -> HttpResponse:
    """Return a tab that is fetched when it is opened."""
    kind = get_kind(request, kind_name)
    is_discussion = name == discussion.TAB
    drawn = discussion.draw_tab(request, kind, id) if is_discussion else kind.draw_tab(request.user, id, name)
    if drawn is None:
        raise Http404
    return without_storing(render(request, drawn.template, {"tab": drawn, **drawn.context}))


def rows(request: HttpRequest) -> HttpResponse:
    """Return the rows of a kind that a page lists, and those that follow.

    The page drops what it lists already. To leave those rows out here would miss some: others decide at the same time.
    """
    kind = get_kind(request, request.GET.get("kind", ""))
    limit = SHOWN_ROWS + min(read_number(request.GET.get("listed")) or 0, 9_999)
    waiting = kind.list_rows(request.user, read_filters(request), limit=limit + 1)
    context = {
        "kind": kind,
        "rows": discussion.add_assignees(waiting[:limit]),
        "query": read_query(request),
        "has_more": len(waiting) > limit,
    }
    return without_storing(render(request, "admin/inbox/rows.html", context))


def ahead(request: HttpRequest) -> HttpResponse:
    """Return the fragments of the next items."""
    return without_storing(JsonResponse({"panes": _draw_ahead(request, request.GET.getlist("item"))}))


@require_POST
def hold(request: HttpRequest, kind_name: str, id: UUID) -> HttpResponse:
    """Claim an item for the person who reads it."""
    claim = get_kind(request, kind_name).hold(request.user, id)
    if claim is None:
        return JsonResponse({})
    name, until = claim
    return JsonResponse({"by": name, "until": f"{until:%H:%M} UTC", "mine": name == request.user.get_username()})


@require_POST
def release(request: HttpRequest, kind_name: str, id: UUID) -> HttpResponse:
    """Give up a claim. Sent when the person leaves the item."""
    get_kind(request, kind_name).release(request.user, id)
    return HttpResponse(status=204)


@require_POST
def undo(request: HttpRequest) -> HttpResponse:
    """Undo a decision made by mistake."""
    kind = get_kind(request, request.POST.get("kind", ""))
    key = request.POST.get("item", "")
    try:
        message = kind.undo(request.user, request.POST.get("token", "")[:200], by=get_actor(request))
    except MemoryAppError as refusal:
        return _refuse(request, refusal, reverse("admin:inbox"))
    request.session.pop(_UNDO, None)
    if wants_json(request):
        return JsonResponse({"said": message, "panes": _draw_ahead(request, [key])})
    messages.success(request, message)
    return HttpResponseRedirect(_find_address(request, key))


def _decide(request: HttpRequest, kind: ItemKind, id: UUID) -> HttpResponse:
    here, key = request.get_full_path(), f"{kind.name}/{id}"
    try:
        done = kind.decide(request.user, id, request.POST)
    except MemoryAppError as refusal:
        return _refuse(request, refusal, here)
    if done is None:
        if wants_json(request):
            raise Http404
        return _say_gone(request, kind)
    if isinstance(done, Pane):
        if wants_json(request):
            return JsonResponse({"pane": _draw_fragment(request, done)}, status=422)
        return _draw_item(request, done, screen="words")
    if wants_json(request):
        shown = [key] if done.stays else request.POST.getlist("ahead")
        return JsonResponse({"said": done.said, "undo": done.undo, "panes": _draw_ahead(request, shown)})
    if done.stays or not done.undo:
        messages.success(request, done.said)
    else:  # the next page offers to undo it, and says it too
        offer = {"kind": kind.name, "item": key, "token": done.undo, "said": done.said, "at": time.time()}
        request.session[_UNDO] = offer
    return HttpResponseRedirect(here if done.stays else _find_address(request, request.POST.get("next", "")))


def _say_gone(request: HttpRequest, kind: ItemKind) -> HttpResponse:
    gone = f"This {kind.noun} or its project was deleted, or you are no longer a member of the project."
    messages.error(request, f"{gone} Nothing was changed.")
    return HttpResponseRedirect(reverse("admin:inbox"))


def _refuse(request: HttpRequest, refusal: MemoryAppError, back: str) -> HttpResponse:
    if wants_json(request):
        return JsonResponse({"said": str(refusal)}, status=409)
    messages.error(request, str(refusal))
    return HttpResponseRedirect(back)


def _draw_item(request: HttpRequest, pane: Pane, *, screen: str) -> HttpResponse:
    """Draw an item, with the list where it waits in it."""
    waiting = pane.kind.queue(request.user, read_filters(request)).filter(pk=pane.id)
    return _draw_page(request, _list_groups(request) if waiting.exists() else None, pane, screen=screen)


def _draw_page(
    request: HttpRequest, groups: list[dict[str, Any]] | None, pane: Pane | None, *, screen: str
) -> HttpResponse:
    """Draw the list with an item or, for no groups, the item alone. `screen` is what a narrow screen shows."""
    # Offered once, and only for as long as a decision can be undone.
    offer = request.session.pop(_UNDO, None)
    is_recent = offer is not None and time.time() - offer["at"] < UNDO_SECONDS
    context = {
        **admin.site.each_context(request),
        "title": "Inbox",
        "screen": screen,
        "undo_action": with_query(request, reverse("admin:inbox_undo")),
        "undoable": offer if is_recent else None,
        "roll_backs": find_roll_backs(request),
        **_pane_context(request, pane),
    }
    if groups is None:
        assert pane is not None
        context |= {"title": pane.heading, "alone": True, "page_of": pane.kind.table}
    else:
        context |= _list_context(request, groups, pane)
    return without_storing(render(request, "admin/inbox/page.html", context))


def _list_context(request: HttpRequest, groups: list[dict[str, Any]], pane: Pane | None) -> dict[str, Any]:
    """Return what the list shows, and what comes before and after the item. What others have claimed is passed over."""
    rows = [row for group in groups for row in group["rows"]]
    index = next((number for number, row in enumerate(rows) if pane is not None and row.key == pane.key), 0)
    following = [row for row in rows[index:] if pane and row.key != pane.key and not row.held_by]
    preceding = [row for row in rows[:index] if not row.held_by]
    chosen, project = request.GET.get("kind", ""), read_project(request)
    # To choose from: the kinds of which something waits, whatever the filters, and the chosen one.
    if read_query(request):
        kinds = [
            kind
            for kind in list_kinds(request.user)
            if kind.name == chosen or kind.queue(request.user, project).exists()
        ]
    else:
        kinds = [group["kind"] for group in groups if group["count"]]
    return {
        "groups": groups,
        "kinds": kinds,
        "chosen": chosen,
        "chosen_kind": find_kind(chosen, request.user),
        "show": request.GET.get("show", ""),
        "waiting_count": sum(group["count"] for group in groups),
        "following": following[0] if following else None,
        "preceding": preceding[-1] if preceding else None,
        "has_projects": request.user.is_superuser or visible_projects(request.user).exists(),
    }


def _list_groups(request: HttpRequest) -> list[dict[str, Any]]:
    """Return for each kind how many items wait, and the first of them."""
    query, chosen = read_filters(request), request.GET.get("kind", "")
    kinds = [kind for kind in list_kinds(request.user) if chosen in ("", kind.name)]
    waiting = [row for kind in kinds for row in kind.list_rows(request.user, query, limit=SHOWN_ROWS)]
    rows = discussion.add_assignees(waiting)
    groups = []
    for kind in kinds:
        own = [row for row in rows if row.kind == kind.name]
        count = kind.count(request.user, query)
        groups.append({"kind": kind, "count": count, "rows": own, "more": max(0, count - len(own))})
    return groups


def _pane_context(request: HttpRequest, pane: Pane | None) -> dict[str, Any]:
    if pane is None:
        return {"pane": None}
    pane, arranged = discussion.add_discussion(request, pane)
    wanted = request.GET.get("tab", "") if request.method == "GET" else ""
    # Without script, the tab that the address names is drawn with the page.
    tabs = []
    for tab in pane.tabs:
        if tab.name == wanted and not tab.template:
            tab = pane.kind.draw_tab(request.user, pane.id, tab.name) or tab
        tabs.append(tab)
    drawn = [tab for tab in tabs if tab.template]
    asked = [tab for tab in drawn if tab.name == wanted]
    of_tabs = {name: value for tab in tabs for name, value in tab.context.items()}
    return {
        **of_tabs,
        **pane.context,
        "form_action": with_query(request, pane.address),
        "pane": pane,
        "tabs": tabs,
        "shown_tab": next(iter([*asked, *drawn]), None),
        "query": read_query(request),
        "arranged": arranged,
    }


def _draw_fragment(request: HttpRequest, pane: Pane) -> str:
    return render_to_string("admin/inbox/item.html", _pane_context(request, pane), request=request)


def _draw_ahead(request: HttpRequest, keys: Iterable[str]) -> dict[str, str]:
    drawn = {}
    for key in list(keys)[:AHEAD]:
        name, _, id = key.partition("/")
        kind, uuid = find_kind(name, request.user), read_id(id)
        pane = kind.draw(request.user, uuid) if kind is not None and uuid is not None else None
        if pane is not None:
            drawn[pane.key] = _draw_fragment(request, pane)
    return drawn


def _find_address(request: HttpRequest, key: str) -> str:
    """Return the address of an item, or of the list where there is no such kind."""
    name, _, id = key.partition("/")
    kind, uuid = find_kind(name, request.user), read_id(id)
    if kind is None or uuid is None:
        return with_query(request, reverse("admin:inbox"))
    return with_query(request, reverse("admin:inbox_item", args=[name, uuid]))
