"""Chats with tools: what both adapters send, and how they read answers, whole and streamed."""

import json
from dataclasses import replace
from typing import Any

import pytest

from reflection.llm.base import Provider, estimate_tokens
from reflection.llm.chat import ChatRequest, ChatTool, ToolCall
from tests.reflection.providers.asking import Make
from tests.reflection.providers.chatting import QUESTION, SYSTEM, TOOLS, call, chat_request, ignore, message
from tests.scripted_answers import MODEL, Behaviour, answer, chunks, empty, fails, nul, raw, refuses
from tests.scripted_provider import ScriptedProvider

GET_ORDER, GET_USER = call("call_1", "get_order", '{"order":"A1"}'), call("call_2", "get_user", "{}")
TALK = (
    message("system", SYSTEM),
    message("user", QUESTION),
    message("assistant", "", GET_ORDER, GET_USER),
    message("tool", "12.5", answers="call_1"),
    message("tool", "", answers="call_2"),
    message("user", "Hurry."),
)
STREAMED = pytest.mark.parametrize("on_text", [None, ignore], ids=["whole", "streamed"])


# ── What goes out ─────────────────────────────────────────────────────────────────────────────────────────────────
def test_openai_chat_has_messages_tools_and_results(server: ScriptedProvider, make: Make) -> None:
    server.script(answer("Yes."))

    make("openai").chat(chat_request(*TALK, tools=TOOLS[:1], temperature=0.5))

    sent = server.requests[0]
    assert (sent.path, sent.body["max_completion_tokens"], sent.body["temperature"]) == (
        "/v1/chat/completions",
        200,
        0.5,
    )
    assert [message["role"] for message in sent.body["messages"]] == [
        *("system", "user", "assistant", "tool", "tool"),
        *("assistant", "user"),  # the user speaks directly after results, which some templates refuse
    ]
    assert [call["function"] for call in sent.body["messages"][2]["tool_calls"]] == [
        {"name": "get_order", "arguments": '{"order":"A1"}'},
        {"name": "get_user", "arguments": "{}"},
    ]
    assert [message.get("tool_call_id") for message in sent.body["messages"][3:5]] == ["call_1", "call_2"]
    assert sent.body["tools"][0]["function"]["parameters"] == TOOLS[0].parameters


def test_anthropic_chat_has_one_turn_for_all_results(server: ScriptedProvider, make: Make) -> None:
    server.script(answer("Yes."))

    make("anthropic").chat(chat_request(*TALK, tools=TOOLS[:1], tool_choice="required"))

    sent = server.requests[0].body
    kinds = [(message["role"], [block["type"] for block in message["content"]]) for message in sent["messages"]]
    assert kinds == [
        ("user", ["text"]),
        ("assistant", ["tool_use", "tool_use"]),
        ("user", ["tool_result", "tool_result"]),
        ("assistant", ["text"]),
        ("user", ["text"]),
    ]
    assert sent["tool_choice"] == {"type": "any"}
    assert sent["tools"][0]["input_schema"] == TOOLS[0].parameters


def test_beginning_of_an_anthropic_chat_with_tools_is_marked_for_the_cache(
    server: ScriptedProvider, make: Make
) -> None:
    server.script(answer("Yes."))

    make("anthropic").chat(chat_request(*TALK, tools=TOOLS))

    assert server.requests[0].body["system"][-1]["cache_control"]["type"] == "ephemeral"


def test_only_the_instructions_of_a_single_question_are_marked_for_the_cache(
    server: ScriptedProvider, make: Make
) -> None:
    server.script(answer("Yes."))

    make("anthropic").chat(ChatRequest.single(system="Be brief.", user="Why?", max_output_tokens=9))

    body = server.requests[0].body
    assert body["system"][-1]["cache_control"]["type"] == "ephemeral"
    assert "cache_control" not in json.dumps([body["messages"], {**body, "system": "", "messages": ""}])


def test_results_come_right_after_their_calls(server: ScriptedProvider, make: Make) -> None:
    server.script(answer("Yes."))

    make("openai").chat(chat_request(*TALK[:3], message("assistant", "I told them."), *reversed(TALK[3:5])))

    sent = [(each["role"], each.get("tool_call_id")) for each in server.requests[0].body["messages"]]
    assert sent[2:5] == [("assistant", None), ("tool", "call_1"), ("tool", "call_2")]


def test_anthropic_gets_no_empty_texts_and_only_ids_it_takes(server: ScriptedProvider, make: Make) -> None:
    server.script(answer("Yes."))
    odd = call("functions.get:0", "get_order", "{}")
    talk = (message("user", "Hi."), message("assistant", " ", odd), message("tool", "1", answers=odd.id))

    make("anthropic").chat(chat_request(*talk, tools=()))

    asked, answered = server.requests[0].body["messages"][1:]
    assert [(block["type"], block["id"]) for block in asked["content"]] == [("tool_use", "functions_get_0")]
    assert answered["content"][0]["tool_use_id"] == "functions_get_0"


@pytest.mark.parametrize(
    ("choice", "openai", "anthropic"),
    [
        ("auto", "auto", {"type": "auto"}),
        ("none", "none", {"type": "none"}),
        ("required", "required", {"type": "any"}),
        ("refund", {"type": "function", "function": {"name": "refund"}}, {"type": "tool", "name": "refund"}),
    ],
)
def test_choice_of_tools_is_translated(
    choice: str, openai: Any, anthropic: Any, server: ScriptedProvider, make: Make
) -> None:
    server.script(answer("Yes."), answer("Yes."))

    for name in ("openai", "anthropic"):
        make(name).chat(chat_request(tool_choice=choice))

    assert [sent.body.get("tool_choice") for sent in server.requests] == [openai, anthropic]


@pytest.mark.parametrize("name", ["openai", "anthropic"])
def test_model_is_shown_the_arguments_it_wrote_wrongly(name: str, server: ScriptedProvider, make: Make) -> None:
    server.script(answer("Sorry."))
    talk = (TALK[1], message("assistant", "", call("call_1", "refund", '{"order": ')), TALK[3])

    make(name).chat(chat_request(*talk))

    said = server.requests[0].body["messages"][1]
    shown = said["content"][0]["input"] if name == "anthropic" else json.loads(_only_arguments(said))
    assert shown == {"INVALID_JSON": '{"order": '}


def _only_arguments(said: dict[str, Any]) -> str:
    (called,) = said["tool_calls"]
    arguments: str = called["function"]["arguments"]
    return arguments


@pytest.mark.parametrize(
    ("name", "message", "parameter"),
    [
        ("vllm", "Unknown parameter: stream_options", "stream_options"),
        ("openai", "Unsupported value: 'temperature' does not support 0 with this model.", "temperature"),
    ],
)
def test_parameter_that_a_server_refuses_is_left_out_of_chats(
    name: str, message: str, parameter: str, server: ScriptedProvider, make: Make
) -> None:
    server.script(fails(400, message=message), answer("Yes."), answer("Yes."))
    provider = make(name)

    for _ in range(2):
        provider.chat(chat_request(temperature=0.0), on_text=ignore)

    assert [parameter in sent.body for sent in server.requests] == [True, False, False]


# ── What comes back ───────────────────────────────────────────────────────────────────────────────────────────────
@STREAMED
def test_answer_has_text_calls_and_ledger_figures(on_text: Any, server: ScriptedProvider, provider: Provider) -> None:
    server.script(answer("Look.", ("refund", {"order": "Ä1", "amount": 12.5}), input_tokens=321, output_tokens=45))

    answered = provider.chat(chat_request(), on_text=on_text)

    (called,) = answered.tool_calls
    assert (answered.text, answered.finish_reason, answered.model) == ("Look.", "tool_calls", MODEL)
    assert (called.name, called.arguments) == ("refund", {"order": "Ä1", "amount": 12.5})
    assert json.loads(called.raw_arguments) == called.arguments
    assert (answered.input_tokens, answered.output_tokens) == (321, 45)
    assert answered.latency_ms > 0


@STREAMED
def test_parallel_calls_keep_their_order_and_ids(on_text: Any, server: ScriptedProvider, provider: Provider) -> None:
    server.script(answer("", ("get_user", {}), ("refund", {"order": "1"}), ("refund", {"order": "2"})))

    calls = provider.chat(chat_request(), on_text=on_text).tool_calls

    assert [(each.name, each.arguments) for each in calls] == [
        ("get_user", {}),
        ("refund", {"order": "1"}),
        ("refund", {"order": "2"}),
    ]
    assert len({each.id for each in calls}) == 3


@STREAMED
@pytest.mark.parametrize(
    ("behaviour", "text", "finish_reason"),
    [
        (answer("Well, ", finish="length"), "Well, ", "length"),
        (answer("", ("refund", {"order": "1"}), finish="length"), "", "length"),
        (answer("Bye.", finish="moonset"), "Bye.", "moonset"),
        (empty(), "", "stop"),
        (nul(), "a\ufffdb\ufffdc", "stop"),
    ],
    ids=["cut_off", "call_cut_off", "unknown_reason", "empty", "nul"],
)
def test_odd_chat_answers_come_back_as_they_are(
    on_text: Any, behaviour: Behaviour, text: str, finish_reason: str, server: ScriptedProvider, provider: Provider
) -> None:
    server.script(behaviour)

    answered = provider.chat(chat_request(), on_text=on_text)

    assert (answered.text, answered.finish_reason) == (text, finish_reason)


@STREAMED
def test_refusal_of_a_chat_is_named(on_text: Any, server: ScriptedProvider, provider: Provider) -> None:
    server.script(refuses())

    assert provider.chat(chat_request(), on_text=on_text).finish_reason == "refusal"


def _openai_calls(*calls: dict[str, Any]) -> Behaviour:
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return raw(json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]}).encode())


def test_servers_that_follow_openai_loosely_are_understood(server: ScriptedProvider, make: Make) -> None:
    server.script(
        _openai_calls(
            {"function": {"name": "refund", "arguments": {"order": "1"}}},
            {"id": "", "function": {"name": "get_user", "arguments": None}},
            {"id": "same", "function": {"name": "refund", "arguments": '{"order": "2"}'}},
            {"id": "same", "function": {"name": "refund", "arguments": '{"order": "3"}'}},
        )
    )

    answered = make("ollama").chat(chat_request())

    assert [each.arguments for each in answered.tool_calls] == [{"order": "1"}, {}, {"order": "2"}, {"order": "3"}]
    assert len({each.id for each in answered.tool_calls}) == 4
    assert "" not in {each.id for each in answered.tool_calls}
    assert answered.finish_reason == "tool_calls"
    assert answered.input_tokens == chat_request().estimated_input_tokens
    assert answered.output_tokens > estimate_tokens("refund" * 4)


@pytest.mark.parametrize(
    ("raw_arguments", "arguments"),
    [
        ('{"order": "1"}', {"order": "1"}),
        ("", {}),
        (" \n", {}),
        ('{"order": ', None),
        ('["1"]', None),
        ('"{}"', {}),
        ('"{"', None),
        ('{"amount": NaN}', None),
        ('{"amount": 1e999}', None),
        ("[" * 5000, None),
        (r'{"a\u0000": ["\ud800", "é"]}', {"a�": ["�", "é"]}),
        ('{"a": "\x00"}', {"a": "�"}),
    ],
)
def test_arguments_are_an_object_that_can_be_stored_or_none(raw_arguments: str, arguments: Any) -> None:
    read = ToolCall.read(id="1", name="refund", raw_arguments=raw_arguments)

    assert read.arguments == arguments
    assert "\x00" not in read.raw_arguments


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [{"message": {"content": "", "tool_calls": [{"id": "1"}]}}]},
        {"choices": [{"message": {"content": "", "tool_calls": ["refund"]}}]},
        {"content": "text"},
    ],
)
def test_chat_answer_in_no_known_format_is_a_transient_error(
    body: dict[str, Any], server: ScriptedProvider, provider: Provider
) -> None:
    server.script(raw(json.dumps(body).encode()))

    with pytest.raises(Exception, match="unknown format") as caught:
        provider.chat(chat_request())

    assert caught.value.transient  # type: ignore[attr-defined]


def test_plain_answer_to_a_request_for_a_stream_is_passed_on(server: ScriptedProvider, make: Make) -> None:
    server.script(raw(b'{"choices": [{"message": {"content": "All at once."}, "finish_reason": "stop"}]}'))
    pieces: list[str] = []

    make("openai").chat(chat_request(), on_text=pieces.append)

    assert pieces == ["All at once."]


def test_pieces_of_a_stream_are_its_text(server: ScriptedProvider, provider: Provider) -> None:
    server.script(answer("A longer text with a \x00 in it, and with 🎈."))
    pieces: list[str] = []

    answered = provider.chat(chat_request(), on_text=pieces.append)

    assert len(pieces) > 5
    assert "".join(pieces) == answered.text == "A longer text with a � in it, and with 🎈."


# ── Streams of servers that follow OpenAI loosely ─────────────────────────────────────────────────────────────────
def test_stream_without_usage_is_counted_by_estimate(server: ScriptedProvider, make: Make) -> None:
    server.script(chunks({"content": "1234"}, {"content": "5678"}))

    answered = make("llamacpp").chat(chat_request(), on_text=ignore)

    assert answered.output_tokens == 3
    assert answered.input_tokens == chat_request().estimated_input_tokens


@pytest.mark.parametrize(
    "deltas",
    [
        # In pieces, with the name again in each
        [
            {"index": 0, "id": "a", "function": {"name": "refund", "arguments": '{"or'}},
            {"index": 0, "id": "a", "function": {"name": "refund", "arguments": 'der":"1"}'}},
            {"index": 1, "id": "b", "function": {"name": "refund", "arguments": ""}},
            {"index": 1, "function": {"arguments": '{"order":"2"}'}},
        ],
        # Whole, all with the same index
        [
            {"index": 0, "id": "a", "function": {"name": "refund", "arguments": '{"order":"1"}'}},
            {"index": 0, "id": "b", "function": {"name": "refund", "arguments": '{"order":"2"}'}},
        ],
        # Whole, without an index, and as objects
        [
            {"id": "a", "function": {"name": "refund", "arguments": {"order": "1"}}},
            {"id": "b", "function": {"name": "refund", "arguments": {"order": "2"}}},
        ],
        # Whole, with neither index nor id
        [
            {"function": {"name": "refund", "arguments": '{"order":"1"}'}},
            {"function": {"name": "refund", "arguments": '{"order":"2"}'}},
        ],
    ],
    ids=["pieces", "one_index", "objects", "no_ids"],
)
def test_streamed_calls_are_put_together(deltas: list[dict[str, Any]], server: ScriptedProvider, make: Make) -> None:
    server.script(chunks({"content": None}, *({"tool_calls": [delta]} for delta in deltas)))

    answered = make("groq").chat(chat_request(), on_text=ignore)

    assert [(each.name, each.arguments) for each in answered.tool_calls] == [
        ("refund", {"order": "1"}),
        ("refund", {"order": "2"}),
    ]
    assert answered.finish_reason == "tool_calls"


# ── Values ────────────────────────────────────────────────────────────────────────────────────────────────────────
def test_fingerprint_of_a_chat_changes_with_everything_that_decides_the_answer() -> None:
    request = chat_request(*TALK)
    variants = [
        request,
        chat_request(*TALK[:-1]),
        chat_request(*TALK[:-1], message("user", "Slowly.")),
        chat_request(*TALK[:2], message("assistant", "", GET_ORDER), *TALK[3:]),
        replace(request, tools=TOOLS[:1]),
        replace(request, tools=(ChatTool(name="get_order", description="Other.", parameters={}), *TOOLS[1:])),
        replace(request, max_output_tokens=1),
        replace(request, temperature=1.0),
        replace(request, tool_choice="none"),
    ]

    assert len({variant.sha256 for variant in variants}) == len(variants)
    assert chat_request(*TALK).sha256 == request.sha256
