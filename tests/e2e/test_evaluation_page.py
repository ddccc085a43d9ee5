"""The page of an evaluation in a real browser."""

from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from evaluation.models import EvaluationRun
from tests.e2e.conftest import log_in
from tests.factories import make_member, make_project

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_page_shows_the_end_by_itself(page: Page, live_server: Any) -> None:
    project = make_project()
    run = EvaluationRun.objects.create(project=project, suites=["toolchoice"], status="running")
    log_in(page, live_server, make_member(project=project, permissions=["view_evaluationrun"]))
    page.goto(f"{live_server.url}/admin/evaluation/evaluationrun/{run.pk}/change/")
    expect(page.locator(".field-status")).to_contain_text("Running")

    ended = {"status": "finished", "results": {"suites": []}, "finished_at": timezone.now()}
    EvaluationRun.objects.filter(pk=run.pk).update(**ended)

    expect(page.locator(".field-status")).to_contain_text("Finished")
    expect(page.locator("#evaluation[hx-get]")).to_have_count(0)
    expect(page.locator("#evaluation")).to_have_count(1)
