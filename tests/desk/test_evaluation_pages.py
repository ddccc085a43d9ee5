"""Evaluations in the admin."""

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from evaluation.models import EvaluationRun
from evaluation.reports.figures import compare_arm, estimate_json
from evaluation.reports.statistics import bootstrap_mean

NONE, HYBRID = [0.0, 1.0] * 20, [1.0] * 40


@pytest.fixture
def run(db: None) -> EvaluationRun:
    arms = [
        compare_arm(name, about="", treated=values, control=NONE, seed=0)
        for name, values in (("none", NONE), ("hybrid:5", HYBRID))
    ]
    curve = [
        {"x": x, "success": estimate_json(bootstrap_mean(values)), "uplift": {"n": 0}}
        for x, values in ((0, NONE), (50, HYBRID))
    ]
    texts = dict.fromkeys(("title", "proves", "power", "data", "licence", "splits", "seeds"), "<b>said</b>")
    suite = texts | {"name": "toolchoice", "n": 40, "main": "hybrid:5", "arms": arms, "curve": curve}
    return EvaluationRun.objects.create(
        suites=["toolchoice"],
        status=EvaluationRun.Status.FINISHED,
        finished_at=timezone.now(),
        results={"suites": [suite | {"notes": [], "checks": []}]},
    )


def test_list_names_the_uplift(run: EvaluationRun, admin_client: Client) -> None:
    page = admin_client.get(reverse("admin:evaluation_evaluationrun_changelist")).content.decode()

    assert "hybrid:5 +0.500" in page


def test_page_shows_the_plots_of_the_report(run: EvaluationRun, admin_client: Client) -> None:
    page = admin_client.get(reverse("admin:evaluation_evaluationrun_change", args=[run.pk])).content.decode()

    assert 'aria-label="Uplift of each arm' in page
    assert 'aria-label="Success by earlier tasks' in page


def test_texts_of_a_report_are_escaped(run: EvaluationRun, admin_client: Client) -> None:
    page = admin_client.get(reverse("admin:evaluation_evaluationrun_change", args=[run.pk])).content.decode()

    assert "&lt;b&gt;said" in page
    assert "<b>said" not in page


def test_nothing_can_be_changed(run: EvaluationRun, admin_client: Client) -> None:
    address = reverse("admin:evaluation_evaluationrun_change", args=[run.pk])

    assert admin_client.post(address, {"status": "failed"}).status_code == 403
    assert admin_client.post(reverse("admin:evaluation_evaluationrun_delete", args=[run.pk])).status_code == 403
