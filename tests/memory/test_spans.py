"""Runs read from spans: what tells a call, where an agent begins, and what tracers do not write."""

import json
from typing import Any

import pytest

from memory.transcripts.formats import read_document
from memory.transcripts.log import Transcript
from memory.transcripts.opentelemetry import read_json

TASK = "Cancel reservation EHGLP3."
ASKED = {"role": "user", "parts": [{"type": "text", "content": TASK}]}
CALL = {"type": "tool_call", "id": "call_1", "name": "look", "arguments": {"id": "EHGLP3"}}
CALLED = {"role": "assistant", "parts": [CALL]}
RETURNED = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "call_1", "response": "basic"}]}
SAID = {"role": "assistant", "parts": [{"type": "text", "content": "It cannot be cancelled."}]}
LOOK = {"name": "look", "arguments": {"id": "EHGLP3"}}
SAY = {"name": "respond", "arguments": {"content": "It cannot be cancelled."}}


def span(id: str, operation: str, *, parent: str = "", events: Any = (), dropped: int = 0, **said: Any) -> Any:
    """Return a span; underscores in the names of its attributes are dots, and its id tells when it began."""
    about = {"gen_ai.operation.name": operation, **{f"gen_ai.{k.replace('__', '.')}": v for k, v in said.items()}}
    return {
        "traceId": "t",
        "spanId": id,
        "parentSpanId": parent,
        "name": f"{operation} x",
        "startTimeUnixNano": ord(id) * 10**9,
        "attributes": attributes(about),
        "events": [{"name": name, "attributes": attributes(values)} for name, values in events],
        "droppedAttributesCount": dropped,
    }


def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
    return [{"key": name, "value": {"stringValue": text}} for name, text in texts.items()]


def chat(id: str, given: list[Any], returned: list[Any], **more: Any) -> Any:
    return span(id, "chat", input__messages=given, output__messages=returned, **more)


def tool(id: str, **more: Any) -> Any:
    return span(id, "execute_tool", **{"tool__name": "look", "tool__call__arguments": {"id": "EHGLP3"}, **more})


def runs(*spans: Any) -> list[Transcript]:
    return read_document({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}).transcripts


def told(run: Transcript) -> list[tuple[Any, str, str]]:
    """Return what the agent did after it was asked: actions with observation and error."""
    return [(step["action"], step["observation"], step["error"]) for step in run.steps[1:]]


def test_result_of_a_tools_span_joins_its_call_by_id() -> None:
    failed = {**tool("c", tool__call__id="call_2"), "status": {"code": 2, "message": "no such seat"}}
    both = {"role": "assistant", "parts": [CALL, {**CALL, "id": "call_2"}]}

    (run,) = runs(chat("a", [ASKED], [both]), failed, tool("d", tool__call__id="call_1", tool__call__result="basic"))

    assert told(run) == [(LOOK, "basic", ""), (LOOK, "", "no such seat")]
    assert run.left_out == []


def test_messages_that_a_limit_cut_are_read_up_to_the_cut() -> None:
    text = json.dumps([ASKED, CALLED, RETURNED, SAID])

    (run,) = runs(span("a", "chat", input__messages=text[: text.index("basic")]), tool("b", tool__call__result="basic"))

    assert (run.task, told(run)) == (TASK, [(LOOK, "basic", "")])
    assert run.left_out == ["span a: the end of gen_ai.input.messages, which a limit of the tracer cut off"]


def test_json_is_read_wherever_it_is_cut() -> None:
    text = json.dumps([{"role": "user", "n": [1.5, True, None], "content": 'Say "\\he\u00e9"'}, {"b": {"c": []}}])

    read = [read_json(text[:end]) for end in range(len('[{"role": "u'), len(text))]

    assert all(is_cut and document[0]["role"] in "user" for document, is_cut in read)


@pytest.mark.parametrize("text", ["[a note, not JSON", "{x", "[1] and more", "{]", "plain", "[" * 5000])
def test_text_that_is_no_json_stays_as_it_is(text: str) -> None:
    assert read_json(text) == (text, False)


def test_call_that_only_its_span_tells_is_a_step_before_the_answer() -> None:
    words = {"role": "user", "parts": [{"type": "text", "content": f"{TASK} The tool said: basic"}]}

    (run,) = runs(chat("a", [ASKED], [CALLED]), tool("b", tool__call__result="basic"), chat("c", [words], [SAID]))

    assert told(run) == [(LOOK, "basic", ""), (SAY, "", "")]


def test_call_that_two_tracers_tell_is_one_step() -> None:
    outer = tool("b", tool__call__result="basic")

    (run,) = runs(outer, span("c", "execute_tool", parent="b", tool__name="look", tool__call__id="call_1"))

    assert [step["observation"] for step in run.steps] == ["basic"]


def test_call_inside_a_call_is_left_out() -> None:
    (run,) = runs(tool("b"), tool("c", parent="b", tool__name="read_page"))

    assert run.left_out == ["span c: a call of read_page inside the call of look"]
    assert [step["action"] for step in run.steps] == [LOOK]


def test_answer_that_repeats_an_earlier_call_adds_none() -> None:
    answers = {"role": "assistant", "parts": [*SAID["parts"], CALL]}

    (run,) = runs(chat("a", [ASKED, CALLED, RETURNED], [answers]))

    assert told(run) == [(LOOK, "basic", ""), (SAY, "", "")]


def test_agents_around_one_agent_are_that_agent() -> None:
    (run,) = runs(
        span("a", "invoke_workflow"),
        span("b", "invoke_agent", parent="a", agent__name="travel"),
        span("c", "invoke_agent", parent="b"),
        chat("d", [ASKED], [SAID], parent="c"),
    )

    assert (run.external_id, run.parent_id, run.agent, run.task) == ("t", "", "travel", TASK)


def test_agent_that_two_agents_work_in_keeps_theirs_apart() -> None:
    first, second = (span(id, "invoke_agent", parent="a") for id in "bd")
    outer, *inner = runs(
        span("a", "invoke_agent"),
        first,
        chat("c", [ASKED], [SAID], parent="b"),
        second,
        chat("e", [ASKED], [SAID], parent="d"),
    )

    assert [run.parent_id for run in inner] == ["t", "t"]
    assert outer.steps == []


def test_plans_and_memories_are_steps() -> None:
    (run,) = runs(
        chat("a", [ASKED], [CALLED]),
        span(
            "b",
            "plan",
            parent="a",
            output__messages=[{"role": "assistant", "parts": [{"type": "text", "content": "Look first."}]}],
        ),
        span("c", "search_memory", memory__query__text="fares", memory__records=[{"content": "basic is final"}]),
        span("d", "create_memory", memory__records=[{"content": "done"}]),
        span("e", "retrieval", retrieval__query__text="fares", retrieval__documents=[{"id": "1"}]),
    )

    assert [step["thought"] for step in run.steps if step["thought"]] == ["Look first."]
    assert told(run)[2:] == [
        ({"name": "search_memory", "arguments": {"query.text": "fares"}}, '[{"content":"basic is final"}]', ""),
        ({"name": "create_memory", "arguments": {"records": [{"content": "done"}]}}, "", ""),
        ({"name": "retrieval", "arguments": {"query.text": "fares"}}, '[{"id":"1"}]', ""),
    ]


def test_what_a_tracer_keeps_elsewhere_or_drops_is_named() -> None:
    (run,) = runs(
        span("a", "invoke_agent", input__messages_ref="gs://b/in.json"),
        chat("b", [ASKED], [SAID], parent="a", dropped=3),
    )

    assert run.left_out == [
        "span a: gen_ai.input.messages, which is kept at gs://b/in.json",
        "span b: 3 attributes, which the SDK dropped: raise OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
    ]


def test_answers_outside_the_longest_conversation_are_named() -> None:
    title = chat("b", [ASKED], [{"role": "assistant", "parts": [{"type": "text", "content": "A title"}]}])

    (run,) = runs(title, chat("c", [ASKED, CALLED, RETURNED], [SAID]))

    (note,) = run.left_out
    assert note.startswith("span b: what the model answered there")


def test_trace_without_words_has_no_task() -> None:
    (run,) = runs(span("a", "invoke_agent", agent__name="shop"), span("b", "chat", parent="a"))

    assert (run.task, run.steps) == ("", [])
    assert run.left_out == ["span b: the words of a model call, which its tracer did not record"]


def test_events_of_spans_hold_their_messages() -> None:
    asked = ("gen_ai.user.message", {"content": [{"text": TASK}]})
    use = [{"toolUse": {"toolUseId": "call_1", "name": "look", "input": {"id": "EHGLP3"}}}]
    result = [{"toolResult": {"toolUseId": "call_1", "status": "success", "content": [{"text": "basic"}]}}]
    answer = ("gen_ai.choice", {"finish_reason": "end_turn", "message": [{"text": "It cannot be cancelled."}]})

    (run,) = runs(
        span("a", "chat", events=[asked, ("gen_ai.choice", {"message": use})]),
        span("b", "execute_tool", events=[("gen_ai.choice", {"message": [{"text": "basic"}], "id": "call_1"})]),
        span(
            "c",
            "chat",
            events=[
                asked,
                ("gen_ai.assistant.message", {"content": use}),
                ("gen_ai.tool.message", {"content": result}),
                answer,
            ],
        ),
    )

    assert (run.task, told(run)[0], told(run)[-1]) == (TASK, (LOOK, "basic", ""), (SAY, "", ""))
