"""The frame of every page in a browser: the search by its keys, and the rows on a phone."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.factories import make_project, make_trajectory

pytestmark = [pytest.mark.slow, pytest.mark.browser, pytest.mark.django_db(transaction=True)]

STEPS = [{"index": 1, "observation": "The courier lost the parcel."}]


def test_search_opens_by_its_key_and_leads_to_the_step(desk: Page, live_server: Any) -> None:
    run = make_trajectory(project=make_project(), task="Where is it?", steps=STEPS)
    desk.goto(f"{live_server.url}/admin/")

    desk.keyboard.press("Control+k")
    desk.keyboard.type("courier")
    hit = desk.locator("#shell-found a", has_text="Where is it?")
    expect(hit).to_be_visible()
    desk.keyboard.press("Escape")
    expect(hit).to_have_count(0)
    desk.keyboard.press("/")
    desk.keyboard.type("courier")
    expect(hit).to_be_visible()
    desk.keyboard.press("ArrowDown")
    desk.keyboard.press("Enter")

    desk.wait_for_url(f"**/{run.pk}/change/?q=courier#step-1")
    expect(desk.locator("mark", has_text="courier")).to_be_visible()


def test_search_opens_as_a_page_on_a_phone(desk: Page, live_server: Any) -> None:
    desk.set_viewport_size({"width": 390, "height": 844})
    desk.goto(f"{live_server.url}/admin/")

    desk.keyboard.press("Control+k")

    desk.wait_for_url("**/admin/search/")
    expect(desk.locator("#page-q")).to_be_focused()


def test_present_section_is_in_sight_on_a_phone(desk: Page, live_server: Any) -> None:
    desk.set_viewport_size({"width": 390, "height": 844})

    desk.goto(f"{live_server.url}/admin/memory/project/")

    expect(desk.locator(".shell-sections [aria-current]")).to_be_in_viewport()
