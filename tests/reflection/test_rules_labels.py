"""Pages with labels in brackets: made-up labels, options skipped, limits and properties not checked."""

from reflection.reflectors.rules.detectors import labels, unchecked_page
from reflection.reflectors.rules.offers import Page, content_words, find_presses
from tests.reflection.rules_runs import call, load_real_run, press, reflect_on, view

ITEM = (
    "[Back to Search]\n[< Prev]\nsize [small][large]\ncolor [sky blue][red]\n"
    "Cotton shirt\nPrice: $30.0\n[Description]\n[Buy Now]"
)
TASK = "i want a large red cotton shirt, and price lower than 40.00 dollars"
RESULTS = call("search", "[Back to Search]\n[B01]\nCotton shirt\n[B02]\nSilk shirt", input="red cotton shirt")
OPEN = press("B01", ITEM)
BUY = press("Buy Now", "Your score: 0.5")


def test_page_reads_groups_of_options_apart_from_single_labels() -> None:
    page = Page(index=1, text=ITEM)

    assert page.groups == {"size": ("small", "large"), "color": ("sky blue", "red")}
    assert "Buy Now" in page.labels


def test_presses_are_calls_of_tools_that_take_labels() -> None:
    run = view(RESULTS, OPEN, press("large"), call("note", "kept", input="x"), BUY)

    assert [press.label for press in find_presses(run)] == ["B01", "large", "Buy Now"]


def test_runs_without_labels_have_no_presses() -> None:
    assert find_presses(view(call("open", "a page", input="x"), call("open", "a page", input="y"))) == ()


def test_content_words_leave_out_what_says_nothing() -> None:
    assert content_words("I want two Berries, and boxes for the 3 dogs") == {"two", "berry", "box", "3", "dog"}


def test_skipped_option_that_the_task_names_is_the_lesson() -> None:
    (finding,) = labels.find(view(RESULTS, OPEN, press("large"), press("sky blue"), BUY, task=TASK))

    assert finding.trigger == 'When about to call `click` with "Buy Now" on a page that offers groups of options'
    assert 'offered "red" under "color"' in finding.rationale
    assert 'took "sky blue"' in finding.rationale
    assert finding.citations[0].quote == "[red]"
    assert finding.polarity == "avoid"


def test_all_named_options_taken_before_success_is_a_lesson_that_works() -> None:
    run = view(RESULTS, OPEN, press("large"), press("red"), BUY, task=TASK, outcome="success")

    (finding,) = labels.find(run)

    assert finding.polarity == "works"
    assert [c.quote for c in finding.citations] == ["large", "red", "Buy Now", "Your score: 0.5"]


def test_all_named_options_taken_before_failure_says_nothing_of_options() -> None:
    assert labels.find(view(RESULTS, OPEN, press("large"), press("red"), BUY, task=TASK)) == []


def test_option_the_page_does_not_have_and_a_group_left_is_the_lesson() -> None:
    run = view(RESULTS, OPEN, press("huge", "Invalid action!"), BUY, task="i want a huge silk shirt")

    (finding,) = labels.find(run)

    assert 'do not go on to "Buy Now" with a group left unchosen' in finding.guideline
    assert 'go back with "< Prev"' in finding.guideline


def test_labels_made_up_until_the_end_are_the_lesson() -> None:
    run = view(
        RESULTS, OPEN, press("large"), press("huge", "Invalid action!"), press("huge", "Invalid action!"), task=TASK
    )

    (finding,) = labels.find(run)

    assert finding.trigger == (
        'When about to call `click` on a page that shows labels in brackets, or when it answers "Invalid action"'
    )
    assert "the run ended without finishing its task" in finding.rationale
    assert finding.citations[0].quote == "huge"


def test_refused_label_in_a_run_that_succeeded_is_let_pass() -> None:
    run = view(RESULTS, OPEN, press("huge", "Invalid action!"), BUY, task="a huge shirt", outcome="success")

    assert labels.find(run) == []


def test_price_above_the_limit_of_the_task_is_the_lesson() -> None:
    task = "a large red cotton shirt, and price lower than 20.00 dollars"

    (finding,) = unchecked_page.find(view(RESULTS, OPEN, press("large"), press("red"), BUY, task=task))

    assert finding.trigger == 'When about to call `click` with "Buy Now" and the task sets a limit on the price'
    assert finding.citations[0].quote == "Price: $30.0"


def test_price_within_the_limit_is_no_lesson() -> None:
    assert unchecked_page.find(view(RESULTS, OPEN, press("large"), press("red"), BUY, task=TASK)) == []


def test_numbers_that_are_no_money_are_no_limit() -> None:
    task = "a large red cotton shirt that weighs less than 20 grams"

    assert unchecked_page.find(view(RESULTS, OPEN, press("large"), press("red"), BUY, task=task)) == []


def test_properties_the_page_does_not_show_send_to_its_closed_views() -> None:
    run = view(
        RESULTS, OPEN, press("large"), press("red"), BUY, task="large red shirt, machine washable, hooded, organic"
    )

    (finding,) = unchecked_page.find(run)

    assert 'Open the views the page offers ("Description") with `click`' in finding.guideline
    assert "(hooded, machine, organic, washable)" in finding.rationale


def test_properties_looked_up_before_are_no_lesson() -> None:
    run = view(
        RESULTS,
        OPEN,
        press("Description", "Hooded.\n[< Prev]\n[Back to Search]"),
        press("< Prev", ITEM),
        BUY,
        task="large red shirt, machine washable, hooded, organic",
    )

    assert unchecked_page.find(run) == []


def test_real_run_that_paid_too_much_says_so() -> None:
    lesson = reflect_on(load_real_run("webshop-014"))

    assert lesson.text.trigger == 'When about to call `click` with "Buy Now" and the task sets a limit on the price'
    assert lesson.confidence == 0.9


def test_real_run_that_skipped_the_colour_says_so() -> None:
    lesson = reflect_on(load_real_run("webshop-211"))

    assert 'offered "blue" under "color"' in lesson.text.rationale


def test_real_run_that_chose_all_options_is_a_lesson_that_works() -> None:
    lesson = reflect_on(load_real_run("webshop-026"))

    assert (lesson.text.polarity, lesson.text.tags) == ("works", ("labels",))
