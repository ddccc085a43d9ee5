"""What any log shows, whatever the agent does: refused constructs, idle edits, tries spent, and giving up."""

import json
from pathlib import Path
from typing import Any

from memory.intake.files import as_episode, as_trajectory
from memory.runs.episode import Episode
from reflection.reflectors.rules.detectors import (
    blind_edits,
    claimed_success,
    gave_up,
    idle_edit,
    refused_part,
    repeated_call,
    same_error,
    spent_tries,
)
from reflection.reflectors.rules.run_view import ReadRun
from tests.real_runs import load_runs
from tests.reflection.rules_runs import call, make_run, reflect_on, say, view

HELD_OUT = Path(__file__).parents[2] / "bench" / "verdicts" / "held_out_3"

IMPORTS = {"event": {"error": True, "result": "PolicyViolation: imports are restricted here; rejected: os"}}
BLOCKED = call("run_code", IMPORTS, code="import os\nprint(os.name)")
RAN = call("run_code", {"event": {"error": False, "result": "3"}}, code="print(1 + 2)")
SLOTS = {"error": "InvalidSlotInfo", "error_text": "Received invalid slot info for TurnOn"}
HOME = (
    "Open the valve.\n\nPrefer passing just name and domain.\n\n- name: Garden valve\n  domain: valve\n  area: Garden\n"
)
TURN_ON = call("TurnOn", SLOTS, area="Garden", device_class=["valve"], domain=["valve"])
FAILED_CHECK = {"edited": "a.py", "stderr": 'Traceback (most recent call last):\n  File "a.py"\nAssertionError\n'}
NO_API = "Execution failed. Traceback:\n  File \"<input>\", line 1\nException: No API named '{}' found in the shop app."


def real_run(kind: str, run_id: str) -> Episode:
    raw = next(run for run in load_runs(HELD_OUT / f"{kind}.jsonl") if run["id"] == run_id)
    return as_episode(as_trajectory(raw, defaults={}))


def edit(old: str, new: str, answer: Any = "edited") -> dict[str, Any]:
    return call("edit_file", answer, path="a.py", old_text=old, new_text=new)


def run_code(code: str, answer: str) -> dict[str, Any]:
    return call("run_code", answer, code=code)


def test_refused_import_is_left_out_of_the_next_program() -> None:
    lesson = reflect_on(real_run("factory", "factory-fuel"))

    assert lesson.text.trigger == "When about to write code for `factorio_execute_program`"
    assert "Write it without `import`" in lesson.text.guideline
    assert "one of the few that the task allows" in lesson.text.guideline


def test_all_refused_constructs_stand_in_one_lesson() -> None:
    lesson = reflect_on(real_run("factory", "factory-refinery"))

    assert "Write it without `__name__` or `getattr`" in lesson.text.guideline


def test_construct_that_worked_elsewhere_is_not_left_out() -> None:
    allowed = call("run_code", "3.14", code="import math\nprint(math.pi)")

    assert refused_part.find(view(BLOCKED, RAN, allowed)) == []


def test_construct_refused_once_and_never_left_out_is_no_lesson() -> None:
    assert refused_part.find(view(BLOCKED)) == []


def test_name_that_a_program_made_up_is_no_construct() -> None:
    wrong = call("run_code", {"error": "NameError: name 'total' is not available"}, code="print(total)")

    assert refused_part.find(view(wrong, wrong, RAN)) == []


def test_word_of_a_refusal_that_only_stands_in_the_code_is_no_construct() -> None:
    busy = call(
        "run_code", {"error": "Request rejected, try again from another host"}, code="try:\n    from a import b"
    )

    assert refused_part.find(view(busy, busy, RAN)) == []


def test_kind_of_statement_that_is_not_allowed_is_left_out() -> None:
    refused = call("query", "Error: DROP statements are not allowed here", sql="DROP TABLE a;")

    (finding,) = refused_part.find(view(refused, call("query", "1 row", sql="SELECT 1")))

    assert finding.guideline.startswith("Write it without `drop`")


def test_refused_call_is_tried_again_as_the_instructions_say() -> None:
    (finding,) = gave_up.find(view(TURN_ON, say("Sorry, which valve do you mean?"), task=HOME))

    assert finding.trigger == 'When `TurnOn` answers "Received invalid slot info for TurnOn"'
    assert "Prefer passing just name and domain" in finding.guideline
    assert "leave out `device_class` unless" in finding.guideline


def test_every_smart_home_run_gets_a_lesson_about_its_call() -> None:
    lesson = reflect_on(real_run("home", "home-fan-off"))

    assert "leave out `area` and `device_class`" in lesson.text.guideline


def test_call_that_was_tried_again_is_not_given_up() -> None:
    again = call("TurnOn", SLOTS, name="Garden valve", domain="valve")

    assert gave_up.find(view(TURN_ON, again, say("Sorry."), task=HOME)) == []


def test_refusal_without_a_hint_about_the_arguments_is_left_alone() -> None:
    assert gave_up.find(view(TURN_ON, say("Sorry."), task="Open the valve.")) == []


def test_thing_that_is_not_found_is_no_matter_of_fewer_arguments() -> None:
    missing = call("update_order", "Error: order not found in this session", order="Garden", note="")

    assert gave_up.find(view(missing, say("Sorry."), task=HOME)) == []


def test_text_replaced_by_itself_changes_nothing() -> None:
    lesson = reflect_on(real_run("repair", "repair-runs"))

    assert lesson.text.trigger == "When about to call `edit_file` with the same text as `old_text` and `new_text`"


def test_edit_and_its_undoing_in_turn_are_told_to_stop() -> None:
    lesson = reflect_on(real_run("repair", "repair-backoff"))

    assert "do not swap them again" in lesson.text.guideline


def test_transfer_back_is_no_swapped_edit() -> None:
    there, back = call("move", "ok", source="a", target="b"), call("move", "ok", source="b", target="a")

    assert idle_edit.find(view(there, back, there, back)) == []


def test_one_edit_taken_back_is_no_swapping() -> None:
    assert idle_edit.find(view(edit("a", "b"), edit("b", "a"), edit("a", "c"))) == []


def test_idle_edit_in_a_run_that_succeeded_is_ignored() -> None:
    assert idle_edit.find(view(edit("a", "a"), outcome="success")) == []


def test_unread_check_is_read_before_the_next_edit() -> None:
    lesson = reflect_on(real_run("repair", "repair-intervals"))

    assert "`README.md` and `checks.py` included if the workspace has them" in lesson.text.guideline
    assert "run the code on a small input and print the result" in lesson.text.guideline


def test_reading_between_edits_makes_them_no_blind_ones() -> None:
    steps = [edit("a", "b", FAILED_CHECK), call("read_file", "def f(): ...", path="a.py")] * 4

    assert blind_edits.find(view(*steps)) == []


def test_edits_with_different_messages_are_no_blind_ones() -> None:
    other = {"stderr": "Traceback (most recent call last):\n  File \"a.py\"\nNameError: name 'os' is not defined\n"}

    assert (
        blind_edits.find(view(edit("a", "b", FAILED_CHECK), edit("b", "c", other), edit("c", "d", FAILED_CHECK))) == []
    )


def test_few_tries_are_for_the_change_and_not_for_looking() -> None:
    (finding,) = spent_tries.find(ReadRun(real_run("factory", "factory-assembler")))

    assert finding.trigger == "When the task allows only a few intervention programs"


def test_tries_that_did_what_the_task_says_are_not_spent_on_looking() -> None:
    task = "Place the furnace. Use no more than 2 programs."
    placed = call("run_code", "Error: cannot place it there", code="place_entity('furnace')")

    assert spent_tries.find(view(RAN, placed, task=task)) == []


def test_edits_are_not_taken_for_looking() -> None:
    task = "Fix the bug. You have at most 4 turns."

    assert spent_tries.find(view(*[edit("a", "b"), edit("b", "c"), edit("c", "d")], task=task)) == []


def test_task_without_a_limit_has_no_tries_to_spend() -> None:
    assert spent_tries.find(view(RAN, RAN, task="Place the furnace.")) == []


def test_success_is_not_claimed_for_a_refused_call() -> None:
    (finding,) = claimed_success.find(view(TURN_ON, say("I have opened it: TurnOn is done."), task=HOME))

    assert finding.trigger == "When about to say that the work is done after `TurnOn` was answered with an error"


def test_success_is_not_claimed_for_code_that_ended_with_an_error() -> None:
    refused = call("execute_sql", "Error: table book does not exist", sql="INSERT INTO book VALUES (1);")

    (finding,) = claimed_success.find(view(refused, say("The row has been inserted successfully.")))

    assert "`execute_sql` did nothing" in finding.guideline


def test_answer_that_admits_the_failure_claims_nothing() -> None:
    closing = say("The order was created successfully, but it was not closed due to errors.")

    assert claimed_success.find(view(call("close_order", "Error: order is not open yet"), closing)) == []


def test_call_that_worked_in_the_end_is_no_false_claim() -> None:
    worked = call("TurnOn", "ok", name="Garden valve")

    assert claimed_success.find(view(TURN_ON, worked, say("It is done."), task=HOME)) == []


def test_value_that_the_error_names_is_taken() -> None:
    refusal = "Error: payment does not add up, total price is 1203, but paid {}"

    (finding,) = same_error.find(
        view(call("book", refusal.format(833), paid=833), call("book", refusal.format(900), paid=900))
    )

    assert "The answer names the value that would be right" in finding.guideline


def test_guessed_names_are_copied_from_a_list() -> None:
    guesses = [run_code(f"shop.{name}()", NO_API.format(name)) for name in ("show_products", "create_order")]

    (finding,) = same_error.find(view(*guesses))

    assert finding.trigger == "When about to write code for `run_code` with a name that no answer has shown"
    assert "2 names that do not exist were tried" in finding.rationale


def test_argument_that_only_refused_calls_have_is_left_out() -> None:
    refused = [call("search", "Error: bad request", query=word, sort="best") for word in ("tea", "cups")]

    worked = [call("search", "3 results", query="tea"), call("search", "1 result", query="cup")]

    (finding,) = same_error.find(view(*refused, *worked))

    assert finding.guideline.startswith("Leave out `sort`")


def test_two_differences_between_calls_tell_no_cause() -> None:
    refused = [call("search", "Error: bad request", query=word, sort="best", page=1) for word in ("tea", "cups")]

    worked = [call("search", "3 results", query="tea"), call("search", "1 result", query="cup")]

    assert same_error.find(view(*refused, *worked)) == []


def test_same_error_in_a_run_that_succeeded_is_ignored() -> None:
    guesses = [run_code(f"shop.{name}()", NO_API.format(name)) for name in ("show_products", "create_order")]

    assert same_error.find(view(*guesses, outcome="success")) == []


def test_run_that_ended_with_the_same_refused_edit_is_told_to_change() -> None:
    (finding,) = repeated_call.find(ReadRun(real_run("repair", "repair-caesar")))

    assert "`edit_file` was called 8 times" in finding.rationale


def test_message_behind_the_words_that_a_call_failed_is_the_message() -> None:
    answer = "Error in executing 'relations(Ann)'. Error: relations(): Ann is not a variable or an entity."

    assert view(call("relations", answer, name="Ann")).calls[0].error.shape == (  # type: ignore[union-attr]
        "relations(): … is not a variable or an entity"
    )


def test_errors_inside_what_a_server_wraps_are_read() -> None:
    answer = json.dumps({"tool_result": {"error": "ValueError", "detail": "Empty text is not allowed"}, "left": 3})

    assert view(call("edit", answer, text="")).calls[0].error.text == "Empty text is not allowed"  # type: ignore[union-attr]


def test_notes_on_the_error_stream_of_a_program_that_worked_are_no_error() -> None:
    answer = json.dumps({"exit_code": 0, "stdout": "ok", "stderr": "warning: old version"})

    assert view(call("shell", answer, text="x")).calls[0].error is None


def test_listed_things_that_failed_are_no_error_of_the_call() -> None:
    answer = json.dumps({"jobs": [{"name": "build", "status": "failed", "message": "no space"}]})

    assert view(call("list_jobs", answer)).calls[0].error is None


def test_run_without_calls_shows_no_behaviour() -> None:
    assert spent_tries.find(ReadRun(make_run(say("Hello."), task="Place it. Use at most 2 programs."))) == []
