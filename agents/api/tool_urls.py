"""Tools in /api/v1. No path ends in a slash."""

from django.urls import path

from agents.api.tool_views import ApproveToolView, ToolListView, ToolView, TryToolView

app_name = "tools_api"
urlpatterns = [
    path("tools", ToolListView.as_view(), name="tool-list"),
    path("tools/<uuid:id>", ToolView.as_view(), name="tool"),
    path("tools/<uuid:id>/approve", ApproveToolView.as_view(), name="tool-approve"),
    path("tools/<uuid:id>/try", TryToolView.as_view(), name="tool-try"),
]
