"""This app's part of /api/v1. Paths do not end in a slash."""

from django.urls import path

from evaluation.api.views import EvaluateView

app_name = "evaluation_api"
urlpatterns = [path("evaluate", EvaluateView.as_view(), name="evaluate")]
