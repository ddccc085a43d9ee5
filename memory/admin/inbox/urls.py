"""The addresses of the inbox, in front of the admin's own."""

from django.contrib import admin
from django.urls import path

from memory.admin.inbox import views

app_name = "inbox"
_wrap = admin.site.admin_view
urlpatterns = [
    path("", _wrap(views.index), name="index"),
    path("rows/", _wrap(views.rows), name="rows"),
    path("ahead/", _wrap(views.ahead), name="ahead"),
    path("undo/", _wrap(views.undo), name="undo"),
    path("<slug:kind_name>/<uuid:id>/", _wrap(views.item), name="item"),
    path("<slug:kind_name>/<uuid:id>/hold/", _wrap(views.hold), name="hold"),
    path("<slug:kind_name>/<uuid:id>/release/", _wrap(views.release), name="release"),
    path("<slug:kind_name>/<uuid:id>/tab/<slug:name>/", _wrap(views.tab), name="tab"),
]
