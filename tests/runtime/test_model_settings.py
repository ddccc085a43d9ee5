"""How an agent's model is asked: its settings reach the question, and replies fit the schema they have to fit."""

from dataclasses import replace
from time import sleep
from typing import Any

import pytest

from memory.errors import InvalidInput
from reflection.llm.chat import ChatAnswer, ChatRequest, ChatTool, ModelOptions, PromptMessage, ToolCall
from runtime.changes.trials import Subject, Trial, hold_trial
from runtime.context.prompt import SCHEMA
from runtime.definitions.loading import export_agent
from runtime.definitions.python_file import read_definitions
from runtime.limits import Limits, ModelSettings
from runtime.revisions import AgentSpec
from tests.runtime.running import Script, go_on, make_agent, make_run

SETTINGS = ModelSettings(thinking="high", parallel_tool_calls=False, tool_choice="none", cache=False)
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FITS = '{"city": "Graz"}'


def play(*turns: str, schema: dict[str, Any] | None = None) -> tuple[Any, Script]:
    run = make_run(make_agent(model_settings=ModelSettings(output_schema=schema)))
    script = Script(*turns)
    go_on(run, script)
    return run, script


@pytest.mark.django_db
def test_settings_reach_each_question() -> None:
    script = Script("Done.")
    go_on(make_run(make_agent(model_settings=SETTINGS)), script)

    assert script.asked[0].tool_choice == "none"
    assert script.asked[0].options == ModelOptions(thinking="high", parallel_tool_calls=False, cache=False)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("window_tokens", "thinking", "tokens"),
    [
        (32_000, None, 8_000),
        (32_000, "high", 16_000),
        (200_000, "off", 8_000),
        (200_000, "low", 16_000),
        (8_000, "low", 4_000),
    ],
)
def test_answers_may_be_as_long_as_the_model_needs_unless_the_agent_says(
    window_tokens: int, thinking: Any, tokens: int
) -> None:
    agent = make_agent(window_tokens=window_tokens, model_settings=ModelSettings(thinking=thinking))
    script = Script("Done.")
    go_on(make_run(agent), script)

    assert script.asked[0].max_output_tokens == tokens


def test_agent_without_settings_is_the_agent_it_was_before_there_were_any() -> None:
    spec = AgentSpec(max_output_tokens=2_000)

    assert spec.sha256 != replace(spec, model_settings=SETTINGS).sha256
    assert spec.sha256 == "471a07af456c32b2b32b727027c0798a2dbb9a3615ad542c1cf501bf68ba5b1f"


@pytest.mark.django_db
@pytest.mark.parametrize("first", ["It is in Graz.", '{"town": "Graz"}', '["Graz"]', '{"city": "Graz"} Done.'])
def test_reply_that_does_not_fit_is_asked_for_again_once(first: str) -> None:
    run, script = play(first, FITS, schema=CITY)

    replies = list(run.messages.filter(is_reply=True).values_list("content", flat=True))
    assert (run.status, replies, len(script.asked)) == ("succeeded", [FITS], 2)
    assert SCHEMA in script.asked[0].messages[0].content
    assert "does not fit" in script.asked[1].messages[-1].content


@pytest.mark.django_db
def test_run_fails_where_the_second_reply_does_not_fit_either() -> None:
    run, _ = play("Graz", "Graz", schema=CITY)

    assert (run.status, run.stop_reason) == ("failed", "invalid_answer")
    assert "output_schema" in run.error


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (ModelSettings(tool_choice="no_such_tool"), "/model_settings/tool_choice"),
        (ModelSettings(output_schema={"type": "string"}), "/model_settings/output_schema"),
    ],
)
def test_settings_that_cannot_hold_are_refused(settings: ModelSettings, place: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        make_agent(model_settings=settings)

    assert [*raised.value.fields] == [place]


@pytest.mark.django_db
def test_settings_are_written_to_a_file_and_read_from_it() -> None:
    text = export_agent(make_agent(model_settings=SETTINGS))

    (definition,) = read_definitions(text).agents
    assert ModelSettings.model_validate(definition.model_settings) == SETTINGS


def answer(text: str = "", *calls: ToolCall, ended: str = "stop") -> ChatAnswer:
    return ChatAnswer(
        text=text, tool_calls=calls, finish_reason=ended, input_tokens=1, output_tokens=1, model="m", latency_ms=1.0
    )


class Silent:
    """A host whose tools all answer the same."""

    def answer(self, tool: str, arguments: dict[str, Any], *, by_tool: bool) -> Any:
        sleep(arguments.get("seconds", 0))
        return "pending"

    def note(self, tool: str, arguments: dict[str, Any], *, has_failed: bool) -> None: ...


def rehearse(*answers: ChatAnswer, **limits: Any) -> tuple[Trial, list[ChatRequest]]:
    given, asked = [*answers], []

    def ask(step: int, request: ChatRequest) -> ChatAnswer:
        asked.append(request)
        return given.pop(0)

    tool = ChatTool(name="status", description="", parameters={"type": "object"})
    subject = Subject(head="Be brief.", tools=(tool,), max_output_tokens=500, limits=Limits(**limits))
    return hold_trial(subject, [PromptMessage(role="user", content="Is it done?")], ask, Silent()), asked


CALL = answer("", ToolCall.read(id="c", name="status", raw_arguments="{}"))
SLOW_CALL = answer("", ToolCall.read(id="c", name="status", raw_arguments='{"seconds": 1.1}'))


@pytest.mark.parametrize(
    ("answers", "why"),
    [
        ([answer(), answer()], "an empty answer twice"),
        ([answer("It", ended="length"), answer("It", ended="length")], "cut off"),
        ([answer("No.", ended="refusal")], "refused"),
        ([answer("", ended="content_filter")], "content filter"),
        ([CALL] * 8, "got the same result"),
        ([answer("", ToolCall.read(id="c", name="status", raw_arguments="{"))] * 3, "not valid JSON"),
    ],
    ids=["empty", "cut off", "refused", "filtered", "no progress", "unreadable"],
)
def test_rehearsal_ends_as_a_run_does(answers: list[ChatAnswer], why: str) -> None:
    trial, asked = rehearse(*answers, answer("It is done."))

    assert (trial.ended, len(asked)) == (False, len(answers))
    assert why in trial.failure


# An answer reads one token and writes one.
@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"max_steps": 1}, "limit of 1 steps"),
        ({"max_tokens": 2}, "The run used 2 tokens; its limit is 2."),
        ({"max_cost_usd": 5}, "The run cost $5; its limit is $5"),
        ({"max_seconds": 1}, "limit of 1 seconds"),
    ],
    ids=["steps", "tokens", "cost", "seconds"],
)
def test_rehearsal_has_the_limits_of_a_run(limits: dict[str, Any], why: str, settings: Any) -> None:
    settings.ERL_LLM_INPUT_USD_PER_MTOK, settings.ERL_LLM_OUTPUT_USD_PER_MTOK = 2_000_000, 3_000_000

    trial, asked = rehearse(SLOW_CALL, answer("It is done."), **limits)

    assert (trial.ended, len(asked)) == (False, 1)
    assert why in trial.failure


def test_rehearsal_tells_the_model_what_its_reply_has_to_fit() -> None:
    asked: list[ChatRequest] = []

    def ask(step: int, request: ChatRequest) -> ChatAnswer:
        asked.append(request)
        return answer(FITS)

    subject = Subject(head="Be brief.", tools=(), model_settings=ModelSettings(output_schema=CITY))
    trial = hold_trial(subject, [PromptMessage(role="user", content="Where is it?")], ask, Silent())

    assert trial.reply == FITS
    assert SCHEMA in asked[0].messages[0].content


def test_rehearsal_asks_again_with_more_room() -> None:
    trial, asked = rehearse(answer("It", ended="length"), answer("It is done."))

    assert (trial.ended, trial.reply) == (True, "It is done.")
    assert [request.max_output_tokens for request in asked] == [500, 2_000]


def test_rehearsal_tells_the_agent_that_it_makes_no_progress() -> None:
    _, asked = rehearse(*[CALL] * 3, answer("It is pending."))

    assert "got the same result each time" in asked[3].messages[-1].content
