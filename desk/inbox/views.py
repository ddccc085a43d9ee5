"""The pages of the inbox: the list with one item, its fragments, and what happens when a person decides.

A browser with script fetches the next items as fragments and sends decisions behind; it asks for JSON. Without script
the same addresses answer with whole pages, and every button is an ordinary form.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
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
from desk.inbox.kinds import Done, ItemKind, ItemRow, Pane, Tab
from desk.inbox.requests import (
    get_actor,
    get_kind,
    is_fragment,
    read_filters,
    read_project,
    read_query,
    wants_json,
    without_storing,
)
from desk.lessons.release_facts import find_roll_backs
from memory.errors import MemoryAppError
from memory.projects.access import visible_projects
from memory.review.decisions import UNDO_SECONDS

SHOWN_ROWS = 30  # of each kind; more are fetched before the list runs out, and where it is scrolled to its end
AHEAD = 3  # items that are fetched before they are needed
_UNDO = "inbox_undo"  # in the session: what the next page offers to undo, without script
View = Callable[..., HttpResponse]


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """The waiting items of a kind: how many there are, and the first of them."""

    kind: ItemKind
    count: int
    rows: list[ItemRow]

    @property
    def more(self) -> int:
        return max(0, self.count - len(self.rows))


def index(request: HttpRequest) -> HttpResponse:
    """Show what waits, and the first of it."""
    groups = _list_groups(request)
    first = next((row for group in groups for row in group.rows), None)
    kind = find_kind(first.kind, request.user) if first else None
    pane = kind.draw(request.user, first.id) if kind and first else None
    return _draw_page(request, groups, pane, at="list")


def item(request: HttpRequest, kind_name: str, id: UUID) -> HttpResponse:
    """Show an item, or carry out a decision on it."""
    kind = get_kind(request, kind_name)
    if request.method == "POST":
        return _decide(request, kind, id)
    pane = kind.draw(request.user, id)
    if pane is None:
        if is_fragment(request):
            raise Http404
        messages.error(request, f"This {kind.noun} or its project was deleted, or you are no longer a member of it.")
        return HttpResponseRedirect(reverse("admin:inbox"))
    if is_fragment(request):
        return without_storing(HttpResponse(_draw_fragment(request, pane)))
    return _draw_page(request, _list_groups(request), pane, at="beside" if request.GET.get("tab") else "words")


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
    listed = request.GET.get("listed", "")
    limit = SHOWN_ROWS + (int(listed) if listed.isascii() and listed.isdecimal() and len(listed) < 5 else 0)
    found = kind.list_rows(request.user, read_filters(request), limit=limit + 1)
    shown = discussion.add_assignees(found[:limit])
    context = {"kind": kind, "rows": shown, "query": read_query(request), "has_more": len(found) > limit}
    return without_storing(render(request, "admin/inbox/rows.html", context))


def ahead(request: HttpRequest) -> HttpResponse:
    """Return the fragments of the next items."""
    return without_storing(JsonResponse({"panes": _draw_ahead(request, request.GET.getlist("item"))}))


@require_POST
def hold(request: HttpRequest, kind_name: str, id: UUID) -> HttpResponse:
    """Claim an item for the person who reads it."""
    held = get_kind(request, kind_name).hold(request.user, id)
    if held is None:
        return JsonResponse({})
    name, until = held
    return JsonResponse({"by": name, "until": f"{until:%H:%M} UTC", "mine": name == _name(request)})


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
        said = kind.undo(request.user, request.POST.get("token", "")[:200], by=get_actor(request))
    except MemoryAppError as refusal:
        return _refuse(request, refusal, reverse("admin:inbox"))
    request.session.pop(_UNDO, None)
    if wants_json(request):
        return JsonResponse({"said": said, "panes": _draw_ahead(request, [key])})
    messages.success(request, said)
    return HttpResponseRedirect(_find_address(key, request))


def _decide(request: HttpRequest, kind: ItemKind, id: UUID) -> HttpResponse:
    here = request.get_full_path()
    try:
        done = kind.decide(request.user, id, request.POST)
    except MemoryAppError as refusal:
        return _refuse(request, refusal, here)
    if done is None:
        raise Http404
    if isinstance(done, Pane):
        if wants_json(request):
            return JsonResponse({"pane": _draw_fragment(request, done)}, status=422)
        return _draw_page(request, _list_groups(request), done, at="words")
    if wants_json(request):
        sent = {"said": done.said, "undo": done.undo}
        shown = [f"{kind.name}/{id}"] if done.stays else request.POST.getlist("ahead")
        return JsonResponse(sent | {"panes": _draw_ahead(request, shown)})
    if done.stays or not done.undo:
        messages.success(request, done.said)
    else:
        remember_undo(request, kind, id, done)  # which says it too
    if done.stays:
        return HttpResponseRedirect(here)
    return HttpResponseRedirect(_find_address(request.POST.get("next", ""), request))


def remember_undo(request: HttpRequest, kind: ItemKind, id: UUID, done: Done) -> None:
    """Let the next page offer to undo a decision, where no script does."""
    key = f"{kind.name}/{id}"
    offer = {"kind": kind.name, "item": key, "token": done.undo, "said": done.said, "at": time.time()}
    request.session[_UNDO] = offer


def take_undo(request: HttpRequest) -> dict[str, Any] | None:
    """Return what a page is to offer to undo: the person's last decision, if it was a moment ago."""
    offer = request.session.pop(_UNDO, None)
    return offer if offer and time.time() - offer["at"] < UNDO_SECONDS else None


def draw_own_page(request: HttpRequest, pane: Pane, **context: Any) -> HttpResponse:
    """Draw the page of one item, which links lead to: the same fragments as in the inbox, without the list."""
    whole = {
        **admin.site.each_context(request),
        **_pane_context(request, pane),
        "form_action": request.get_full_path(),
        "undo_action": reverse("admin:inbox_undo"),
        "alone": True,
        "at": "beside" if request.GET.get("tab") else "words",
        "undoable": (offer := take_undo(request)),
        **({"undo_action": pane.kind.undo_address(offer["token"])} if offer else {}),
        **context,
    }
    return without_storing(render(request, "admin/inbox/alone.html", whole))


def _refuse(request: HttpRequest, refusal: MemoryAppError, back: str) -> HttpResponse:
    if wants_json(request):
        return JsonResponse({"said": str(refusal)}, status=409)
    messages.error(request, str(refusal))
    return HttpResponseRedirect(back)


def _draw_page(request: HttpRequest, groups: list[Group], pane: Pane | None, *, at: str) -> HttpResponse:
    query = read_query(request)
    flat = [row for group in groups for row in group.rows]
    place = next((n for n, row in enumerate(flat) if pane is not None and row.key == pane.key), None)
    following = [row for row in flat[(place or 0) :] if pane and row.key != pane.key and not row.held_by]
    preceding = [row for row in flat[: place or 0] if not row.held_by]
    context = {
        **admin.site.each_context(request),
        "title": "Inbox",
        "groups": groups,
        "kinds": _list_kinds(request, groups),
        "chosen": (chosen := request.GET.get("kind", "")),
        "chosen_kind": find_kind(chosen, request.user),
        "show": request.GET.get("show", ""),
        "undo_action": f"{reverse('admin:inbox_undo')}?{query}" if query else reverse("admin:inbox_undo"),
        "query": query,
        "waiting_count": sum(group.count for group in groups),
        "following": following[0] if following else None,
        "preceding": preceding[-1] if preceding else None,
        "undoable": take_undo(request),
        "roll_backs": find_roll_backs(request),
        "has_projects": request.user.is_superuser or visible_projects(request.user).exists(),
        "at": at,
        **_pane_context(request, pane),
    }
    return without_storing(render(request, "admin/inbox/page.html", context))


def _pane_context(request: HttpRequest, pane: Pane | None) -> dict[str, Any]:
    if pane is None:
        return {"pane": None}
    pane, arranged = discussion.add_discussion(request, pane)
    wanted = request.GET.get("tab", "") if request.method == "GET" else ""
    tabs = [_fill(request, pane, each) if each.name == wanted else each for each in pane.tabs]
    shown = next((each for each in tabs if each.name == wanted), next((each for each in tabs if each.template), None))
    query = read_query(request)
    action = f"{pane.address}?{query}" if query else pane.address
    of_tabs = {name: value for tab in tabs for name, value in tab.context.items()}
    fixed = {"form_action": action, "pane": pane, "tabs": tabs, "shown_tab": shown, "query": query}
    return {**of_tabs, **pane.context, **fixed, "arranged": arranged}


def _fill(request: HttpRequest, pane: Pane, tab: Tab) -> Tab:
    return tab if tab.template else pane.kind.draw_tab(request.user, pane.id, tab.name) or tab


def _draw_fragment(request: HttpRequest, pane: Pane) -> str:
    return render_to_string("admin/inbox/item.html", _pane_context(request, pane), request=request)


def _draw_ahead(request: HttpRequest, keys: Iterable[str]) -> dict[str, str]:
    drawn = {}
    for key in list(keys)[:AHEAD]:
        name, _, id = key.partition("/")
        kind = find_kind(name, request.user)
        uuid = _read_id(id)
        pane = kind.draw(request.user, uuid) if kind is not None and uuid is not None else None
        if pane is not None:
            drawn[pane.key] = _draw_fragment(request, pane)
    return drawn


def _list_groups(request: HttpRequest) -> list[Group]:
    query, chosen = read_filters(request), request.GET.get("kind", "")
    kinds = [kind for kind in list_kinds(request.user) if chosen in ("", kind.name)]
    found = {kind.name: kind.list_rows(request.user, query, limit=SHOWN_ROWS) for kind in kinds}
    rows = discussion.add_assignees([row for rows in found.values() for row in rows])
    return [
        Group(kind=kind, count=kind.count(request.user, query), rows=[row for row in rows if row.kind == kind.name])
        for kind in kinds
    ]


def _list_kinds(request: HttpRequest, groups: list[Group]) -> list[ItemKind]:
    """Return the kinds to choose from: those of which something waits, whatever the filters, and the chosen one."""
    if not read_query(request):
        return [group.kind for group in groups if group.count]
    chosen, project = request.GET.get("kind"), read_project(request)
    kinds = list_kinds(request.user)
    return [kind for kind in kinds if kind.name == chosen or kind.queue(request.user, project).exists()]


def _find_address(key: str, request: HttpRequest) -> str:
    name, _, id = key.partition("/")
    query = read_query(request)
    if find_kind(name, request.user) is None or (uuid := _read_id(id)) is None:
        address = reverse("admin:inbox")
    else:
        address = reverse("admin:inbox_item", args=[name, uuid])
    return f"{address}?{query}" if query else address


def _read_id(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _name(request: HttpRequest) -> str:
    assert request.user.is_authenticated
    return str(request.user.get_username())
