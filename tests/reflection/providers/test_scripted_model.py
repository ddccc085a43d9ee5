"""The model that plays a script, without a network."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from reflection.llm.base import Provider, ProviderError, ProviderNotConfigured
from reflection.llm.chat import ChatRequest
from reflection.llm.registry import close_provider, find_provider, get_chat_provider, get_provider
from reflection.reflectors.reflections import get_reflector
from reflection.reflectors.rules.reflector import RulesReflector
from tests.reflection.providers.asking import KEY
from tests.reflection.providers.chatting import call, chat_request, message

LOOK: dict[str, Any] = {
    "user": r"order (?P<order>\w+)",
    "say": "Let me look at {order}.",
    "calls": [{"tool": "get_order", "arguments": {"order": "{order}", "with": ["{order}", 1, {"deep": "no {order}"}]}}],
}
REFUND: dict[str, Any] = {
    "tool": "get_order",
    "result": r"total: (?P<total>[\d.]+)",
    "user": r"order (?P<order>\w+)",
    "calls": [{"tool": "refund", "arguments": {"order": "{order}", "amount": "{total:json}"}}],
}
LESSON = {"system": "ask first", "user": "refund", "say": "May I?"}
NO_ORDER = {"tool": "get_order", "say": "There is no such order."}
OTHERWISE = {"say": "I can only refund orders."}
RULES = [LESSON, LOOK, REFUND, NO_ORDER, OTHERWISE]
Play = Callable[..., Provider]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    def load(*rules: dict[str, Any]) -> Provider:
        path = tmp_path / "script.json"
        path.write_text(json.dumps({"rules": rules}))
        with override_settings(ERL_LLM_SCRIPT=f"{path}"):
            return get_chat_provider("scripted")

    return load


def talk(user: str, *, result: str = "", system: str = "") -> ChatRequest:
    answered = [
        message("assistant", "", call("1", "get_order", "{}"), call("2", "get_user", "{}")),
        message("tool", result, answers="1"),
        message("tool", "Zoë", answers="2"),
    ]
    return chat_request(message("system", system), message("user", user), *(answered if result else []))


def test_first_rule_that_fits_answers_and_fills_its_names(play: Play) -> None:
    answered = play(*RULES).chat(talk("Please cancel order A1!"))

    (called,) = answered.tool_calls
    assert (answered.text, answered.finish_reason, answered.model) == ("Let me look at A1.", "tool_calls", "scripted")
    assert (called.name, called.arguments) == ("get_order", {"order": "A1", "with": ["A1", 1, {"deep": "no A1"}]})


@pytest.mark.parametrize(
    ("request_", "text", "arguments"),
    [
        (talk("order A1", result="total: 12.5"), "", [{"order": "A1", "amount": 12.5}]),
        (talk("order A1", result="not found"), "There is no such order.", []),
        (talk("refund order A1", system="You sell shoes. Always ask first."), "May I?", []),
        (talk("How are you?"), "I can only refund orders.", []),
    ],
    ids=["result", "other_result", "lesson", "otherwise"],
)
def test_rules_are_chosen_by_what_was_said(request_: ChatRequest, text: str, arguments: Any, play: Play) -> None:
    answered = play(*RULES).chat(request_)

    assert (answered.text, [each.arguments for each in answered.tool_calls]) == (text, arguments)


def test_script_in_the_documentation_plays_to_its_end(play: Play) -> None:
    page = (settings.BASE_DIR / "docs" / "language-models.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```json\n(.*?)```", page, re.S)
    said = list(talk("Please refund order A1.").messages)
    model = play(*json.loads(script)["rules"])

    for result in ("total: 12.5", "ok"):
        answered = model.chat(chat_request(*said))
        said += [answered.message, message("tool", result, answers=answered.tool_calls[0].id)]

    assert [each.arguments for said_ in said for each in said_.tool_calls] == [
        {"order": "A1"},
        {"order": "A1", "amount": 12.5},
    ]
    assert model.chat(chat_request(*said)).text == "Done."


def test_script_is_deterministic_and_streams_words(play: Play) -> None:
    model, pieces = play(*RULES), list[str]()

    first = model.chat(talk("order A1"))
    second = model.chat(talk("order A1"), on_text=pieces.append)

    assert first == second
    assert pieces == ["Let", " me", " look", " at", " A1."]


def test_value_that_is_no_json_stays_text(play: Play) -> None:
    model = play({"user": "order (?P<order>.*)", "calls": [{"tool": "t", "arguments": {"order": "{order:json}"}}]})

    assert model.chat(talk("order A-1")).tool_calls[0].arguments == {"order": "A-1"}


def test_completion_is_played_too(play: Play) -> None:
    completion = play(*RULES).chat(ChatRequest.single(system="", user="How are you?", max_output_tokens=9))

    assert completion.text == "I can only refund orders."


def test_nothing_that_fits_is_a_final_error(play: Play) -> None:
    with pytest.raises(ProviderError, match="no rule") as caught:
        play(LOOK).chat(talk("Hello?"))

    assert not caught.value.transient


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ([], "at least 1 item"),
        ([{"say": "Hello, {name}."}], "names name"),
        ([{"user": "("}], "regular expression"),
        ([{"sey": "Hello."}], "sey"),
    ],
)
def test_script_that_cannot_work_is_refused(rules: list[dict[str, Any]], reason: str, play: Play) -> None:
    with pytest.raises(ProviderNotConfigured, match=reason):
        play(*rules)


# ── The provider of a chat ────────────────────────────────────────────────────────────────────────────────────────
def test_missing_script_is_named() -> None:
    with override_settings(ERL_LLM_PROVIDER="scripted"), pytest.raises(ProviderNotConfigured, match="ERL_LLM_SCRIPT"):
        get_chat_provider()


def test_script_is_no_language_model_that_writes_lessons(play: Play) -> None:
    play(OTHERWISE)

    with override_settings(ERL_LLM_PROVIDER="scripted", ERL_REFLECTOR="auto"):
        assert find_provider() is None
        assert isinstance(get_reflector(), RulesReflector)


def test_chat_may_use_another_model_of_the_configured_provider() -> None:
    chosen = {"ERL_LLM_PROVIDER": "groq", "ERL_LLM_MODEL": "small", "ERL_LLM_API_KEY": KEY}

    with override_settings(**chosen):
        found = {name: get_chat_provider(name) for name in ("", "groq/small", "large", "groq/large", "openai/large")}
        default = get_provider()
        close_provider()

    assert {name: provider.model for name, provider in found.items()} == {
        "": "small",
        "groq/small": "small",
        "large": "large",
        "groq/large": "large",
        "openai/large": "openai/large",
    }
    assert found[""] is found["groq/small"] is default
    assert found["large"] is found["groq/large"]
