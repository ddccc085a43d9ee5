"""Deciding in the inbox in a real browser: by keys, in place, with what was typed kept."""

import re
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from bench.desk_timing import measure_decisions
from desk.inbox.views import SHOWN_ROWS
from memory.curation.proposals import revise_heuristic
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.text import HeuristicText
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.review.models import Review
from tests.desk.desk_pages import embed
from tests.factories import approve_as_read, make_heuristic, make_project, make_trajectory

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


def test_list_goes_on_where_its_first_rows_were_decided(desk: Page, live_server: Any, project: Project) -> None:
    titles = [f"lesson {number}" for number in reversed(range(SHOWN_ROWS + 4))]
    made = [make_heuristic(project=project, trigger=title) for title in reversed(titles)][::-1]
    open_inbox(desk, live_server)
    expect(desk.locator(".row")).to_have_count(SHOWN_ROWS)
    approve_as_read(made[5], by=Actor(label="user:other"))

    desk.evaluate("document.querySelectorAll('.row')[27].click()")
    expect(words(desk)).to_contain_text(titles[27])

    expect(desk.locator(".row")).to_have_count(SHOWN_ROWS + 4)  # none twice, and none missed
    assert desk.locator(".row .row-title").all_inner_texts() == titles
    for title in titles[27:]:
        expect(words(desk)).to_contain_text(title)
        desk.keyboard.press("r")
        desk.keyboard.press("1")
    expect(words(desk)).to_contain_text(titles[26])


def test_late_answer_is_not_said_over_that_of_a_newer_decision(
    desk: Page, live_server: Any, three: list[Heuristic]
) -> None:
    late: list[Route] = []
    desk.route(f"**/inbox/lesson/{three[0].pk}/", lambda route: late.append(route))
    open_inbox(desk, live_server)
    desk.keyboard.press("a")
    expect(words(desk)).to_contain_text("lesson two")
    desk.keyboard.press("r")
    desk.keyboard.press("3")
    expect(desk.locator(".says")).to_contain_text("Rejected.")

    with desk.expect_response(lambda answer: answer.request.method == "POST"):
        late[0].continue_()
    desk.evaluate(
        "fetch('/admin/inbox/').then(answer => answer.text())"
    )  # the page has taken the answer before this one

    expect(desk.locator(".says")).to_contain_text("Rejected.")
    assert HeuristicRevision.objects.get(served=True).heuristic == three[0]


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


def test_page_takes_few_requests_and_shows_the_next_item_by_itself(
    desk: Page, live_server: Any, three: list[Heuristic]
) -> None:
    """What `bench.review_desk` measures, at its smallest."""
    measured = measure_decisions(desk, live_server.url, decisions=2)

    assert measured.requests <= 6
    assert all(each > 0 for each in measured.milliseconds)
    assert Review.objects.count() == 3


# Of each line of the words, once it is scrolled to: what is drawn in its middle, if that is not the words.
HIDDEN_LINES = """() => [...document.querySelectorAll('#item .lesson dd')].flatMap(dd => {
  const pane = dd.closest('.words');
  const lines = () => { const range = document.createRange(); range.selectNodeContents(dd);
    return [...range.getClientRects()].filter(line => line.width > 2); };
  return lines().flatMap((_, n) => {
    const box = pane.getBoundingClientRect();
    pane.scrollTop += lines()[n].top - (box.top + box.bottom) / 2;
    const line = lines()[n];
    const at = document.elementFromPoint(line.left + line.width / 2, (line.top + line.bottom) / 2);
    return at && dd.contains(at) ? [] : [`${dd.dataset.field} ${n}: ${at && at.outerHTML.slice(0, 80)}`];
  });
})"""
LONG = "Ask for the reservation number, read it back, and wait until the customer has confirmed every digit. " * 5
# What was on the screen is noticed frame by frame.
PAINT = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


@pytest.mark.parametrize(("width", "height"), [(1600, 900), (1280, 720), (390, 844)])
def test_no_word_of_a_lesson_is_hidden_behind_anything(
    desk: Page, live_server: Any, project: Project, width: int, height: int
) -> None:
    run = make_trajectory(project=project)
    heuristic = make_heuristic(
        trajectory=run, trigger=LONG[:300], guideline=LONG, avoid=LONG, not_when=LONG[:300], rationale=LONG
    )
    desk.set_viewport_size({"width": width, "height": height})
    open_inbox(desk, live_server, f"lesson/{heuristic.pk}/")
    desk.keyboard.press("r")  # the question for the reason takes its room from the words

    assert desk.evaluate(HIDDEN_LINES) == []
    bar, status = desk.locator(".bar").bounding_box(), desk.locator(".status").bounding_box()
    assert bar is not None
    assert status is not None
    assert bar["y"] + bar["height"] <= status["y"] + 1
    assert status["y"] + status["height"] <= height + 1
    assert desk.evaluate("document.documentElement.scrollWidth") <= width


def test_phone_says_how_to_give_a_reason_without_keys(desk: Page, live_server: Any, project: Project) -> None:
    heuristic = make_heuristic(project=project)
    desk.set_viewport_size({"width": 390, "height": 844})
    open_inbox(desk, live_server, f"lesson/{heuristic.pk}/")

    desk.get_by_role("button", name="Reject").click()

    expect(desk.locator(".asking")).to_have_text("Reject: choose a reason, then press Reject again.")
    desk.get_by_role("button", name="Edit", exact=True).click()
    expect(desk.locator(".reasons")).to_be_hidden()


def test_buttons_stay_where_they_are(desk: Page, live_server: Any, project: Project) -> None:
    make_heuristic(project=project, trigger="a short one")
    make_heuristic(trajectory=make_trajectory(project=project), trigger=LONG[:300], guideline=LONG, avoid=LONG)
    open_inbox(desk, live_server)
    approve = desk.get_by_role("button", name="Approve", exact=True)
    expect(words(desk)).to_contain_text("Ask for the reservation")
    before = approve.bounding_box()

    desk.keyboard.press("j")
    expect(words(desk)).to_contain_text("a short one")

    assert approve.bounding_box() == before
    desk.keyboard.press("k")
    expect(desk.locator("#panel-evidence h3").first).to_be_in_viewport()
    assert desk.evaluate("document.documentElement.scrollHeight <= innerHeight")  # the panes scroll, not the page


def test_key_approves_only_after_all_deciding_words_were_on_screen(
    desk: Page, live_server: Any, project: Project
) -> None:
    make_heuristic(project=project, trigger=LONG[:300], guideline=LONG, avoid=LONG, not_when=LONG[:300])
    desk.set_viewport_size({"width": 1280, "height": 720})
    open_inbox(desk, live_server)

    desk.keyboard.press("a")
    expect(desk.locator(".says")).to_contain_text("You had not seen all of it")
    assert not Review.objects.exists()
    desk.locator("[data-field=not_when]").scroll_into_view_if_needed()
    desk.locator(".words").evaluate("words => { words.scrollTop = words.scrollHeight / 2; }")
    desk.evaluate(PAINT)
    desk.locator(".words").evaluate("words => { words.scrollTop = words.scrollHeight; }")
    expect(desk.locator(".facts").last).to_be_in_viewport()
    for _ in range(4):
        desk.evaluate(PAINT)
        desk.keyboard.press("a")
    expect(desk.locator(".row")).to_have_count(0)
    expect(desk.locator(".undo")).to_be_visible()  # it was saved


def test_what_was_typed_survives_a_reload_and_signing_in_again(
    desk: Page, live_server: Any, three: list[Heuristic], reviewer: Any
) -> None:
    open_inbox(desk, live_server, f"lesson/{three[0].pk}/")
    desk.keyboard.press("e")
    desk.keyboard.press("Control+A")
    desk.keyboard.type("Words of my own.")
    desk.keyboard.press("Control+Enter")
    expect(desk.get_by_role("button", name="Save and approve")).to_have_count(2)
    expect(desk.locator(".says")).not_to_contain_text("What you typed")
    desk.reload()
    expect(desk.get_by_label("Do (guideline)")).to_have_value("Words of my own.")
    expect(desk.locator(".says")).to_contain_text("What you typed here before is still here")
    reviewer.set_password("correct horse")
    reviewer.save()
    desk.context.clear_cookies(name="sessionid")

    desk.locator("details.edit button[value=edit]").last.click()
    expect(desk).to_have_url(re.compile("/admin/login/"))
    desk.fill("#id_username", "ana")
    desk.fill("#id_password", "correct horse")
    desk.click("input[type=submit]")

    expect(desk.get_by_label("Do (guideline)")).to_have_value("Words of my own.")
    assert not Review.objects.exists()
    desk.evaluate("localStorage.clear()")


def test_skimming_claims_nothing_and_typing_does(desk: Page, live_server: Any, three: list[Heuristic]) -> None:
    open_inbox(desk, live_server)
    desk.keyboard.press("j")
    expect(words(desk)).to_contain_text("lesson two")
    assert not Heuristic.objects.claimed().exists()

    with desk.expect_response("**/hold/"):
        desk.keyboard.press("e")
        desk.keyboard.type("x")
    assert Heuristic.objects.claimed().get() == three[1]
    with desk.expect_request("**/release/"):
        desk.keyboard.press("Escape")
        desk.keyboard.press("j")

    expect(words(desk)).to_contain_text("lesson three")
    desk.evaluate("localStorage.clear()")


def test_enter_assigns_to_the_name_that_was_typed(desk: Page, live_server: Any, three: list[Heuristic]) -> None:
    open_inbox(desk, live_server, f"lesson/{three[0].pk}/")
    desk.keyboard.press("s")
    expect(desk.locator("#talk-assignee")).to_be_focused()

    desk.keyboard.type("ana")
    desk.keyboard.press("Enter")

    expect(desk.locator(".arranged")).to_have_text("Assigned to ana")
    expect(desk.locator(".row-for").first).to_have_text("· for ana")


def test_key_waits_while_a_step_that_stays_is_being_saved(desk: Page, live_server: Any, three: list[Heuristic]) -> None:
    """The pane is drawn again when the answer comes, which dropped the question for a reason."""
    previews: list[Route] = []
    desk.route(f"**/inbox/lesson/{three[0].pk}/", lambda route: previews.append(route))
    open_inbox(desk, live_server)
    desk.keyboard.press("e")
    desk.keyboard.type("x")
    desk.keyboard.press("Control+Enter")

    desk.keyboard.press("Escape")
    desk.keyboard.press("r")

    expect(desk.locator(".says")).to_contain_text("still being saved")
    expect(desk.locator(".reasons.is-open")).to_have_count(0)
    with desk.expect_response(lambda answer: answer.request.method == "POST"):
        previews[0].continue_()
    desk.evaluate("localStorage.clear()")


def make_similar(project: Project, guideline: str) -> None:
    """Make an approved lesson and a proposal that is similar to it."""
    made = [
        make_heuristic(project=project, status="approved", guideline=guideline),
        make_heuristic(project=project, guideline="Refund at once."),
    ]
    embed(made[0], 1, 0)
    embed(made[1], 0.96, 0.28)


def test_duplicate_waits_until_all_words_of_the_other_lesson_were_shown(
    desk: Page, live_server: Any, project: Project
) -> None:
    make_similar(project, f"Ask first. {LONG * 4} Then refund nothing.")
    desk.set_viewport_size({"width": 1280, "height": 720})
    open_inbox(desk, live_server)

    desk.keyboard.press("d")
    expect(desk.locator(".near button[value=duplicate]")).to_be_focused()
    desk.keyboard.press("Enter")
    expect(desk.locator(".says")).to_contain_text("You had not seen all of it. Read to the end, then merge again.")

    expect(desk.locator(".near .target")).to_contain_text("Then refund nothing.")
    assert not Review.objects.exists()
    desk.locator(".near .target dd").nth(1).locator(".edge").last.scroll_into_view_if_needed()
    desk.keyboard.press("d")
    desk.keyboard.press("Enter")
    expect(desk.locator(".says")).to_contain_text("uplicate")


def test_preview_of_an_edit_has_the_focus_and_enter_decides_nothing(
    desk: Page, live_server: Any, project: Project
) -> None:
    make_heuristic(project=project)
    open_inbox(desk, live_server)
    desk.keyboard.press("e")
    desk.keyboard.type("Look twice. ")

    desk.keyboard.press("Control+Enter")

    expect(desk.locator(".preview")).to_be_focused()
    expect(desk.locator(".preview ins").first).to_be_in_viewport()
    desk.keyboard.press("Enter")
    assert not Review.objects.exists()
