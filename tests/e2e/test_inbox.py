"""Deciding in the inbox in a real browser: by keys, in place, with what was typed kept."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from memory.curation.proposals import revise_heuristic
from memory.heuristics.models import Heuristic, HeuristicRevision, Review
from memory.heuristics.text import HeuristicText
from memory.projects.actors import Actor
from memory.projects.models import Project
from tests.factories import make_heuristic, make_project

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def project() -> Project:
    return make_project(name="Airline")


@pytest.fixture
def three(project: Project) -> list[Heuristic]:
    """Three proposals, in the order of the list."""
    made = [make_heuristic(project=project, trigger=f"lesson {name}") for name in ("three", "two", "one")]
    return made[::-1]


def open_inbox(desk: Page, live_server: Any, path: str = "") -> None:
    desk.goto(f"{live_server.url}/admin/inbox/{path}")
    expect(desk.locator("body.has-keys")).to_have_count(1)


def words(desk: Page) -> Any:
    return desk.locator("#item .lesson")


def test_keys_decide_in_place_and_save_behind(desk: Page, live_server: Any, three: list[Heuristic]) -> None:
    open_inbox(desk, live_server)
    desk.evaluate("window.isTheSamePage = true")
    expect(words(desk)).to_contain_text("lesson one")

    desk.keyboard.press("a")
    expect(words(desk)).to_contain_text("lesson two")
    desk.keyboard.press("r")
    expect(desk.locator(".asking")).to_contain_text("Reject: press 1 to 7")
    desk.keyboard.press("3")

    expect(words(desk)).to_contain_text("lesson three")
    expect(desk.locator(".says")).to_contain_text("Rejected.")
    assert [(each.decision, each.reason) for each in Review.objects.order_by("created_at")] == [
        ("approve", ""),
        ("reject", "Wrong"),
    ]
    assert HeuristicRevision.objects.get(served=True).heuristic == three[0]
    assert desk.evaluate("window.isTheSamePage")
    expect(desk.locator(".group .count")).to_have_text("1")


def test_undo_brings_the_item_back_in_its_place(desk: Page, live_server: Any, three: list[Heuristic]) -> None:
    open_inbox(desk, live_server, "?kind=lesson")
    desk.keyboard.press("j")
    expect(words(desk)).to_contain_text("lesson two")

    desk.keyboard.press("a")
    expect(words(desk)).to_contain_text("lesson three")
    desk.keyboard.press("u")

    expect(words(desk)).to_contain_text("lesson two")
    expect(desk.locator(".says")).to_contain_text("Undone")
    expect(desk.locator(".row-title")).to_have_text(["lesson one", "lesson two", "lesson three"])
    assert "kind=lesson" in desk.url
    assert not HeuristicRevision.objects.filter(served=True).exists()


def test_refused_decision_comes_back_and_says_why(desk: Page, live_server: Any, three: list[Heuristic]) -> None:
    open_inbox(desk, live_server)
    expect(words(desk)).to_contain_text("lesson one")
    text = HeuristicText(trigger="other words", guideline="new")
    revise_heuristic(three[0], text=text, by=Actor(label="user:ben"))

    desk.keyboard.press("a")

    expect(desk.locator(".alarm")).to_contain_text("It is back in the list")
    expect(desk.locator(".row.failed")).to_have_count(1)
    expect(words(desk)).to_contain_text("lesson two")
    desk.keyboard.press("k")
    expect(desk.locator("#item [role=alert]")).to_contain_text("the lesson changed after you read it")
    assert not Review.objects.exists()
