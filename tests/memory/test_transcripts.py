"""Logs in other formats: what is read from each sample, and why each broken one is refused."""

from pathlib import Path
from typing import Any

import pytest

from memory.errors import UnreadableFile
from memory.intake.files import read_entries
from memory.transcripts.formats import read_document
from memory.transcripts.log import Log, UnreadableTranscript
from memory.transcripts.messages import read_messages
from memory.transcripts.sessions import read_swe_agent
from tests.real_runs import EXCERPTS, TAU_NATIVE

SAMPLES = EXCERPTS / "transcripts"
CANCEL = "Cancel my reservation EHGLP3."
TOOLS = ["get_reservation", "cancel_reservation"]

# Of the first run of each file: what the file was taken for, task, steps, tool calls, errors, outcome, tools on offer,
# model and tokens.
READ: dict[str, tuple[str, str, int, int, int, str, list[str], str, int | None]] = {
    "openai_chat.json": ("OpenAI chat: 1 run", CANCEL, 4, 2, 0, "", TOOLS, "gpt-4o", None),
    "openai_chat_lines.jsonl": ("OpenAI chat: 1 run", CANCEL, 4, 2, 0, "failure", [], "", None),
    "openai_chat_logged_call.json": (
        "OpenAI chat: 1 run",
        "What does this ticket say?\n[image https://example.com/ticket.png]",
        2,
        1,
        0,
        "",
        TOOLS,
        "gpt-4o-2024-08-06",
        137,
    ),
    "openai_responses_items.json": ("OpenAI Responses: 1 run", CANCEL, 4, 2, 0, "", [], "", None),
    "openai_responses_logged_call.json": (
        "OpenAI Responses: 1 run",
        CANCEL,
        4,
        2,
        0,
        "",
        ["get_reservation", "web_search"],
        "gpt-5-2025-08-07",
        380,
    ),
    "openai_response_object.json": (
        "OpenAI Responses: 1 run",
        "Who won the 2022 World Cup?",
        3,
        1,
        0,
        "",
        ["web_search"],
        "gpt-5-2025-08-07",
        320,
    ),
    "anthropic_messages.json": (
        "Anthropic: 1 run",
        f"{CANCEL}\n[image image/png, 70 bytes, sha256 6b7fa434f92a8b80]",
        4,
        2,
        1,
        "failure",
        TOOLS,
        "claude-sonnet-4-5",
        None,
    ),
    "anthropic_logged_call.json": (
        "Anthropic: 1 run",
        f"{CANCEL}\n[image image/png, 70 bytes, sha256 6b7fa434f92a8b80]",
        4,
        2,
        1,
        "",
        TOOLS,
        "claude-sonnet-4-5-20250929",
        2598,
    ),
    "gemini_contents.json": ("Gemini: 1 run", CANCEL, 4, 2, 1, "", TOOLS, "gemini-2.5-flash", None),
    "langchain_dumpd.json": ("LangChain: 1 run", CANCEL, 4, 2, 1, "", [], "gpt-4o", 120),
    "langchain_messages_to_dict.json": ("LangChain: 1 run", CANCEL, 4, 2, 1, "", [], "gpt-4o", 120),
    "langgraph_state.json": ("LangChain: 1 run", CANCEL, 4, 2, 1, "", [], "gpt-4o", 120),
    "agents_sdk_items.json": ("OpenAI Responses: 1 run", CANCEL, 3, 1, 0, "", [], "", None),
    "agents_sdk_trace.jsonl": ("OpenAI Agents SDK: 6 spans, 1 run", CANCEL, 4, 2, 1, "", [], "gpt-4o", 360),
    "pydantic_ai.json": ("pydantic-ai: 1 run", CANCEL, 4, 2, 1, "", [], "gpt-4o", 120),
    "langfuse_trace.json": ("Langfuse: 5 observations, 1 run", CANCEL, 4, 2, 1, "", TOOLS, "gpt-4o", 510),
    "langfuse_observations.json": ("Langfuse: 7 observations, 2 runs", CANCEL, 4, 2, 1, "", TOOLS, "gpt-4o", 510),
    "langsmith_runs.jsonl": ("LangSmith: 6 runs, 1 run", CANCEL, 4, 2, 1, "", TOOLS, "gpt-4o", 510),
    "langsmith_tree.json": ("LangSmith: 6 runs, 1 run", CANCEL, 4, 2, 1, "", TOOLS, "gpt-4o", 510),
    "otlp_genai.json": ("OpenTelemetry: 6 spans, 1 run", CANCEL, 4, 2, 1, "", TOOLS, "gpt-4o-2024-08-06", 510),
    "otlp_genai.pb": ("OpenTelemetry: 6 spans, 1 run", CANCEL, 4, 2, 1, "", TOOLS, "gpt-4o-2024-08-06", 510),
    "otlp_collector.jsonl": ("OpenTelemetry: 6 spans, 1 run", CANCEL, 4, 2, 1, "", TOOLS, "gpt-4o-2024-08-06", 510),
    "otlp_openinference.json": ("OpenTelemetry: 6 spans, 1 run", CANCEL, 4, 2, 1, "", TOOLS, "gpt-4o", 360),
    "otlp_subagent.json": ("OpenTelemetry: 6 spans, 2 runs", CANCEL, 3, 1, 0, "", [], "gpt-4o-2024-08-06", None),
    "otel_console.log": ("OpenTelemetry: 6 spans, 1 run", CANCEL, 4, 2, 1, "", TOOLS, "gpt-4o-2024-08-06", 510),
    "claude_code_session.jsonl": (
        "Claude Code: 13 lines, 2 runs",
        "Fix the failing test in test_round.py",
        4,
        2,
        1,
        "",
        [],
        "claude-sonnet-4-5-20250929",
        45,
    ),
    "codex_rollout.jsonl": (
        "Codex: 13 lines, 1 run",
        "Fix the failing test in test_round.py",
        4,
        2,
        1,
        "",
        [],
        "gpt-5-codex",
        1000,
    ),
    "tau2_bench.json": ("tau²-bench: 1 run", CANCEL, 4, 2, 1, "failure", [], "gpt-4.1-mini", 2900),
    "agentdojo.json": (
        "AgentDojo: 1 run",
        "Book Le Marais Boutique for two nights.",
        4,
        2,
        1,
        "success",
        [],
        "",
        None,
    ),
    "adk_session.json": ("ADK: 1 run", CANCEL, 4, 2, 1, "", [], "gemini-2.5-flash", 490),
    "crewai_log.json": ("CrewAI: 4 entries, 1 run", "Find three trends in solar power.", 2, 2, 0, "", [], "", None),
    "own_run.json": ("ERL: 1 run", CANCEL, 3, 2, 1, "failure", TOOLS, "gpt-4o", 510),
    "own_runs.jsonl": ("ERL: 1 run", CANCEL, 3, 2, 1, "failure", TOOLS, "gpt-4o", 510),
}
BROKEN = {
    "unknown_object.json": "This is not in a known format: an object with the members event, user.",
    "part_without_type.json": "messages[0].content[0] must be a content part, an object with type.",
    "otlp_without_spans.json": "resourceSpans holds no span.",
    "truncated.pb": "truncated.pb is not readable. The body is not an OTLP trace request in protobuf.",
    "truncated.json": "truncated.json is not readable JSON.",
    "lines_with_a_broken_one.jsonl": "line 2: Expecting value",
    "steps_are_a_text.json": "entry 1: steps must be a list of steps or of chat messages, not a string.",
    "empty.json": "The log is empty.",
}

LEFT_OUT = {
    "unknown_role.json": "messages[1]: role must be one of system, ",
    "call_without_name.json": "messages[1].tool_calls[0]: function.name must be the tool's name",
    "content_is_a_number.json": "messages[1]: content must be a string.",
    "langchain_unknown_type.json": "messages[1]: is a LangChain message of the unknown type 'SpeechMessage'.",
    "tau_reward_too_large.json": "reward: 3.5, and a score lies between 0 and 1",
}


def name_of(tool: Any) -> str:
    return str(tool if isinstance(tool, str) else tool.get("function", tool).get("name", tool.get("type")))


@pytest.mark.parametrize("name", READ)
def test_sample_is_read_with_task_steps_outcome_and_tools(name: str) -> None:
    first = next(read_entries(SAMPLES / name))
    run, steps = first.data or {}, (first.data or {}).get("steps", [])

    assert (
        first.format,
        run.get("task"),
        len(steps),
        sum(step["action"] is not None and step["action"]["name"] != "respond" for step in steps),
        sum(bool(step["error"]) for step in steps),
        run.get("outcome", ""),
        [name_of(tool) for tool in run.get("tools", ())],
        run.get("model", ""),
        run.get("tokens"),
    ) == READ[name]


@pytest.mark.parametrize(("name", "calls"), [("swe_agent_ctf.traj", 4), ("swe_agent_test_repo.traj", 5)])
def test_real_swe_agent_run_is_read(name: str, calls: int) -> None:
    (entry,) = read_entries(SAMPLES / name)

    assert entry.data is not None
    assert entry.data["task"].startswith("We're currently solving the following")
    assert len([step for step in entry.data["steps"] if step["action"]]) == calls
    assert entry.data["metadata"]["exit_status"] == "submitted"
    assert "outcome" not in entry.data  # submitting does not say whether the patch is right


@pytest.mark.parametrize(
    ("document", "family"),
    [
        ({"replay_config": {"problem_statement": {"id": "django__django-11099"}}}, "django/django"),
        ({"replay_config": '{"problem_statement": {"id": "SWE-agent__test-repo-i1"}}'}, "SWE-agent/test-repo"),
        ({"replay_config": {"env": {"repo": {"github_url": "https://github.com/o/r/"}}}}, "o/r"),
        (
            {"trajectory": [{"state": '{"working_dir": "/marshmallow-code__marshmallow"}'}]},
            "marshmallow-code/marshmallow",
        ),
        ({"trajectory": [{"state": {"working_dir": "/__home__ctf__crypto__eps"}}]}, "swe-agent"),
    ],
)
@pytest.mark.parametrize("environment", ["main", "swe_main"])
def test_family_of_swe_agent_is_the_repository(document: dict[str, Any], family: str, environment: str) -> None:
    assert read_swe_agent({"environment": environment, **document}).task_id == family


def test_every_sample_has_a_row() -> None:
    files = {path.name for path in SAMPLES.iterdir() if path.suffix and path.suffix != ".md"}

    assert files == {*READ, "swe_agent_ctf.traj", "swe_agent_test_repo.traj"}
    assert TAU_NATIVE.exists()  # tested in test_trajectory_files


@pytest.mark.parametrize("name", BROKEN)
def test_broken_log_is_refused_with_place_and_reason(name: str) -> None:
    try:
        said = [f"{e.place}: {e.error}" for e in read_entries(SAMPLES / "broken" / name) if e.error]
    except UnreadableFile as refusal:
        said = [str(refusal)]

    assert len(said) == 1
    assert said[0].startswith(BROKEN[name])


@pytest.mark.parametrize("name", LEFT_OUT)
def test_part_that_cannot_be_read_leaves_the_rest_of_the_log(name: str) -> None:
    (entry,) = read_entries(SAMPLES / "broken" / name)

    assert entry.data is not None
    assert entry.data["metadata"]["left_out"][0].startswith(LEFT_OUT[name])


def test_agent_called_by_an_agent_is_a_run_of_its_own() -> None:
    caller, called = read_entries(SAMPLES / "otlp_subagent.json")

    assert caller.data is not None
    assert called.data is not None
    assert called.data["task"] == "Can basic economy be cancelled?"
    assert called.data["agent"] == "policy"
    assert called.data["external_id"].startswith(caller.data["external_id"])


def test_call_outside_the_longest_conversation_is_a_step_at_its_time() -> None:
    asked = [{"role": "user", "content": "Hi"}]
    spans = [
        {"id": "a", "traceId": "t", "startTime": "3", "type": "GENERATION", "input": asked, "output": "Ho"},
        {"id": "b", "traceId": "t", "startTime": "2", "type": "TOOL", "name": "f", "input": {"q": "x"}, "output": "y"},
    ]

    (run,) = read_document(spans).transcripts

    assert [(step["index"], step["action"], step["observation"]) for step in run.steps] == [
        (1, None, "Hi"),
        (2, {"name": "f", "arguments": {"q": "x"}}, "y"),
        (3, {"name": "respond", "arguments": {"content": "Ho"}}, ""),
    ]


def test_time_without_zone_is_taken_as_utc() -> None:
    (run,) = read_document(
        [{"run_type": "tool", "id": "1", "name": "f", "start_time": "2025-06-01T10:00:00"}]
    ).transcripts

    assert run.started_at == "2025-06-01T10:00:00+00:00"


@pytest.mark.parametrize(
    "output",
    [
        '{"output": "no", "metadata": {"exit_code": 1}}',
        "Exit code: 2\nWall time: 0.1 seconds\nOutput:\nno",
        "Chunk ID: 5f\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\nno",
    ],
)
def test_exit_code_of_a_command_is_an_error(output: str) -> None:
    log = Log()
    call = {"type": "function_call", "call_id": "1", "name": "shell", "arguments": "{}"}
    read_messages(log, [call, {"type": "function_call_output", "call_id": "1", "output": output}], "items")

    assert log.steps[0]["error"] == output


class CountedText(str):
    """A text that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedText.compared += 1
        return super().__eq__(other)


def test_results_in_any_order_are_found_without_looking_through_all_calls() -> None:
    log = Log()
    ids = [CountedText(f"call {number}") for number in range(2000)]
    for each in ids:
        log.call("search", {}, id=each)
    CountedText.compared = 0

    for each in reversed(ids):
        log.result(f"answer of {each}", id=each)

    assert CountedText.compared <= 10 * len(ids)
    assert [step["observation"] for step in log.transcript().steps] == [f"answer of {each}" for each in ids]


def test_result_without_an_id_answers_the_first_open_call_of_its_name() -> None:
    log = Log()
    for name, id in (("a", "1"), ("b", "2"), ("a", "3"), ("b", "4")):
        log.call(name, {}, id=id)
    log.result("first", id="1")
    log.result("third", name="a")
    log.result("second")
    log.result("fourth", name="b")
    log.result("nothing open", id="1")

    steps = log.transcript().steps
    assert [step["observation"] for step in steps] == ["first", "second", "third", "fourth", "nothing open"]


def test_all_that_a_user_says_in_a_row_is_one_observation() -> None:
    log = Log()
    log.hear("Do it")
    log.say("Which?")
    for text in ("This", "", "or that"):
        log.hear(text)

    assert log.transcript().steps[-1]["observation"] == "This\n\n\n\nor that"


def test_log_with_too_many_steps_is_refused_while_it_is_read() -> None:
    messages = [{"role": "assistant", "content": "x"}] * 20_002

    with pytest.raises(UnreadableTranscript, match="more than 20,000 steps"):
        read_document(messages)


@pytest.mark.parametrize(
    "document",
    [
        {"messages": [{"role": "user", "content": "x", "timestamp": 10**400}]},
        {"messages": [{"role": "assistant", "content": "x"}], "usage": {"total_tokens": 1e308 * 10}},
        {"messages": [{"role": "assistant", "content": "x"}], "score": 10**400},
        [{"type": "function_call_output", "call_id": "1", "output": f"Exit code: {'9' * 5000}\nx"}],
        [{"id": "1", "traceId": "t", "type": "GENERATION", "usage": {"total": 10**400}}],
        [{"id": "1", "trace_id": "t", "run_type": "llm", "start_time": "x", "total_tokens": 1e308 * 10}],
        {"trajectory": [], "info": {"model_stats": {"tokens_sent": 1e308, "tokens_received": 1e308}}},
        {"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "t", "startTimeUnixNano": "9" * 6000}]}]}]},
        {
            "resourceSpans": [
                {"scopeSpans": [{"spans": [{"attributes": [{"key": "x", "value": {"intValue": "9" * 6000}}]}]}]}
            ]
        },
    ],
)
def test_numbers_that_are_too_large_are_no_fault_of_the_reader(document: Any) -> None:
    assert len(read_document(document).transcripts) == 1


def test_line_with_a_number_of_too_many_digits_says_so(tmp_path: Path) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text(f'{{"task": "x", "score": {"9" * 6000}}}\n{{"task": "Book a flight", "steps": []}}\n')

    first, second = read_entries(file)

    assert "A number has too many digits." in first.error
    assert second.data is not None
