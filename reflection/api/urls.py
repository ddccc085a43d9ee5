"""The resources of /api/v1 that live in this app. No path ends in a slash."""

from django.urls import path

from reflection.api.imports import ImportListView, ImportView
from reflection.api.views import ReflectionListView, ReflectionView, ReflectView

app_name = "reflection_api"
urlpatterns = [
    path("imports", ImportListView.as_view(), name="import-list"),
    path("imports/<uuid:id>", ImportView.as_view(), name="import"),
    path("reflect", ReflectView.as_view(), name="reflect"),
    path("reflections", ReflectionListView.as_view(), name="reflection-list"),
    path("reflections/<uuid:id>", ReflectionView.as_view(), name="reflection"),
]
