"""The logs of programs: their calls and results as others read them, and what of a session is its own."""

import inspect
import json
import re
import sys
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from memory.errors import UnreadableFile
from memory.intake.files import FileEntry, read_entries
from memory.intake.harbor import without_reports
from memory.transcripts.loading import read_log
from memory.transcripts.log import Transcript, UnreadableTranscript
from memory.transcripts.programs import READERS
from tests.real_runs import EXCERPTS

PROGRAMS = EXCERPTS / "programs"
DOCS = Path(__file__).parents[2] / "docs" / "integrations.md"
JUDGED = sorted(path.parent for path in PROGRAMS.rglob("expected.json"))


def read(name: str) -> list[Transcript]:
    return read_log((PROGRAMS / name).read_bytes()).transcripts


def calls(run: Transcript) -> list[tuple[str, Any]]:
    done = [step["action"] for step in run.steps if step["action"]]
    return [(action["name"], action["arguments"]) for action in done if action["name"] != "respond"]


@pytest.mark.parametrize("folder", JUDGED, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_calls_and_results_are_those_that_another_project_reads(folder: Path) -> None:
    records = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["records"]
    expected = [call for record in records for call in record.get("tool_calls", ())]
    results = {record["tool_call_id"]: record["content"] for record in records if record["role"] == "tool"}

    (run,) = read_log(next(folder.glob("input.*")).read_bytes()).transcripts

    assert calls(run) == [(call["name"], json.loads(call["args"])) for call in expected]
    answers = [step["error"] or step["observation"] for step in run.steps if step["action"]]
    assert [text for text in answers if text] == [text for call in expected if (text := results.get(call["id"], ""))]
    assert run.task.splitlines()[0] == next(r["content"] for r in records if r["role"] == "user").splitlines()[0]
    assert run.model == records[0].get("model", "")


def test_live_branch_of_claude_code_is_the_run() -> None:
    (run,) = read("claude-code/branches.jsonl")

    assert run.task == "List the old migrations"
    assert calls(run) == [("Bash", {"command": "ls billing/migrations"})]
    assert run.left_out == ["session: 4 messages of abandoned branches or of the parent session"]


def test_history_that_claude_code_writes_again_counts_once() -> None:
    (run,) = read("claude-code/compacted_twice.jsonl")

    assert [name for name, _ in calls(run)] == ["Bash", "Read", "Edit"]
    assert [step["thought"] for step in run.steps if step["thought"]] == ["I'll run it"]
    assert run.tokens == 45  # of the message with two calls once


def test_error_of_the_provider_is_neither_a_model_nor_an_answer() -> None:
    session, aside = read("claude-code/api_error_and_aside.jsonl")

    assert (session.model, session.steps[-1]["error"]) == ("claude-opus-4-6", "API Error: 400 invalid request")
    assert session.steps[-1]["action"] is None
    assert (aside.task, calls(aside), aside.parent_id) == ("What is TOML?", [], session.external_id)


@pytest.mark.parametrize(
    ("name", "task", "session", "parent"),
    [
        ("claude-code/fork.jsonl", "Rename it", "cc-5", "cc-1"),
        ("codex/fork.jsonl", "Now fix it", "0f", "0a"),
        ("codex/sub_agent.jsonl", "Look for other places that round", "0b", "0a"),
        ("opencode/reverted.json", "Fix the failing test in test_round.py", "oc-2", "oc-1"),
        ("pi/branches.jsonl", "Fix the failing test in test_round.py", "pi-2", "pi-1"),
        ("hermes/flat.json", "Fix the failing test in test_round.py", "he-2", "he-1"),
    ],
)
def test_session_of_another_session_names_it_and_has_its_own_task(
    name: str, task: str, session: str, parent: str
) -> None:
    (run,) = read(name)

    assert (run.task, run.external_id, run.parent_id) == (task, session, parent)


@pytest.mark.parametrize(
    "name",
    [
        "codex/rolled_back.jsonl",
        "copilot-cli/session.jsonl",
        "gemini-cli/session.jsonl",
        "hermes/flat.json",
        "opencode/reverted.json",
        "pi/branches.jsonl",
        "qwen-code/session.jsonl",
    ],
)
def test_what_was_taken_back_is_counted_and_not_told(name: str) -> None:
    (run,) = read(name)

    assert "Delete" not in json.dumps(run.steps)
    assert [left for left in run.left_out if re.search(r"\d+ (lines|events|messages|that)", left)]


def test_tools_of_goose_answer_once_and_its_summary_is_not_the_task() -> None:
    (session,), (compacted,) = read("goose/session.jsonl"), read("goose/compacted.jsonl")

    assert [step["observation"] for step in session.steps[2:4]] == ["The file rounding.py has been edited.", "1 passed"]
    assert "The person wants" not in json.dumps(compacted.steps)
    assert compacted.task == "Write the release notes"


def test_session_with_events_alone_is_read() -> None:
    (run,) = read("codex/events_only.jsonl")

    assert [name for name, _ in calls(run)] == ["shell", "apply_patch", "mcp__erl__get_lessons"]
    assert (run.steps[1]["thought"], run.steps[1]["error"]) == ("Run it first.", "1 failed")
    assert run.steps[-1]["action"] == {"name": "respond", "arguments": {"content": "Fixed."}}


def test_program_and_version_are_named_if_nothing_is_read() -> None:
    lines = [
        {"type": "session_meta", "payload": {"id": "1", "cli_version": "0.200.0"}},
        {"type": "event_msg", "payload": {"type": "turn_done"}},
    ]

    with pytest.raises(
        UnreadableTranscript, match=r"^Codex wrote this; it says cli_version 0\.200\.0, .* response_item"
    ):
        read_log("\n".join(map(json.dumps, lines)).encode())


def test_run_without_a_task_is_refused_with_the_reason(tmp_path: Path) -> None:
    said = [{"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}}]
    span = {"traceId": "t", "spanId": "a", "name": "invoke_agent shop", "attributes": said}
    file = tmp_path / "trace.json"
    file.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}))

    (entry,) = read_entries(file)

    assert entry.data is None
    assert entry.error.startswith("OpenTelemetry: this run, with 0 steps, does not say what it was asked to do.")


def test_download_that_says_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFile, match="no observation has an input or an output"):
        list(read_entries(PROGRAMS / "langfuse" / "download_without_inputs.json"))


def test_unknown_lines_are_one_error(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text("\n".join(json.dumps({"event": "login", "n": n, "version": "7"}) for n in range(40)))

    with pytest.raises(UnreadableFile, match=r"None of the 40 entries is a run\. The first: .*it says version 7"):
        list(read_entries(file))


@pytest.mark.parametrize("text", ["a\u0000b", "a\ud800b"])
def test_character_that_cannot_be_stored_is_replaced_and_named(text: str, tmp_path: Path) -> None:
    document = json.loads((PROGRAMS / "hermes/tool-calls/input.json").read_text())
    document["messages"][2]["content"] = text
    file = tmp_path / "session.json"
    file.write_text(json.dumps(document))

    (entry,) = read_entries(file)

    assert entry.data is not None
    assert entry.data["steps"][1]["observation"] in ("a\ufffdb", "a?b")
    assert entry.data["metadata"]["left_out"] == ["the file: characters that cannot be stored were replaced"]


def test_archive_of_inspect_is_read_as_its_json(tmp_path: Path) -> None:
    document = json.loads((PROGRAMS / "inspect/log.json").read_text())
    samples = document.pop("samples")
    archive = BytesIO()
    with ZipFile(archive, "w") as file:
        file.writestr("header.json", json.dumps(document))
        for sample in samples:
            file.writestr(f"samples/{sample['id']}_epoch_1.json", json.dumps(sample))
    path = tmp_path / "log.eval"
    path.write_bytes(archive.getvalue())

    entries = list(read_entries(path))

    assert entries == [
        FileEntry(place=entry.place, data=entry.data, format=entry.format)
        for entry in read_entries(PROGRAMS / "inspect" / "log.json")
    ]
    assert [(entry.data["score"], entry.data["outcome_source"]) for entry in entries if entry.data] == [
        (1.0, "environment"),
        (0.25, "environment"),
    ]


def test_archive_that_is_damaged_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "log.eval"
    file.write_bytes(b"PK\x03\x04 and no more")

    with pytest.raises(UnreadableFile, match="inspect log convert"):
        list(read_entries(file))


def test_trial_of_harbor_is_one_run_with_its_reward() -> None:
    files = without_reports(path for path in (PROGRAMS / "atif/job").rglob("*") if path.is_file())

    runs = [entry.data for file in files for entry in read_entries(file) if entry.data]

    assert [(run["external_id"], run["score"], run["outcome_source"], run["task_id"]) for run in runs] == [
        ("harbor-1", 1.0, "environment", "terminal-bench"),
        ("harbor-2", 0.0, "environment", "terminal-bench"),
    ]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_sample_of_a_program_is_owned_by_its_reader_alone(reader: Any) -> None:
    """So that no log is taken for another program's."""
    folders = {"Inspect": "inspect", "Pi": "pi"}
    folder = PROGRAMS / folders.get(reader.name, reader.name.lower().replace(" ", "-"))
    files = [
        file
        for file in folder.rglob("*.json*")
        if file.name in ("input.json", "input.jsonl") or "job" not in file.parts
    ]

    formats = {read_log(file.read_bytes()).format for file in files if file.name != "expected.json"}

    assert formats == {reader.name}


# Program, version or shape, and sample: the rows of the table in docs/integrations.md.
ROWS = [
    ("Claude Code", "one chain", "claude-code/tool-call/input.jsonl"),
    ("Claude Code", "2.1: an abandoned branch", "claude-code/branches.jsonl"),
    ("Claude Code", "2.1: compacted twice, a message on several lines", "claude-code/compacted_twice.jsonl"),
    ("Claude Code", "2.1: error of the provider, side question", "claude-code/api_error_and_aside.jsonl"),
    ("Claude Code", "2.1: fork with copies of its parent", "claude-code/fork.jsonl"),
    ("Claude Code", "sub-agent in its own file", "claude-code/subagent/input.jsonl"),
    ("Claude Code", "2.1: `--output-format stream-json`", "claude-code/stream.jsonl"),
    ("Codex", "rollout with `tool_search`", "codex/tool-calls/input.jsonl"),
    ("Codex", "0.44 rollout", "../transcripts/codex_rollout.jsonl"),
    ("Codex", "0.120: fork that repeats its parent", "codex/fork.jsonl"),
    ("Codex", "0.120: sub-agent with two `session_meta`", "codex/sub_agent.jsonl"),
    ("Codex", "0.120: turn that was undone", "codex/rolled_back.jsonl"),
    ("Codex", "0.147: only `item_completed`", "codex/events_only.jsonl"),
    ("Cursor", "agent transcript", "cursor/tool-calls/input.jsonl"),
    ("Cursor", "`cursor-agent` stream", "cursor/stream.jsonl"),
    ("Gemini CLI", "JSON, until 2026", "gemini-cli/tool-calls/input.json"),
    ("Gemini CLI", "0.61: JSON Lines with a rewind", "gemini-cli/session.jsonl"),
    ("Goose", "before 1.10: JSON Lines", "goose/session.jsonl"),
    ("Goose", "before 1.10: compacted, an error of the provider", "goose/compacted.jsonl"),
    ("Qwen Code", "0.15: tree", "qwen-code/session.jsonl"),
    ("OpenCode", "1.2 export", "opencode/tool-calls/input.json"),
    ("OpenCode", "1.18 export with a revert", "opencode/reverted.json"),
    ("OpenCode", "2.0 export", "opencode/version_2.json"),
    ("Copilot CLI", "prompt in a hook", "copilot-cli/tool-calls/input.jsonl"),
    ("Copilot CLI", "1.0: sub-agent, rewind", "copilot-cli/session.jsonl"),
    ("Droid", "session", "droid/happy-path/input.jsonl"),
    ("Droid", "`droid exec` stream", "droid/stream.jsonl"),
    ("OpenHands", "1.x events", "openhands/tool-calls/input.json"),
    ("OpenHands", "0.x events", "openhands/before_1_0.json"),
    ("Letta Code", "transcript", "letta-code/tool-calls/input.jsonl"),
    ("Hermes", "session and messages", "hermes/tool-calls/input.json"),
    ("Hermes", "0.19 export with an undone message", "hermes/flat.json"),
    ("Hermes", "rows of messages", "hermes/rows.json"),
    ("Hermes", "training samples", "hermes/samples.jsonl"),
    ("Pi", "version 3", "pi/tool-calls/input.jsonl"),
    ("Pi", "version 3: branches, parent", "pi/branches.jsonl"),
    ("OpenClaw", "version 7", "openclaw/tool-calls/input.jsonl"),
    ("OMP", "version 3", "omp/tool-calls/input.jsonl"),
    ("ATIF", "1.7", "atif/tool-calls/input.json"),
    ("ATIF", "1.7 with a sub-agent inside", "atif/sub_agent.json"),
    ("Harbor, Terminal-Bench", "trial: ATIF 1.6 and `result.json`", "atif/job/fix-rounding__1/agent/trajectory.json"),
    ("Inspect", "log as JSON", "inspect/log.json"),
    ("Inspect", "0.3.285: `.eval`, packed with Zstandard", "inspect/written_by_inspect.eval"),
    ("tau²-bench", "results", "../transcripts/tau2_bench.json"),
    ("tau²-bench", "one simulation", "tau2/simulation.json"),
    ("tau-bench", "results", "../tau_airline/native_sample.json"),
    ("SWE-agent", "trajectory", "../transcripts/swe_agent_test_repo.traj"),
    ("AgentDojo", "run", "../transcripts/agentdojo.json"),
    ("ADK", "session", "../transcripts/adk_session.json"),
    ("CrewAI", "output log", "../transcripts/crewai_log.json"),
    ("Langfuse", "download `{trace, observations}`", "langfuse/download.json"),
    ("Langfuse", "trace", "../transcripts/langfuse_trace.json"),
    ("LangSmith", "runs", "../transcripts/langsmith_runs.jsonl"),
    ("OpenAI Agents SDK", "trace", "../transcripts/agents_sdk_trace.jsonl"),
    ("OpenTelemetry", "GenAI, JSON", "../transcripts/otlp_genai.json"),
    ("OpenTelemetry", "OpenInference", "../transcripts/otlp_openinference.json"),
    ("OpenAI chat", "messages", "../transcripts/openai_chat.json"),
    ("OpenAI Responses", "items", "../transcripts/openai_responses_items.json"),
    ("Anthropic", "messages", "../transcripts/anthropic_messages.json"),
    ("Gemini", "contents", "../transcripts/gemini_contents.json"),
    ("LangChain", "`messages_to_dict`", "../transcripts/langchain_messages_to_dict.json"),
    ("pydantic-ai", "messages", "../transcripts/pydantic_ai.json"),
]


def count(run: dict[str, Any]) -> list[int]:
    """Return the steps of a run, its calls, those with a result, and the errors."""
    steps = run["steps"]
    done = [step for step in steps if step["action"] and step["action"]["name"] != "respond"]
    answered = [step for step in done if step["observation"] or step["error"]]
    return [len(steps), len(done), len(answered), sum(bool(step["error"]) for step in steps)]


def row(program: str, shape: str, name: str) -> str:
    entries = list(read_entries(PROGRAMS / name))
    runs = [entry.data for entry in entries if entry.data]
    assert len(runs) == len(entries)
    figures = [str(sum(numbers)) for numbers in zip(*(count(run) for run in runs), strict=True)]
    outcomes = {run.get("outcome") or "" for run in runs}
    parents = sum("parent_id" in run for run in runs)
    left_out = sum(len(run.get("metadata", {}).get("left_out", ())) for run in runs)
    tasks = sum(bool(run["task"].strip()) for run in runs)
    cells = [program, shape, str(len(runs)), str(tasks), *figures, ", ".join(sorted(outcomes - {""})) or "–"]
    return f"| {' | '.join([*cells, str(parents), str(left_out)])} |"


def test_table_of_what_is_read_is_that_in_the_docs() -> None:
    """On a difference, the table that the docs should have is what is printed."""
    table = "\n".join(row(*cells) for cells in ROWS)

    assert table in DOCS.read_text(encoding="utf-8"), table


def test_table_has_every_reader_and_every_sample() -> None:
    named = {program for program, _, _ in ROWS}
    files = {file.relative_to(PROGRAMS).as_posix() for file in PROGRAMS.rglob("*.json*")}
    others = {file for file in files if file.endswith(("expected.json", "result.json", "config.json"))}
    others |= {"langfuse/download_without_inputs.json", "atif/job/fix-rounding__2/agent/trajectory.json"}

    assert {reader.name for reader in READERS} <= named
    assert files - others <= {name for _, _, name in ROWS}


# What is deep in a session is beside these: its branches, its forks, the events of a version.
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_reader_is_short_enough_to_be_written_in_ten_minutes(reader: Any) -> None:
    lines = inspect.getsource(sys.modules[reader.read.__module__]).splitlines()

    assert len([line for line in lines if line.strip()]) <= 80
