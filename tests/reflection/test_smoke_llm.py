"""The command that tries the configured model, and the checks of its settings."""

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.core.checks import CheckMessage
from django.core.management import CommandError, call_command
from django.test import override_settings

from erl_site.checks.llm import check_llm
from reflection.llm.registry import close_provider
from tests.scripted_answers import answer, fails, lesson, prose
from tests.scripted_provider import ScriptedProvider

LESSON = lesson(
    trigger="When an update is refused for basic economy",
    action="Read the cabin with get_reservation_details before update_reservation_flights.",
    evidence_steps=[1, 3],
)


@pytest.fixture
def server() -> Iterator[ScriptedProvider]:
    with (
        ScriptedProvider() as server,
        override_settings(
            ERL_LLM_PROVIDER="openai",
            ERL_LLM_MODEL="tiny",
            ERL_LLM_API_KEY="test-key",
            ERL_LLM_BASE_URL=server.openai_url,
            ERL_LLM_INPUT_USD_PER_MTOK=1.0,
            ERL_LLM_OUTPUT_USD_PER_MTOK=10.0,
        ),
    ):
        yield server
        close_provider()


def run(*arguments: str) -> str:
    out = StringIO()
    call_command("smoke_llm", *arguments, stdout=out)
    return out.getvalue()


def run_json() -> tuple[int, dict[str, Any]]:
    out, code = StringIO(), 0
    try:
        call_command("smoke_llm", "--json", stdout=out)
    except SystemExit as stop:
        code = int(stop.code or 0)
    return code, json.loads(out.getvalue())


# ── smoke_llm ─────────────────────────────────────────────────────────────────────────────────────────────────────
def test_working_model_is_described_in_words(server: ScriptedProvider) -> None:
    server.script(
        answer("ready", input_tokens=20, output_tokens=1), answer(LESSON, input_tokens=1000, output_tokens=50)
    )

    words = run()

    assert f"Provider openai at {server.openai_url}, model tiny." in words
    assert "Retrieval: mode hybrid, which does not ask this model" in words
    assert "1000 tokens in, 50 out, 0.001500 USD" in words
    assert "valid JSON" in words
    assert "Proposed: When an update is refused for basic economy" in words


def test_working_model_is_described_as_json(server: ScriptedProvider) -> None:
    server.script(answer("ready"), answer(LESSON))

    code, told = run_json()

    assert (code, told["ok"], told["valid_json"], told["error"]) == (0, True, True, "")
    assert [call["step"] for call in told["calls"]] == ["greeting", "reflect"]
    assert told["lessons"][0]["findings"] == []


def test_missing_prices_are_said_to_be_missing(server: ScriptedProvider) -> None:
    server.script(answer("ready"), answer(LESSON))

    with override_settings(ERL_LLM_INPUT_USD_PER_MTOK=0.0, ERL_LLM_OUTPUT_USD_PER_MTOK=0.0):
        assert "price unknown" in run()


def test_missing_configuration_fails_with_what_to_set() -> None:
    with override_settings(ERL_LLM_PROVIDER=""), pytest.raises(CommandError, match="ERL_LLM_PROVIDER"):
        run()


def test_missing_configuration_is_an_error_in_json_too() -> None:
    with override_settings(ERL_LLM_PROVIDER=""):
        code, told = run_json()

    assert (code, told["ok"]) == (1, False)
    assert "No language model is configured" in told["error"]


def test_wrong_key_fails_with_the_providers_words(server: ScriptedProvider) -> None:
    server.script(fails(401, kind="invalid_api_key", message="Incorrect API key provided."))

    with pytest.raises(CommandError, match=r"401 \(invalid_api_key.*Check ERL_LLM_API_KEY"):
        run()


def test_model_that_answers_prose_fails(server: ScriptedProvider) -> None:
    server.script(answer("ready"), prose(), prose())

    code, told = run_json()

    assert (code, told["valid_json"]) == (1, False)
    assert [call["step"] for call in told["calls"]] == ["greeting", "reflect", "reflect:repair"]


# ── Checks of the settings ────────────────────────────────────────────────────────────────────────────────────────
GOOD = {
    "ERL_REFLECTOR": "auto",
    "ERL_LLM_PROVIDER": "anthropic",
    "ERL_LLM_MODEL": "m",
    "ERL_LLM_API_KEY": "k",
    "ERL_LLM_BASE_URL": "",
}


def found(**overrides: Any) -> list[CheckMessage]:
    with override_settings(**GOOD | overrides):
        return check_llm()


def test_good_settings_pass() -> None:
    assert found() == []


def test_no_model_passes() -> None:
    assert found(ERL_LLM_PROVIDER="", ERL_LLM_MODEL="", ERL_LLM_API_KEY="") == []


@pytest.mark.parametrize(
    ("overrides", "check_id"),
    [
        ({"ERL_REFLECTOR": "oracle"}, "erl.llm.E001"),
        ({"ERL_LLM_PROVIDER": "clippy"}, "erl.llm.E002"),
        ({"ERL_LLM_MODEL": ""}, "erl.llm.E002"),
        ({"ERL_LLM_API_KEY": ""}, "erl.llm.E002"),
        ({"ERL_LLM_BASE_URL": "http://llm.internal/v1"}, "erl.llm.E004"),
        ({"ERL_LLM_BASE_URL": "https://u:p@llm.example"}, "erl.llm.E004"),
        ({"ERL_LLM_BASE_URL": "llm.example"}, "erl.llm.E004"),
        ({"ERL_LLM_BASE_URL": "https://[::1"}, "erl.llm.E004"),
        ({"ERL_LLM_BASE_URL": "http://169.254.169.254/v1"}, "erl.llm.E004"),
        ({"ERL_LLM_MAX_INPUT_TOKENS": 100}, "erl.llm.E005"),
        ({"ERL_LLM_MAX_OUTPUT_TOKENS": 10}, "erl.llm.E006"),
        ({"ERL_LESSONS_PER_TRAJECTORY": 0}, "erl.llm.E007"),
        ({"ERL_LESSONS_PER_TRAJECTORY": 9}, "erl.llm.E007"),
        ({"ERL_LLM_TIMEOUT_SECONDS": 0.0}, "erl.llm.E008"),
        ({"ERL_LLM_TIMEOUT_SECONDS": 600.0}, "erl.llm.E008"),
        ({"ERL_LLM_INPUT_USD_PER_MTOK": -1.0}, "erl.llm.E009"),
        ({"ERL_LLM_PROVIDER": ""}, "erl.llm.W001"),
        ({"ERL_RETRIEVE_MODE": "auto"}, "erl.llm.E010"),
        ({"ERL_LLM_SCRIPT": "/no/such/script.json"}, "erl.llm.E011"),
    ],
)
def test_setting_that_cannot_work_is_found(overrides: dict[str, Any], check_id: str) -> None:
    assert [message.id for message in found(**overrides)] == [check_id]


def test_mode_that_needs_a_model_is_found_without_one() -> None:
    messages = found(ERL_RETRIEVE_MODE="erl", ERL_LLM_PROVIDER="", ERL_LLM_MODEL="", ERL_LLM_API_KEY="")

    assert [message.id for message in messages] == ["erl.llm.W002"]


def test_wanted_but_missing_model_is_found() -> None:
    messages = found(ERL_REFLECTOR="llm", ERL_LLM_PROVIDER="", ERL_LLM_MODEL="", ERL_LLM_API_KEY="")

    assert [message.id for message in messages] == ["erl.llm.E003"]


def test_tool_and_its_result_are_tried_and_what_was_refused_is_named(server: ScriptedProvider) -> None:
    refused = fails(400, message="Unrecognized request argument supplied: temperature")
    server.script(refused, answer("ready"), answer(LESSON), answer("", ("late_orders", {})), answer("It is A-17."))

    said = run()

    assert "It called a tool and used the result" in said
    assert "asked without from now on: without temperature" in said


def test_model_that_cannot_call_tools_is_told_apart(server: ScriptedProvider) -> None:
    server.script(answer("ready"), answer(LESSON), fails(400, message="This model has no tools."))

    assert "Agents with tools will not work with this model. openai answered 400" in run()


@pytest.mark.parametrize(("options", "model"), [((), "only:one"), (("--model", "lab:other"), "other")])
def test_model_that_only_one_use_names_is_tried(options: tuple[str, ...], model: str, server: ScriptedProvider) -> None:
    server.script(answer("ready"), answer(LESSON))

    with override_settings(
        ERL_LLM_PROVIDER="",
        ERL_LLM_BASE_URL="",
        ERL_LLM_MODEL="",
        ERL_LLM_PROVIDERS={"lab": {"kind": "vllm", "base_url": server.openai_url}},
        ERL_LLM_MODELS={"rank": "lab:only:one"},
    ):
        said = run(*options)

    assert f"Provider lab at {server.openai_url}, model {model}." in said
    assert {request.body["model"] for request in server.requests} == {model}


def test_providers_without_a_model_say_how_to_name_one() -> None:
    with (
        override_settings(ERL_LLM_PROVIDER="", ERL_LLM_PROVIDERS={"anthropic": {"api_key": "k"}}),
        pytest.raises(CommandError, match="provider:model in ERL_LLM_MODEL, or for one use in ERL_LLM_MODELS"),
    ):
        run()


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"lab": {}}, "The kind of lab in ERL_LLM_PROVIDERS names an unknown provider"),
        ({"anthropic": {}}, "The api_key of anthropic in ERL_LLM_PROVIDERS is empty"),
        ({"azure": {"api_key": "k"}}, "The base_url of azure in ERL_LLM_PROVIDERS is empty"),
        ({"lab": {"kind": "vllm", "url": "x"}}, "ERL_LLM_PROVIDERS has a fault at lab.url"),
        ({"lab": 3}, "ERL_LLM_PROVIDERS has a fault at lab"),
        ({"lab": {"kind": "vllm", "base_url": "http://169.254.169.254"}}, "lab cannot be reached at"),
    ],
)
def test_faulty_entry_is_found_while_no_model_is_chosen(entries: dict[str, Any], words: str) -> None:
    with override_settings(ERL_LLM_PROVIDER="", ERL_LLM_PROVIDERS=entries):
        (message,) = check_llm()

    assert (message.id, words in message.msg) == ("erl.llm.E014", True)


@pytest.mark.parametrize(
    ("models", "id"),
    [({"dream": "m"}, "erl.llm.E012"), ({"rank": {}}, "erl.llm.E012"), ({"rank": "anthropic:m"}, "erl.llm.E013")],
)
def test_models_by_use_are_checked(models: dict[str, str], id: str) -> None:
    with override_settings(ERL_LLM_MODELS=models):
        assert [message.id for message in check_llm()] == [id]
