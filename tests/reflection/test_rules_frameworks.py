"""What frameworks, web APIs and MCP servers answer: forms of errors and answers, and ids."""

from typing import Any

import pytest

from memory.runs.episode import EarlierTurn, EpisodeStep
from reflection.reflectors.rules.detectors import (
    changed_argument,
    gave_up,
    lost_object,
    refused_parameter,
    unfounded_id,
    unknown_name,
    unreadable_answer,
)
from reflection.reflectors.rules.errors import read_error
from reflection.reflectors.rules.run_view import ReadRun
from tests.real_runs import TAU, WEBSHOP, load_runs
from tests.reflection.rules_runs import call, load_real_run, view

ZOD = (
    'MCP error -32602: Invalid arguments for tool draw: [\n  {\n    "code": "invalid_type",\n    "expected": "array",\n'
    '    "received": "string",\n    "path": [\n      "data"\n    ],\n    "message": "Expected array, received string"\n'
    "  }\n]"
)
ZOD_MISSING = ZOD.replace("Expected array, received string", "Required")
FASTAPI = {"detail": [{"type": "missing", "loc": ["body", "day"], "msg": "Field required"}]}
REST_FRAMEWORK = {"day": ["This field is required."]}
MCP = {"content": [{"type": "text", "text": "Error: no such room"}], "isError": True}


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("KeyError('required')", "KeyError('required')"),
        ("ValueError('Value is not a dict, get the value directly.')\n\nKeyboardInterrupt", "Value is not a dict, get"),
        ('"you must provide a model parameter"', "you must provide a model parameter"),
        (
            "Jester is not a valid tool, try another one.\n\nAgent stopped due to max iterations.",
            "Jester is not a valid",
        ),
        ("<tool_use_error>File is too large.</tool_use_error>", "File is too large."),
        ("{'error': 'invalid syntax', 'output': None}", "invalid syntax"),
        (MCP, "Error: no such room"),
        ({"errors": [{"message": 'Cannot query field "x"'}]}, 'Cannot query field "x"'),
        (ZOD, "Expected array, received string"),
        (FASTAPI, "Field required"),
        (REST_FRAMEWORK, "This field is required."),
    ],
)
def test_error_in_the_form_of_a_framework_is_read(answer: Any, text: str) -> None:
    error = read_error(EpisodeStep(index=1, observation=call("x", answer)["observation"]))

    assert error is not None
    assert error.text.startswith(text)


@pytest.mark.parametrize(
    "answer", ['"davinci"', '["KeyError"]', '{"day": ["monday"]}', '{"content": [], "isError": false}']
)
def test_answer_that_looks_like_such_a_form_is_no_error(answer: str) -> None:
    assert read_error(EpisodeStep(index=1, observation=answer)) is None


@pytest.mark.parametrize(
    ("answer", "guideline"),
    [
        (ZOD, "Give `data` as a list, even for a single entry."),
        (ZOD_MISSING, "Pass `data`: the schema of `draw` requires it."),
        (FASTAPI, "Pass `day`: the schema of `draw` requires it."),
        (REST_FRAMEWORK, "Pass `day`: the schema of `draw` requires it."),
        ("Invalid type for 'size': expected an integer, but got a string instead.", "Give `size` as a whole number."),
    ],
)
def test_schema_of_a_framework_names_the_parameter(answer: Any, guideline: str) -> None:
    (finding,) = changed_argument.find(view(call("draw", answer, colour="red")))

    assert finding.guideline == guideline


def test_word_for_a_number_is_looked_up_rather_than_guessed() -> None:
    (finding,) = changed_argument.find(view(call("shows", "Error: genre must be an integer: Comedy", genre="Comedy")))

    assert "Look up which number stands for the word" in finding.guideline


def test_parameter_that_a_server_wants_belongs_into_the_body() -> None:
    step = call(
        "post", '"you must provide a model parameter"', url="https://x.org/v1/completions", data={"engine": "a"}
    )

    (finding,) = refused_parameter.find(view(step))

    assert finding.trigger == "When about to call `post` for `completions` without `model` in `data`"


@pytest.mark.parametrize(
    ("answer", "trigger"),
    [
        ("Error: Missing required param: amount.", "When about to call `pay` without `amount`"),
        ("Error: param is missing or the value is empty: amount", "When about to call `pay` without `amount`"),
        ("Error: Unrecognized request argument supplied: note", "When about to call `pay` with `note`"),
        ('Error: Unknown parameter in input: "note", must be one of: text', "When about to call `pay` with `note`"),
    ],
)
def test_parameter_in_the_words_of_web_apis_is_named(answer: str, trigger: str) -> None:
    (finding,) = refused_parameter.find(view(call("pay", answer, note="a")))

    assert finding.trigger == trigger


def test_advice_of_the_error_with_which_a_run_ended_is_the_lesson() -> None:
    answer = "ValueError('Value at path `data` is not a dict, get the value directly.')"

    (finding,) = gave_up.find(view(call("list_keys", answer, at='data["required"]')))

    assert finding.guideline == 'Do what the answer says before you give up: "get the value directly".'


def test_tools_that_do_not_exist_are_one_lesson() -> None:
    run = view(call("get_gas", "Unknown tool: get_gas"), call("read_gas", "Unknown tool: read_gas"), call("look"))

    (finding,) = unknown_name.find(run)

    assert finding.trigger == "When about to plan with `get_gas` or `read_gas` in this environment"


def test_missing_program_of_which_commands_keep_silent_is_named() -> None:
    missing = call("bash", "find: 'compress': No such file or directory", command="find . -exec compress {} +")
    silent = call("bash", "", command="find . -exec sh -c 'for f do compress $f; done' {} +")

    (finding,) = unknown_name.find(view(missing, silent))

    assert finding.guideline == "Do without `compress`: it is not installed here. Use a program that is."


@pytest.mark.parametrize(
    ("answer", "guideline"),
    [
        ("Could not parse LLM output: I'm sorry", "Write every answer in the form"),
        ("Invalid Format: Missing 'Action:' after 'Thought:'", "Write every answer in the form"),
        ("I did it wrong. Invalid Format: I missed the 'Action:' after 'Thought:'.", "Write every answer in the form"),
        ("Parsing LLM output produced both a final answer and a parse-able action: a", "Write only one of them"),
        (
            "Could not parse tool input: {} because the `arguments` is not valid JSON.",
            "Write the arguments as one JSON",
        ),
        ("Your code snippet is invalid, because the regex pattern x was not found in it.", "Put exactly one block"),
        ("Please always provide EXACTLY ONE action in triple backticks, found 0 actions.", "Put exactly one block"),
    ],
)
def test_answer_that_a_framework_cannot_read_is_the_lesson(answer: str, guideline: str) -> None:
    (finding,) = unreadable_answer.find(view({"action": None, "observation": answer}))

    assert finding.guideline.startswith(guideline)


@pytest.mark.parametrize("outcome", ["failure", "success"])
def test_answer_that_was_mended_is_no_lesson(outcome: str) -> None:
    steps = (call("x", "Could not parse LLM output: I'm sorry"), call("search", "found", text="a"))

    assert unreadable_answer.find(view(*steps, outcome=outcome)) == []


def test_text_that_quotes_such_a_message_is_no_refusal() -> None:
    page = f"{'How to call tools. ' * 30}\nCould not parse LLM output: `…` means that the form is wrong."

    assert unreadable_answer.find(view(call("read_page", page))) == []


def test_made_up_id_is_to_be_looked_up_with_the_tool_that_lists_them() -> None:
    answer = {"error": "No readings found for sensor='thermal_sensor'."}
    run = view(call("get_readings", answer, sensor_id="thermal_sensor"), tools=("list_sensors",))

    (finding,) = unfounded_id.find(run)

    assert finding.guideline.startswith("First look for `sensor_id` with `list_sensors`, and copy it")


def test_id_of_another_thing_is_named() -> None:
    run = view(
        call("get_device", {"name": "a"}, device_id="T-006"),
        call("get_fault", {"error": "Fault 'T-006' not found."}, fault_id="T-006"),
        task="What is wrong with T-006?",
    )

    (finding,) = unfounded_id.find(run)

    assert finding.trigger == "When about to call `get_fault` with the value of `device_id` as `fault_id`"


@pytest.mark.parametrize(
    "fields",
    [
        {"task": "Read thermal_sensor."},
        {"outcome": "success"},
        {"system_prompt": "Use thermal_sensor."},
        {"earlier": (EarlierTurn(task="Which are there?", answer="There is thermal_sensor."),)},
    ],
)
def test_id_that_was_given_or_did_no_harm_is_no_lesson(fields: dict[str, Any]) -> None:
    step = call("get_readings", {"error": "sensor 'thermal_sensor' not found"}, sensor_id="thermal_sensor")

    assert unfounded_id.find(view(step, **fields)) == []


MADE = call("create_ticket", {"ticket_id": "TK-88"}, title="a")
LOST = call("update_ticket", {"error": "Ticket 'TK-88' not found in this session."}, ticket_id="TK-88")

READ = call("get_ticket", {"error": "Ticket 'TK-88' not found."}, ticket_id="TK-88")
NAMED = call("create_ticket", "created TK-88", name="TK-88")


def test_thing_that_another_tool_does_not_find_is_the_lesson() -> None:
    (finding,) = lost_object.find(view(MADE, LOST))

    assert finding.trigger == "When the request needs `update_ticket` for what `create_ticket` is about to make"


@pytest.mark.parametrize(
    "steps",
    [
        (LOST,),
        (MADE, LOST, call("update_ticket", "updated", ticket_id="TK-88")),
        (call("get_ticket", "TK-88"), LOST),
        (MADE, READ),
        (NAMED, LOST),
    ],
)
def test_thing_that_was_not_lost_is_no_lesson(steps: tuple[dict[str, Any], ...]) -> None:
    assert lost_object.find(view(*steps)) == []


def test_sentence_in_place_of_a_call_is_talk() -> None:
    run = view(
        {"action": {"The": "x"}, "observation": ""} | call("The", "", input="report could not be written at all.")
    )

    assert run.calls == ()
    assert run.closing == "The report could not be written at all."


@pytest.mark.parametrize(
    "detector", [unreadable_answer, unfounded_id, lost_object], ids=lambda module: module.__name__.rpartition(".")[2]
)
def test_detector_is_silent_on_the_real_runs(detector: Any) -> None:
    runs = [ReadRun(load_real_run(run["id"])) for path in (TAU, WEBSHOP) for run in load_runs(path)]

    assert [match for run in runs for match in detector.find(run)] == []
