"""This app's part of /api/v1. Paths do not end in a slash."""

from django.urls import path

from evaluation.api.evolutions import EvolutionListView, EvolutionReportView
from evaluation.api.experiments import (
    ExperimentListView,
    ExperimentLooksView,
    ExperimentStopView,
    ExperimentView,
    UpliftView,
)
from evaluation.api.shadow import ShadowAnswerListView, ShadowView
from evaluation.api.views import EvaluateView

app_name = "evaluation_api"
urlpatterns = [
    path("evaluate", EvaluateView.as_view(), name="evaluate"),
    path("evolutions", EvolutionListView.as_view(), name="evolutions"),
    path("evolutions/<uuid:id>", EvolutionReportView.as_view(), name="evolution"),
    path("experiments", ExperimentListView.as_view(), name="experiments"),
    path("experiments/<int:id>", ExperimentView.as_view(), name="experiment"),
    path("experiments/<int:id>/looks", ExperimentLooksView.as_view(), name="experiment-looks"),
    path("experiments/<int:id>/stop", ExperimentStopView.as_view(), name="experiment-stop"),
    path("shadow", ShadowView.as_view(), name="shadow"),
    path("shadow/answers", ShadowAnswerListView.as_view(), name="shadow-answers"),
    path("uplift", UpliftView.as_view(), name="uplift"),
]
