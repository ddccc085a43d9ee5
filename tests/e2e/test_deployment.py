"""What is deployed, changed by keys in a real browser."""

from typing import Any

import pytest
from django.urls import reverse
from playwright.sync_api import Page, expect

from memory.releases.deployments import get_deployment
from tests.e2e.conftest import log_in
from tests.evaluation.experiment_rows import make_experiment
from tests.factories import make_member

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_key_that_promotes_asks_for_a_reason_first(page: Page, live_server: Any, transactional_db: None) -> None:
    experiment = make_experiment()
    user = make_member("ana", permissions=["view_deployment", "view_release", "view_experiment", "deploy_release"])
    log_in(page, live_server, user)
    page.goto(live_server.url + reverse("admin:memory_deployment_of", args=[experiment.project_id]))

    page.keyboard.press("p")
    expect(page.locator("h1")).to_have_text("Promote release 2?")
    expect(page.get_by_text("Experiment 1 is running and ends for good")).to_be_visible()
    before = get_deployment(experiment.project).stable_id
    page.get_by_label("Why").fill("It helped.")
    page.get_by_role("button", name="Promote release 2").click()

    expect(page.get_by_text("Done.")).to_be_visible()
    assert before == experiment.control_release_id
    assert get_deployment(experiment.project).stable_id == experiment.treated_release_id
