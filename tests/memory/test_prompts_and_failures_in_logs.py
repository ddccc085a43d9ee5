"""What programs add to prompts, how they say that a command failed, and where they hide branches and sub-agents."""

import json
from pathlib import Path
from typing import Any

import pytest

from memory.intake.files import read_entries
from memory.transcripts.loading import read_log
from memory.transcripts.log import Transcript
from memory.transcripts.tasks import cut_session
from tests.real_runs import EXCERPTS


def read(*lines: dict[str, Any]) -> list[Transcript]:
    return read_log("\n".join(map(json.dumps, lines)).encode()).transcripts


def errors(run: Transcript) -> list[str]:
    return [step["error"] for step in run.steps if step["error"]]


def claude(kind: str, uuid: str, parent: str | None, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content, "id": f"m-{uuid}", "model": "claude-opus-4-6"}
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "cc-9", "message": message} | more


def codex(role: str, *texts: str) -> dict[str, Any]:
    parts = [{"type": "input_text" if role == "user" else "output_text", "text": text} for text in texts]
    return {"type": "response_item", "payload": {"type": "message", "role": role, "content": parts}}


def copilot(kind: str, **data: Any) -> dict[str, Any]:
    return {"type": kind, "data": data, "id": f"{kind}-{data}"}


def cursor(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "message": {"content": [{"type": "text", "text": text}]}}


def opencode(role: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"info": {"role": role, "id": f"msg-{role}"}, "parts": list(parts)}


META = {"type": "session_meta", "payload": {"id": "cx-9", "cwd": "/shop", "cli_version": "0.150.0"}}
GOAL = '<codex_internal_context source="goal">\n<objective>Make the tests pass</objective>\n</codex_internal_context>'


@pytest.mark.parametrize(
    ("prompt", "task"),
    [
        (
            "# Context from my IDE setup:\n\n## Open tabs:\n- a.py\n\n## My request for Codex:\nRound half up",
            "Round half up",
        ),
        ("# Context from my IDE setup:\n\n## Active file: a.py\n\n## My request:\nRound half up", "Round half up"),
        ("# Files mentioned by the user:\n\n## a.png: /tmp/a.png\n\n## My request for Codex:\nDraw it", "Draw it"),
        ("The context from my IDE setup is wrong", "The context from my IDE setup is wrong"),
        (GOAL, "Make the tests pass"),
        ("<skills_instructions>\nUse them.\n</skills_instructions>", ""),
    ],
)
def test_task_of_codex_is_what_a_person_asked(prompt: str, task: str) -> None:
    (run,) = read(META, codex("user", prompt), codex("assistant", "Done."))

    assert run.task == task


def test_prompt_after_a_goal_is_the_task() -> None:
    (run,) = read(META, codex("user", GOAL), codex("user", "Round half up"), codex("assistant", "Done."))

    assert run.task == "Round half up"


def test_oldest_rollout_of_codex_is_read_whole() -> None:
    head = {"id": "cx-1", "timestamp": "2025-08-18T01:16:13Z", "instructions": None}
    call = {"type": "function_call", "name": "shell", "arguments": '{"command": ["pytest"]}', "call_id": "c1"}
    output = json.dumps({"output": "1 failed", "metadata": {"exit_code": 1}})
    prompt = codex("user", "# Context from my IDE setup:\n\n## My request for Codex:\nFix it")["payload"]

    (run,) = read(head, prompt, call, {"type": "function_call_output", "call_id": "c1", "output": output})

    assert (run.external_id, run.task, errors(run), run.left_out) == ("cx-1", "Fix it", [output], [])


def test_task_of_a_session_that_begins_with_a_command_is_the_command() -> None:
    command = "<command-message>review is running…</command-message>\n<command-name>/review</command-name>"

    (run,) = read(
        claude("user", "u0", None, "<command-name>/clear</command-name>\n<command-args></command-args>"),
        claude("user", "u1", "u0", f"{command}\n<command-args>123</command-args>"),
        claude("user", "u2", "u1", "You are a reviewer.", isMeta=True),
        claude("assistant", "a1", "u2", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]),
    )

    assert run.task == "/review 123"


def queued(prompt: str, uuid: str, parent: str, **more: Any) -> dict[str, Any]:
    attachment = {"type": "queued_command", "prompt": prompt, **more}
    return {"type": "attachment", "uuid": uuid, "parentUuid": parent, "sessionId": "cc-9", "attachment": attachment}


STEERED = [
    claude("user", "u1", None, "Add the price to the export"),
    claude("assistant", "a1", "u1", [{"type": "tool_use", "id": "t1", "name": "Edit", "input": {}}]),
    claude("user", "u2", "a1", [{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}]),
    queued("and convert it to euros", "q1", "u2", commandMode="prompt", origin={"kind": "human"}),
    queued("<task-notification>ended</task-notification>", "q2", "q1", commandMode="task-notification"),
    claude("assistant", "a2", "q2", [{"type": "text", "text": "Done."}]),
]


def test_what_a_person_typed_while_claude_code_worked_is_heard() -> None:
    (run,) = read(*STEERED)

    assert [step["observation"] for step in run.steps] == [
        *("Add the price to the export", "ok", "and convert it to euros", ""),
    ]


def test_what_a_person_typed_meanwhile_is_no_task_of_its_own() -> None:
    session = cut_session("claude-code", STEERED, name="file")

    assert [task.prompt for task in session.tasks] == ["Add the price to the export"]


def test_history_before_a_compaction_whose_end_hangs_on_the_summary_is_kept() -> None:
    boundary = {"type": "system", "uuid": "cb", "parentUuid": None, "logicalParentUuid": "a2", "sessionId": "cc-9"}

    (run,) = read(
        claude("user", "u1", None, "Plan the move"),
        claude("assistant", "a1", "u1", "Step one is done."),
        claude("user", "u2", "a1", "Go on"),
        boundary,
        claude("user", "cs", "cb", "The person wants a move.", isCompactSummary=True),
        claude("assistant", "a2", "cs", "Step two is done."),
        claude("user", "u3", "a2", "And now?"),
        claude("assistant", "a3", "u3", "All is done."),
    )

    assert run.task == "Plan the move"
    assert [step["action"]["arguments"]["content"] for step in run.steps if step["action"]] == [
        *("Step one is done.", "Step two is done.", "All is done."),
    ]
    assert run.left_out == []


def test_sub_agents_without_a_name_are_runs_of_their_own() -> None:
    def call(uuid: str, parent: str, path: str) -> dict[str, Any]:
        use = {"type": "tool_use", "id": f"t-{uuid}", "name": "Grep", "input": {"path": path}}
        return claude("assistant", uuid, parent, [use], isSidechain=True)

    session, *others = read(
        claude("user", "u1", None, "Find who rounds"),
        claude("user", "x1", None, "Look in src", isSidechain=True),
        claude("user", "y1", None, "Look in lib", isSidechain=True),
        call("x2", "x1", "src"),
        call("y2", "y1", "lib"),
        claude("assistant", "a1", "u1", "Nobody does."),
    )

    assert [(run.task, run.parent_id, run.steps[-1]["action"]["arguments"]) for run in others] == [
        ("Look in src", "cc-9", {"path": "src"}),
        ("Look in lib", "cc-9", {"path": "lib"}),
    ]
    assert len({run.external_id for run in (session, *others)}) == 3


@pytest.mark.parametrize(
    "added",
    [
        {"content": "Read the skill.", "source": "skill-review"},
        {"content": "Report to me.", "source": "agent-a1"},
        {"content": "Go on.", "isAutopilotContinuation": True},
    ],
)
def test_prompt_that_nobody_typed_is_not_the_task_of_copilot(added: dict[str, Any]) -> None:
    (run,) = read(copilot("user.message", **added), copilot("user.message", content="Fix the parser", source="user"))

    assert run.task == "Fix the parser"
    assert added["content"] not in json.dumps(run.steps)


def test_copilot_says_by_exit_code_that_a_command_failed() -> None:
    (run,) = read(
        copilot("user.message", content="Fix the parser"),
        copilot("assistant.message", content="", toolRequests=[{"toolCallId": "t1", "name": "bash", "arguments": {}}]),
        copilot(
            "tool.execution_complete",
            toolCallId="t1",
            success=True,
            shellExecution={"exitCode": 1},
            result={"content": "1 failed"},
        ),
        copilot("assistant.message", content="I am a sub-agent") | {"agentId": "a1"},
    )

    assert errors(run) == ["1 failed"]
    assert len(run.steps) == 2


@pytest.mark.parametrize(
    "end",
    [
        copilot("session.shutdown", modelMetrics={"gpt-5": {"usage": {"inputTokens": 70, "outputTokens": 10}}}),
        copilot("session.model_change", newModel="gpt-5"),
    ],
    ids=["counted at the end", "counted by request"],
)
def test_tokens_of_copilot_are_counted_once(end: dict[str, Any]) -> None:
    request = copilot("session.usage_record", usage={"inputTokens": 70, "outputTokens": 10})

    (run,) = read(copilot("user.message", content="Fix the parser"), request, end)

    assert run.tokens == 80


def test_task_of_cursor_is_without_skills_and_what_cursor_asked_itself() -> None:
    skills = "<manually_attached_skills>\nSkill Name: plan\n</manually_attached_skills>"
    follow_up = "Perform any necessary follow-up actions in response to the subagent completion above."

    (run,) = read(
        cursor("user", "<user_info>\nOS: Linux\n</user_info>\n<rules>Be brief.</rules>"),
        cursor("user", f"{skills}\n\nPlan the release"),
        cursor("assistant", "Planned."),
        cursor("user", f"<user_query>\n{follow_up}\n</user_query>"),
    )

    assert (run.task, len(run.steps)) == ("Plan the release", 2)
    assert follow_up not in json.dumps(run.steps)


def test_opencode_says_by_exit_code_that_a_command_failed() -> None:
    state = {"status": "completed", "input": {"command": "pytest"}, "output": "1 failed", "metadata": {"exit": 1}}
    call = {"type": "tool", "tool": "bash", "callID": "c1", "state": state}
    messages = [opencode("user", {"type": "text", "text": "Fix the parser"}), opencode("assistant", call)]

    (run,) = read({"info": {"id": "oc-9"}, "messages": messages})

    assert errors(run) == ["1 failed"]


@pytest.mark.parametrize(("code", "failed"), [("0", []), ("2", ["Output: x\nExit Code: 2\nSignal: (none)"])])
def test_gemini_and_qwen_say_by_exit_code_that_a_command_failed(code: str, failed: list[str]) -> None:
    said = {"output": f"Output: x\nExit Code: {code}\nSignal: (none)"}
    answer = {"functionResponse": {"id": "c1", "name": "run_shell_command", "response": said}}
    call = {"id": "c1", "name": "run_shell_command", "args": {}}
    about = {"sessionId": "q", "parentUuid": None}

    (gemini,) = read(
        {"sessionId": "g", "projectHash": "h"},
        {"id": "1", "type": "user", "content": "Fix the parser"},
        {"id": "2", "type": "gemini", "content": "", "toolCalls": [{**call, "status": "success", "result": [answer]}]},
    )
    (qwen,) = read(
        {"uuid": "1", "type": "user", "message": {"parts": [{"text": "Fix the parser"}]}, **about},
        {"uuid": "2", "type": "assistant", "message": {"parts": [{"functionCall": call}]}, **about, "parentUuid": "1"},
        {"uuid": "3", "type": "tool_result", "message": {"parts": [answer]}, **about, "parentUuid": "2"},
    )

    assert (errors(gemini), errors(qwen)) == (failed, failed)


def test_pi_without_ids_is_not_taken_for_droid() -> None:
    def message(role: str, content: Any) -> dict[str, Any]:
        return {"type": "message", "timestamp": "2025-12-01T10:00:00Z", "message": {"role": role, "content": content}}

    (run,) = read(
        {"type": "session", "id": "pi-9", "timestamp": "2025-12-01T10:00:00Z", "cwd": "/shop"},
        message("user", "Fix the parser"),
        message("assistant", [{"type": "toolCall", "id": "c1", "name": "read", "arguments": {"path": "a"}}]),
        message("toolResult", "def parse"),
    )

    assert (run.format, run.external_id, run.steps[-1]["observation"], run.left_out) == ("pi", "pi-9", "def parse", [])


@pytest.mark.parametrize("result", [{"is_error": True}, {"extra": {"is_error": True}}])
def test_result_of_atif_that_is_an_error_is_one(result: dict[str, Any]) -> None:
    call = {"tool_call_id": "c1", "function_name": "bash", "arguments": {}}
    observation = {"results": [{"source_call_id": "c1", "content": "1 failed", **result}]}
    asked = {"step_id": 1, "source": "user", "message": "Fix the parser"}
    step = {"step_id": 2, "source": "agent", "message": "", "tool_calls": [call], "observation": observation}

    (run,) = read({"schema_version": "ATIF-v1.6", "agent": {"name": "a"}, "steps": [asked, step]})

    assert errors(run) == ["1 failed"]


def droid(role: str, *blocks: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {"role": role, "content": list(blocks), **more}
    return {"type": "message", "id": f"{role}-{blocks}", "timestamp": "2026-01-01T00:00:00Z", "message": message}


def test_droid_hides_context_in_prompts_and_failures_in_results() -> None:
    output = "Error: Command failed (exit code: 1)\nls: /nope: No such file or directory"

    (run,) = read(
        {"type": "session_start", "id": "dr-9", "cwd": "/shop"},
        droid("user", {"type": "text", "text": "The repository is a shop."}, visibility="llm_only"),
        droid("user", {"type": "text", "text": "Fix the parser"}),
        droid("assistant", {"type": "tool_use", "id": "t1", "name": "Execute", "input": {"command": "ls /nope"}}),
        droid("user", {"type": "tool_result", "tool_use_id": "t1", "content": output}),
    )

    assert (run.task, errors(run)) == ("Fix the parser", [output])


@pytest.mark.parametrize("name", ["session.jsonl", "session.log"])
def test_log_that_powershell_wrote_is_read(name: str, tmp_path: Path) -> None:
    lines = "\r\n".join(map(json.dumps, STEERED))
    (tmp_path / name).write_bytes(lines.encode("utf-16"))

    (entry,) = read_entries(tmp_path / name)

    assert entry.data is not None
    assert entry.data["task"] == "Add the price to the export"
    assert read_log(lines.encode("utf-16")).transcripts == read_log(lines.encode()).transcripts


def test_folder_of_a_session_of_opencode_2_is_known() -> None:
    file = EXCERPTS / "programs" / "opencode" / "version_2.json"

    session = cut_session("opencode", [json.loads(file.read_text(encoding="utf-8"))], name="file")

    assert session.folder == "/srv/shop"
    assert [task.prompt for task in session.tasks] == ["Fix the failing test in test_round.py"]


def openhands(source: str, id: str, parent: str, said: str) -> dict[str, Any]:
    message = {"role": "user" if source == "user" else "assistant", "content": [{"type": "text", "text": said}]}
    return {"kind": "MessageEvent", "id": id, "parent_id": parent, "source": source, "llm_message": message}


def test_branch_of_openhands_that_was_gone_on_with_is_the_run() -> None:
    note = {"kind": "ConversationStateUpdateEvent", "id": "n1", "key": "execution_status", "value": "running"}

    (run,) = read(
        openhands("user", "e1", "__root__", "Fix the parser"),
        note,
        openhands("agent", "e2", "e1", "I delete it."),
        openhands("agent", "e3", "e1", "I repair it."),
        {**note, "id": "n2"},
    )

    assert [step["action"]["arguments"]["content"] for step in run.steps if step["action"]] == ["I repair it."]
    assert run.left_out == ["session: 1 events of abandoned branches"]


def test_openhands_says_by_exit_code_that_a_command_failed() -> None:
    said = {"kind": "TerminalObservation", "content": [{"type": "text", "text": "1 failed"}], "exit_code": 1}
    call = {"kind": "ActionEvent", "id": "e2", "tool_name": "terminal", "tool_call_id": "c1", "action": {}}
    result = {"kind": "ObservationEvent", "id": "e3", "action_id": "e2", "tool_call_id": "c1", "observation": said}

    (run,) = read(openhands("user", "e1", "__root__", "Fix the parser"), call, result)

    assert errors(run) == ["1 failed"]


@pytest.mark.parametrize(("more", "fails"), [({}, True), ({"exit_code_meaning": "No matches (not an error)"}, False)])
def test_hermes_says_by_exit_code_that_a_command_failed(more: dict[str, Any], fails: bool) -> None:
    said = json.dumps({"output": "1 failed", "exit_code": 1, "error": None, **more})
    call = {"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Fix the parser"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": said, "tool_call_id": "c1", "tool_name": "terminal"},
    ]

    (run,) = read({"session": {"id": "he-9", "source": "cli", "message_count": 3}, "messages": messages})

    assert errors(run) == ([said] if fails else [])


def test_thoughts_and_tokens_of_a_cursor_stream_are_kept() -> None:
    (run,) = read(
        {"type": "system", "subtype": "init", "session_id": "cu-9", "model": "auto"},
        {"type": "user", "session_id": "cu-9", **cursor("user", "Fix the parser")},
        {"type": "thinking", "subtype": "delta", "text": "Run ", "session_id": "cu-9"},
        {"type": "thinking", "subtype": "delta", "text": "it.", "session_id": "cu-9"},
        {"type": "thinking", "subtype": "completed", "session_id": "cu-9"},
        {"type": "tool_call", "subtype": "started", "call_id": "c1", "tool_call": {"shellToolCall": {"args": {}}}},
        {"type": "result", "usage": {"inputTokens": 70, "outputTokens": 10}, "session_id": "cu-9"},
    )

    assert (run.format, run.tokens, run.steps[-1]["thought"]) == ("cursor", 80, "Run it.")
