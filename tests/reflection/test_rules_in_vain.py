"""What failing agents do everywhere: empty searches, joined arguments, calls never made, guesses, and circles."""

from pathlib import Path
from typing import Any

import pytest

from memory.intake.files import as_episode, as_trajectory
from reflection.reflectors.rules.detectors import (
    changed_argument,
    empty_answer,
    joined_arguments,
    named_alternative,
    repeated_call,
    unasked_action,
    unfounded_id,
    unmade_call,
)
from reflection.reflectors.rules.run_view import is_empty
from tests.real_runs import load_runs
from tests.reflection.rules_runs import call, reflect_on, say, view

HELD_OUT = Path(__file__).parents[2] / "bench" / "verdicts" / "held_out_4"
PHRASES = ("red house at sea", "house red sea near", "the old house by the sea", "sea house with red roof")
UNKNOWN = call("mail.delete", "Mail not found.", mail_id="111")
SENT = call("mail.send", "Sent.", to="Ann", body="It is deleted.")


@pytest.mark.parametrize(
    ("run_id", "guideline"),
    [
        ("office-yuki", "First look for `email_id` with a tool that lists or searches for them"),
        ("office-anaya", "Do only what the request asks for"),
        ("office-december-13", "Change `query`, or leave it out"),
        ("office-sofia", "Give `query`, `date_min` and `date_max` as separate arguments"),
        ("ctf-12", "Hand in only what an answer of another call shows."),
        ("ctf-15", "Do not send it again. Write the program into a file"),
        ("ctf-20", "Send only commands to `bash`"),
        ("chemistry-ammonia", "Copy `smiles` from the answer of `molecule_name_to_smiles`"),
        ("chemistry-calculator", "Make the corrected call of `run_ase` at once"),
        ("chemistry-text-calls", "Make the call itself"),
        ("wikidata-bulls", "Search for one thing at a time"),
        ("wikidata-secretaries", "Run it once without the filter"),
    ],
)
def test_cause_of_a_real_run_is_the_lesson(run_id: str, guideline: str) -> None:
    raw = next(run for run in load_runs(HELD_OUT / f"{run_id.partition('-')[0]}.jsonl") if run["id"] == run_id)

    assert reflect_on(as_episode(as_trajectory(raw, defaults={}))).text.guideline.startswith(guideline)


@pytest.mark.parametrize(
    "answer", ["No mails found.", "Query returned empty result.", "0 rows returned", "count\n0", "[]"]
)
def test_answer_of_a_search_without_results_is_empty(answer: str) -> None:
    assert is_empty(view(call("search", answer, text="a")).calls[0])


@pytest.mark.parametrize("answer", ["Error: no such table", "No doubt: 3 houses stand there.", "count\n10", "saved"])
def test_answer_that_says_something_is_not_empty(answer: str) -> None:
    assert not is_empty(view(call("search", answer, text="a")).calls[0])


def search(text: str, answer: str = "No houses found.", **more: str) -> dict[str, Any]:
    return call("search", answer, text=text, **more)


@pytest.mark.parametrize(
    "steps",
    [
        [search("sea", year=str(year)) for year in range(3)],  # too few
        [search("sea", year=str(year)) for year in range(4)] + [search("sea", "House of Ann", year="9")],
        [search(f"sea {year}", year=str(year)) for year in range(4)],  # both were changed
        [search(text) for text in PHRASES] + [search("sea", "House of Ann")],  # one hit shows no rule
        [search(text) for text in PHRASES] + [search("a house by the lake", "Ann's")] * 2,  # hits are as long
    ],
)
def test_empty_searches_that_show_no_cause_teach_nothing(steps: list[dict[str, Any]]) -> None:
    assert empty_answer.find(view(*steps)) == []


def test_empty_searches_of_a_run_that_succeeded_are_ignored() -> None:
    steps = [search("sea", year=str(year)) for year in range(4)]

    assert empty_answer.find(view(*steps, outcome="success")) == []


def test_long_phrases_that_all_found_nothing_are_to_be_shortened() -> None:
    (finding,) = empty_answer.find(view(*map(search, PHRASES)))

    assert finding.guideline.startswith("Search for one thing at a time")


def test_queries_without_a_filter_are_not_told_to_drop_it() -> None:
    queries = [call("run_query", "[]", query=f"SELECT ?a {{ ?a p {name} }}") for name in "abcd"]

    assert empty_answer.find(view(*queries)) == []


@pytest.mark.parametrize("text", ["a=b", "x = f(1) and y = 2", "what is 1 + 1 = 2?"])
def test_text_that_is_no_list_of_arguments_is_left_alone(text: str) -> None:
    assert joined_arguments.find(view(call("search", "No houses found.", input=text))) == []


def test_joined_arguments_that_were_understood_are_no_fault() -> None:
    steps = [call("search", answer, input="town='a' year='b'") for answer in ("No houses found.", "House of Ann")]

    assert joined_arguments.find(view(*steps)) == []


def test_call_that_was_made_after_its_announcement_is_no_lesson() -> None:
    failed = call("book", "Error: day is missing")

    assert unmade_call.find(view(failed, say("I will correct this and try again."), call("book", "ok", day="x"))) == []


def test_end_without_an_announcement_promises_no_call() -> None:
    assert unmade_call.find(view(call("book", "Error: day is missing"), say("The day is missing."))) == []


def test_one_misspelt_command_is_no_sentence() -> None:
    wrong = call("bash", "bash: line 1: Gti: command not found", command="Gti status")

    assert unmade_call.find(view(wrong, wrong)) == []


@pytest.mark.parametrize(
    "task",
    ["Delete the last mail and tell Ann.", "Delete the last mail, then e-mail Ann.", "How many mails are there?"],
)
def test_message_that_the_request_may_ask_for_is_allowed(task: str) -> None:
    assert unasked_action.find(view(SENT, task=task)) == []


def test_made_up_id_is_looked_up_with_the_tool_of_its_group() -> None:
    (finding,) = unfounded_id.find(view(UNKNOWN, tools=("mail.delete", "mail.search_mails")))

    assert finding.guideline.startswith("First look for `mail_id` with `mail.search_mails`")


def test_made_up_value_of_a_parameter_called_id_is_looked_up() -> None:
    (finding,) = unfounded_id.find(view(call("get_order", "Order not found", id="77"), tools=("list_orders",)))

    assert finding.guideline.startswith("First look for `id` with `list_orders`")


def test_error_about_another_thing_says_nothing_of_the_id() -> None:
    assert unfounded_id.find(view(call("mail.delete", "Folder not found.", mail_id="111", folder="x"))) == []


def test_id_that_was_looked_up_before_is_no_guess() -> None:
    run = view(call("mail.search", "mail 222"), UNKNOWN, call("mail.delete", "ok", mail_id="222"))

    assert unfounded_id.find(run) == []


def test_part_that_an_argument_lacks_is_named_with_its_place() -> None:
    error = "1 validation error for run\nparams.heat\n  Field required [type=missing]"

    (finding,) = changed_argument.find(view(call("run", {"error": error}, params={"tool": {"heat": 3}})))

    assert finding.guideline == "Pass `heat` in `params`: the schema of `run` requires it there, and not inside `tool`."


def test_explanations_in_brackets_are_no_alternatives() -> None:
    error = "Unsupported model: xt. Available models are Mace (small, large), Emt and Orca"

    (finding,) = named_alternative.find(view(call("run", {"error": error}, model="xt")))

    assert "`Mace`, `Emt` or `Orca`" in finding.guideline


def test_circle_of_calls_with_known_answers_is_to_be_left() -> None:
    (finding,) = repeated_call.find(view(*[call("look", "a door", at="x"), call("wait", "a door", at="x")] * 3))

    assert finding.trigger == "When `wait` has given the same answer to the same arguments twice"


@pytest.mark.parametrize(
    "steps",
    [
        [call("look", "a door", at="x")] * 2,
        [call("look", f"door {number}", at="x") for number in range(4)],  # the answers differ
        [*[call("look", "a door", at="x")] * 3, call("open", "it is open", at="x")],  # it went on
    ],
)
def test_calls_that_lead_on_are_no_circle(steps: list[dict[str, Any]]) -> None:
    assert repeated_call.find(view(*steps)) == []


def test_tool_that_never_worked_with_the_same_arguments_is_told_to_change() -> None:
    fails = call("open_door", "Error: the key does not fit", key="red")

    (finding,) = repeated_call.find(view(call("look", "a door"), fails, call("look", "a wall"), fails, fails))

    assert "`open_door` was called 3 times" in finding.rationale


def test_tool_that_worked_in_the_end_was_not_called_in_vain() -> None:
    fails = call("open_door", "Error: the key does not fit", key="red")

    assert repeated_call.find(view(fails, fails, fails, call("open_door", "open", key="blue"))) == []


def test_wrong_answer_that_a_call_had_shown_is_no_guess() -> None:
    wrong = call("submit", "The code is incorrect.", code="k3y")

    assert repeated_call.find(view(call("read", "k3y"), wrong, wrong)) == []
