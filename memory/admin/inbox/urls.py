"""The addresses of the inbox, which stand in front of the admin's own."""

from django.contrib import admin
from django.urls import path

from memory.admin.inbox import views

_wrap = admin.site.admin_view
_ITEM = "inbox/<slug:kind_name>/<uuid:id>/"
urlpatterns = [
    path("inbox/", _wrap(views.index), name="inbox"),
    path("inbox/rows/", _wrap(views.rows), name="inbox_rows"),
    path("inbox/ahead/", _wrap(views.ahead), name="inbox_ahead"),
    path("inbox/undo/", _wrap(views.undo), name="inbox_undo"),
    path(_ITEM, _wrap(views.item), name="inbox_item"),
    path(f"{_ITEM}hold/", _wrap(views.hold), name="inbox_hold"),
    path(f"{_ITEM}release/", _wrap(views.release), name="inbox_release"),
    path(f"{_ITEM}tab/<slug:name>/", _wrap(views.tab), name="inbox_tab"),
]
