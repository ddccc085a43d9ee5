"""The pages of the admin that belong to no table, below /admin/, for people who may sign in there."""

from collections.abc import Callable

from django.contrib import admin
from django.http import HttpResponse
from django.urls import URLPattern, path

from desk.inbox import discussion, views
from desk.pages.insights import coverage_page, insights_page
from desk.pages.lessons import lessons_page
from desk.pages.person import person_page
from desk.pages.retention import retention_page
from desk.pages.search import search_page
from desk.shell.chosen_project import choose_project
from desk.shell.pages import tables_page

_ITEM = "inbox/<slug:kind_name>/<uuid:id>/"


def desk_page(address: str, view: Callable[..., HttpResponse], name: str) -> URLPattern:
    """Serve a view at an address, as `admin:<name>`."""
    return path(address, admin.site.admin_view(view), name=name)


urlpatterns = [
    desk_page("inbox/", views.index, "inbox"),
    desk_page("inbox/rows/", views.rows, "inbox_rows"),
    desk_page("inbox/ahead/", views.ahead, "inbox_ahead"),
    desk_page("inbox/undo/", views.undo, "inbox_undo"),
    desk_page("inbox/count/", discussion.count, "inbox_count"),
    desk_page(_ITEM, views.item, "inbox_item"),
    desk_page(f"{_ITEM}tab/<slug:name>/", views.tab, "inbox_tab"),
    desk_page(f"{_ITEM}hold/", views.hold, "inbox_hold"),
    desk_page(f"{_ITEM}release/", views.release, "inbox_release"),
    desk_page(f"{_ITEM}discuss/", discussion.discuss, "inbox_discuss"),
    desk_page("lessons/", lessons_page, "lessons"),
    desk_page("insights/", insights_page, "insights"),
    desk_page("insights/gaps/", coverage_page, "coverage"),
    desk_page("search/", search_page, "search"),
    desk_page("person/", person_page, "person"),
    desk_page("retention/", retention_page, "retention"),
    desk_page("project/", choose_project, "choose_project"),
    desk_page("tables/", tables_page, "tables"),
]
