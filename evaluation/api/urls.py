"""The resource of /api/v1 that lives in this app. No path ends in a slash."""

from django.urls import path

from evaluation.api.views import EvaluateView

app_name = "evaluation_api"
urlpatterns = [path("evaluate", EvaluateView.as_view(), name="evaluate")]
