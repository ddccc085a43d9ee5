"""The address of a lesson, which leads to its item in the inbox, in a real browser."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from memory.curation.proposal_groups import join_group
from memory.curation.proposals import revise_heuristic
from memory.curation.reviewers import take_over_heuristic
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.text import HeuristicText
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.review.models import Review
from tests.desk.test_consolidation_pages import suggest
from tests.factories import make_heuristic, make_member, make_project, make_trajectory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

PAYLOAD = "<img src=x onerror=alert(1)><script>alert(2)</script>{{7*7}}\"'><svg/onload=alert(3)>"
HIDDEN = "do this\u202e and that\u200b"


@pytest.fixture
def project() -> Project:
    return make_project(name="Airline")


def open_heuristic(desk: Page, live_server: Any, heuristic: Heuristic) -> None:
    desk.goto(f"{live_server.url}/admin/memory/heuristic/{heuristic.pk}/change/")


def press(desk: Page, key: str) -> None:
    """Press a key once the page listens to keys: a page that was asked for by the last key may still be coming."""
    desk.wait_for_load_state()
    desk.keyboard.press(key)


def test_approve_serves_the_heuristic_and_shows_the_next(desk: Page, live_server: Any, project: Project) -> None:
    make_heuristic(project=project, trigger="the older one")
    heuristic = make_heuristic(project=project, trigger="the newer one")
    open_heuristic(desk, live_server, heuristic)

    desk.get_by_role("button", name="Approve", exact=True).click()

    expect(desk.locator(".says")).to_contain_text("Agents get this lesson from now on")
    expect(desk.locator(".messagelist")).to_have_count(0)
    expect(desk.locator(".lesson")).to_contain_text("the older one")
    assert HeuristicRevision.objects.get(served=True).heuristic == heuristic
    assert Review.objects.get().reviewer == "user:ana"


def test_reject_asks_for_a_reason_and_keeps_it(desk: Page, live_server: Any, project: Project) -> None:
    heuristic = make_heuristic(project=project)
    open_heuristic(desk, live_server, heuristic)

    desk.get_by_role("button", name="Reject").click()
    expect(desk.locator(".asking")).to_contain_text("Reject: press 1 to 7 for the reason")
    assert not Review.objects.exists()
    desk.get_by_label("Another reason").fill("too general")
    desk.get_by_role("button", name="Reject").click()

    expect(desk.locator(".says")).to_contain_text("Rejected")
    assert Review.objects.get(heuristic=heuristic).reason == "too general"


def test_edit_and_approve_serves_the_reviewers_words(desk: Page, live_server: Any, project: Project) -> None:
    heuristic = make_heuristic(project=project)
    open_heuristic(desk, live_server, heuristic)

    desk.get_by_text("Edit before approving").click()
    desk.get_by_label("Guideline").fill("Look up the fare class before anything else.")
    desk.get_by_role("button", name="Save and approve").click()

    expect(desk.locator(".says")).to_contain_text("Edited and approved")
    served = HeuristicRevision.objects.get(served=True)
    assert (served.guideline, served.number) == ("Look up the fare class before anything else.", 2)


def test_decision_on_text_that_changed_meanwhile_is_refused(desk: Page, live_server: Any, project: Project) -> None:
    heuristic = make_heuristic(project=project)
    open_heuristic(desk, live_server, heuristic)
    revise_heuristic(heuristic, text=HeuristicText(trigger="new words", guideline="new"), by=Actor(label="user:ben"))

    desk.get_by_role("button", name="Approve", exact=True).click()

    expect(desk.locator("#item [role=alert]")).to_contain_text(
        "Nothing was decided: the lesson changed after you read it"
    )
    expect(desk.locator(".lesson")).to_contain_text("new words")
    assert not HeuristicRevision.objects.filter(served=True).exists()


def test_reader_without_the_permission_sees_no_buttons(
    page: Page, live_server: Any, project: Project, transactional_db: None
) -> None:
    make_member("eve", password="correct horse", role="auditor", permissions=["view_heuristic"])
    heuristic = make_heuristic(project=project)
    page.goto(f"{live_server.url}/admin/login/?next=/admin/memory/heuristic/{heuristic.pk}/change/")
    page.fill("#id_username", "eve")
    page.fill("#id_password", "correct horse")
    page.click("input[type=submit]")

    expect(page.locator("#item")).to_contain_text("To decide, you need the permission")
    expect(page.get_by_role("button", name="Approve", exact=True)).to_be_disabled()


def test_markup_is_text_and_hidden_characters_are_shown(desk: Page, live_server: Any, project: Project) -> None:
    steps = [
        {
            "index": 1,
            "thought": PAYLOAD,
            "action": {"name": PAYLOAD, "arguments": {PAYLOAD: PAYLOAD}},
            "observation": PAYLOAD,
            "error": PAYLOAD,
        }
    ]
    trajectory = make_trajectory(project=project, task=PAYLOAD, steps=steps, summary=PAYLOAD, task_id=PAYLOAD)
    heuristic = make_heuristic(
        trajectory=trajectory, trigger=PAYLOAD, guideline=HIDDEN, avoid=PAYLOAD, rationale=PAYLOAD, task_id=PAYLOAD
    )
    open_heuristic(desk, live_server, heuristic)
    expect(desk.locator(".lesson dd").first).to_have_text(PAYLOAD)
    expect(desk.locator(".lesson")).to_contain_text("do this⟨U+202E⟩ and that⟨U+200B⟩")

    desk.goto(f"{live_server.url}/admin/memory/trajectory/{trajectory.pk}/change/")

    expect(desk.locator("#step-1")).to_contain_text(f"Thought{PAYLOAD}")


def test_narrow_pages_do_not_overflow(desk: Page, live_server: Any, project: Project) -> None:
    trajectory = make_trajectory(project=project, task="x" * 300)
    heuristic = make_heuristic(trajectory=trajectory, trigger="y" * 300)
    desk.set_viewport_size({"width": 390, "height": 844})

    desk.goto(f"{live_server.url}/admin/memory/heuristic/{heuristic.pk}/change/")
    assert desk.evaluate("document.documentElement.scrollWidth") <= 390
    desk.goto(f"{live_server.url}/admin/memory/trajectory/{trajectory.pk}/change/")
    assert desk.evaluate("document.documentElement.scrollWidth") <= 390


def test_queue_leads_to_the_evidence_and_the_run_back(desk: Page, live_server: Any, project: Project) -> None:
    trajectory = make_trajectory(project=project)
    make_heuristic(trajectory=trajectory, trigger="a refund is asked for")

    desk.goto(f"{live_server.url}/admin/memory/heuristic/?status__exact=proposed")
    desk.get_by_role("link", name="a refund is asked for").click()

    expect(desk.locator(".lesson")).to_contain_text("a refund is asked for")
    expect(desk.locator("#panel-evidence .cited")).to_have_count(2)
    expect(desk.locator("#panel-evidence .cited").last).to_contain_text("policy refuses to cancel basic economy")
    desk.goto(f"{live_server.url}/admin/memory/trajectory/{trajectory.pk}/change/")
    expect(desk.locator("#step-2")).to_contain_text("cancel_reservation")
    desk.get_by_role("link", name="a refund is asked for").click()
    expect(desk.locator(".lesson")).to_contain_text("a refund is asked for")


def test_keys_reject_with_a_reason(desk: Page, live_server: Any, project: Project) -> None:
    make_heuristic(project=project, trigger="the older one")
    heuristic = make_heuristic(project=project, trigger="the newer one")
    open_heuristic(desk, live_server, heuristic)

    press(desk, "r")
    expect(desk.locator(".asking")).to_contain_text("Reject: press 1 to 7")
    press(desk, "3")

    expect(desk.locator(".says")).to_contain_text("Rejected")
    review = Review.objects.get(heuristic=heuristic)
    assert (review.decision, review.reason) == ("reject", "Wrong")
    assert review.seconds_on_screen is not None


def test_key_does_not_wait_for_words_in_a_closed_tab(desk: Page, live_server: Any, project: Project) -> None:
    kept = make_heuristic(project=project, status="approved")
    heuristic = make_heuristic(project=project, trigger="a bag is lost")
    suggest(heuristic, "merge", other=kept)
    open_heuristic(desk, live_server, heuristic)

    press(desk, "a")

    expect(desk.locator(".says")).to_contain_text("Agents get this lesson from now on")


def test_keys_approve_and_undo(desk: Page, live_server: Any, project: Project) -> None:
    make_heuristic(project=project)
    heuristic = make_heuristic(project=project)
    open_heuristic(desk, live_server, heuristic)

    press(desk, "a")
    expect(desk.locator(".undo")).to_be_visible()
    press(desk, "u")

    expect(desk.locator(".says")).to_contain_text("Undone")
    assert not HeuristicRevision.objects.filter(served=True).exists()


def test_one_key_decides_on_every_wording_of_a_row(desk: Page, live_server: Any, project: Project) -> None:
    make_heuristic(project=project, trigger="something else")
    shown = make_heuristic(
        project=project, trigger="a refund is asked for", trajectory=make_trajectory(project=project)
    )
    longer = "the money for a booking is wanted back"
    other = make_heuristic(project=project, trigger=longer, trajectory=make_trajectory(project=project))
    join_group(other, leader=shown)
    desk.goto(f"{live_server.url}/admin/memory/heuristic/?status__exact=proposed")
    expect(desk.locator("#result_list tbody tr")).to_have_count(2)
    desk.get_by_role("link", name="a refund is asked for (and 1 more wording)").click()
    desk.get_by_role("tab", name="Similar").click()
    expect(desk.locator(".wordings")).to_contain_text(longer)

    press(desk, "a")

    expect(desk.locator(".says")).to_contain_text("Approved")
    other.refresh_from_db()
    assert (other.status, other.superseded_by_id) == ("superseded", shown.pk)
    assert Heuristic.objects.get(pk=shown.pk).approved_support == 2


def test_keys_edit(desk: Page, live_server: Any, project: Project) -> None:
    open_heuristic(desk, live_server, make_heuristic(project=project, guideline="Check the fare class first."))

    press(desk, "e")
    expect(desk.get_by_label("Guideline")).to_be_focused()
    desk.keyboard.type("a")  # is text here, not a decision
    press(desk, "Control+Enter")

    expect(desk.locator(".edit .diff ins")).to_have_count(1)
    assert not Review.objects.exists()


def test_key_to_approve_does_not_drop_what_was_typed(desk: Page, live_server: Any, project: Project) -> None:
    open_heuristic(desk, live_server, make_heuristic(project=project, guideline="Check the fare class first."))

    press(desk, "e")
    desk.keyboard.type("Always: ")
    press(desk, "Escape")
    press(desk, "a")

    expect(desk.locator(".edit .diff ins")).to_have_count(1)
    expect(desk.locator(".preview")).to_be_focused()
    assert not Review.objects.exists()


def test_keys_on_what_another_is_on_lead_to_taking_it_over(desk: Page, live_server: Any, project: Project) -> None:
    heuristic = make_heuristic(project=project)
    take_over_heuristic(heuristic, by=Actor.person(make_member("ben")))
    open_heuristic(desk, live_server, heuristic)

    press(desk, "a")
    expect(desk.locator(".says")).to_contain_text("ben has claimed it. Take it over with c")
    press(desk, "c")
    expect(desk.locator(".claim")).to_contain_text("Reserved for you")
    press(desk, "a")

    expect(desk.locator(".says")).to_contain_text("Approved")
    assert Review.objects.get().reviewer == "user:ana"


@pytest.mark.parametrize(
    ("status", "key", "hint"),
    [
        ("proposed", "m", "There is no similar lesson to merge it with"),
        ("proposed", "t", "There is nothing to retire"),
        ("rejected", "d", "This lesson is not waiting for a decision"),
    ],
)
def test_key_that_finds_nothing_says_so(
    status: str, key: str, hint: str, desk: Page, live_server: Any, project: Project
) -> None:
    open_heuristic(desk, live_server, make_heuristic(project=project, status=status))

    press(desk, key)

    expect(desk.locator(".says")).to_contain_text(hint)
    assert not Review.objects.exists()


def test_keys_can_be_turned_off(desk: Page, live_server: Any, project: Project) -> None:
    open_heuristic(desk, live_server, make_heuristic(project=project))

    press(desk, "?")
    desk.get_by_label("Enable keyboard shortcuts").uncheck()
    desk.get_by_role("button", name="Close").click()
    press(desk, "a")
    desk.reload()

    expect(desk.locator(".has-keys")).to_have_count(0)
    assert not Review.objects.exists()
    desk.evaluate("localStorage.clear()")


def test_numbers_stand_in_the_order_in_which_agents_read_them(desk: Page, live_server: Any, project: Project) -> None:
    heuristic = make_heuristic(project=project, guideline="over א 5 < 1000 ב EUR")
    open_heuristic(desk, live_server, heuristic)

    left_edges = desk.locator("[data-field=guideline]").evaluate(
        """words => {
          const node = [...words.childNodes].find((each) => each.nodeType === Node.TEXT_NODE);
          return ["5", "<", "1000", "EUR"].map((part) => {
            const range = document.createRange();
            range.setStart(node, node.data.indexOf(part));
            range.setEnd(node, node.data.indexOf(part) + part.length);
            return range.getBoundingClientRect().left;
          });
        }"""
    )

    assert left_edges == sorted(left_edges)
    expect(desk.locator(".oddities")).to_contain_text("is written from right to left")
