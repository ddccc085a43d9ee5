"""Reflections in the admin."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import Page, expect

from reflection.llm.models import ModelCall
from reflection.reflectors.models import Reflection
from tests.factories import make_reflection

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_reflection_shows_its_cost_and_error(desk: Page, live_server: Any) -> None:
    reflection = make_reflection(
        status="dead",
        attempts=5,
        last_error_code="provider_error",
        last_error="The provider answered 401.",
        cost_usd=0.42,
    )
    ModelCall.objects.create(
        project=reflection.project,
        job=reflection,
        step="reflect",
        prompt_sha256="0" * 64,
        provider="anthropic",
        model="some-model",
        response="<b>not markup</b>",
        cost_usd=0.42,
    )

    desk.goto(f"{live_server.url}/admin/reflection/reflection/{reflection.pk}/change/")

    expect(desk.locator("#content")).to_contain_text("The provider answered 401.")
    expect(desk.locator("#content")).to_contain_text("0.42")


def test_reflect_again_queues_a_new_reflection(desk: Page, live_server: Any) -> None:
    reflection = make_reflection(status="dead", attempts=5)
    desk.goto(f"{live_server.url}/admin/reflection/reflection/")

    desk.locator("input.action-select").check()
    desk.locator("select[name=action]").select_option("reflect_again")
    desk.get_by_role("button", name="Go").click()

    expect(desk.locator(".messagelist")).to_contain_text("Queued again")
    assert Reflection.objects.filter(trajectory=reflection.trajectory).count() == 2


def test_reflect_again_on_a_queued_one_says_why_not(desk: Page, live_server: Any) -> None:
    make_reflection(status="running", lease_until=timezone.now() + timedelta(hours=1))
    desk.goto(f"{live_server.url}/admin/reflection/reflection/")

    desk.locator("input.action-select").check()
    desk.locator("select[name=action]").select_option("reflect_again")
    desk.get_by_role("button", name="Go").click()

    expect(desk.locator(".messagelist")).to_contain_text("still queued or running")
    assert Reflection.objects.count() == 1
