"""What agents were told before their runs: kept once, without secrets, and as long as a run needs it."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from memory.intake.recording import record_trajectory
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.runs.models import SystemPrompt, Trajectory
from memory.transcripts.formats import read_document
from memory.transcripts.opentelemetry import spans_of_otlp
from memory.transcripts.traces import transcripts_of
from memory.trust.erasure import erase_trajectory
from tests.factories import make_project

AGENT = Actor(label="key:agent")
POLICY = "You help customers of an airline. Basic economy flights cannot be modified."
CHAT = [
    {"role": "system", "content": POLICY},
    {"role": "user", "content": "Change my flight."},
    {"role": "assistant", "content": "I cannot."},
]
TAU = Path(__file__).parent.parent / "data" / "tau_airline" / "native_sample.json"


def record(project: Project, **data: Any) -> Trajectory:
    return record_trajectory(project, data={"task": "Change my flight.", **data}, by=AGENT, reflect=False).trajectory


def text_of(run: Trajectory) -> str:
    return run.system_prompt.text if run.system_prompt else ""


@pytest.mark.django_db
def test_system_prompt_of_two_runs_is_kept_once() -> None:
    project = make_project()

    runs = [record(project, system_prompt=POLICY), record(project, steps=CHAT)]

    assert list(map(text_of, runs)) == [POLICY, POLICY]
    assert SystemPrompt.objects.filter(project=project).count() == 1


@pytest.mark.django_db
def test_same_system_prompt_in_another_project_is_another_row() -> None:
    runs = [record(make_project(), system_prompt=POLICY) for _ in range(2)]

    assert runs[0].system_prompt_id != runs[1].system_prompt_id


@pytest.mark.django_db
def test_system_prompt_is_redacted_before_it_is_written() -> None:
    run = record(make_project(), system_prompt="The key is ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8.")

    assert "ghp_a1B2" not in text_of(run)
    assert sum(run.redactions.values()) == 1


@pytest.mark.django_db
def test_system_prompt_is_kept_without_the_lessons_in_it() -> None:
    project = make_project()
    lessons = "<lessons>\nLessons from earlier runs, each approved for use in these words.\n1. [H-1] …\n</lessons>"

    run = record(project, system_prompt=f"{lessons}\n\n{POLICY}")

    assert text_of(run) == POLICY


@pytest.mark.django_db
def test_system_prompt_goes_with_the_last_run_that_was_told_it() -> None:
    project = make_project()
    first, last = record(project, system_prompt=POLICY), record(project, system_prompt=POLICY)

    erase_trajectory(first, by=AGENT)
    assert SystemPrompt.objects.filter(project=project).count() == 1
    erase_trajectory(last, by=AGENT)
    assert not SystemPrompt.objects.filter(project=project).exists()


@pytest.mark.django_db
def test_run_cannot_refer_to_a_system_prompt_of_another_project() -> None:
    other, run = record(make_project(), system_prompt=POLICY), record(make_project())

    Trajectory.objects.filter(pk=run.pk).update(system_prompt=other.system_prompt_id)

    with pytest.raises(Exception, match="memory_trajectory_system_prompt_id_within"), connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


@pytest.mark.django_db
def test_log_that_is_recorded_again_with_its_system_prompt_changes_nothing() -> None:
    project = make_project()
    before = record(project, external_id="run-1")

    again = record(project, external_id="run-1", system_prompt=POLICY, tools=["search"])

    assert again == before
    assert not SystemPrompt.objects.filter(project=project).exists()


def test_log_of_a_benchmark_has_the_policy_of_the_agent() -> None:
    run = read_document(json.loads(TAU.read_text())[0]).transcripts[0]

    assert run.system_prompt.startswith("# Airline Agent Policy")
    assert "Basic economy flights cannot be modified" in run.system_prompt


@pytest.mark.parametrize(
    "document",
    [
        {"system": POLICY, "messages": CHAT[1:]},
        {"system": [{"type": "text", "text": POLICY}], "messages": CHAT[1:]},
        {"request": {"instructions": POLICY, "input": CHAT[1:2]}, "response": {"output": CHAT[2:]}},
        {
            "systemInstruction": {"parts": [{"text": POLICY}]},
            "contents": [{"role": "user", "parts": [{"text": "Go."}]}],
        },
        {
            "schema_version": "ATIF-v1.2",
            "agent": {"name": "a", "tool_definitions": [{"name": "search"}]},
            "steps": [{"source": "system", "message": POLICY}, {"source": "agent", "message": "Done."}],
        },
        {"session": {"source": "tui", "system_prompt": POLICY}, "messages": CHAT[1:]},
        {
            "environment": "marshmallow",
            "history": CHAT[:2],
            "trajectory": [{"action": "ls", "observation": "a.py", "thought": ""}],
        },
    ],
    ids=["anthropic", "parts", "responses", "gemini", "atif", "hermes", "swe-agent"],
)
def test_log_of_a_call_or_session_has_its_system_prompt(document: Any) -> None:
    assert read_document(document).transcripts[0].system_prompt == POLICY


@pytest.mark.parametrize(
    ("lines", "told", "tools"),
    [
        (
            [
                {"kind": "SystemPromptEvent", "id": "1", "source": "agent", "system_prompt": {"text": POLICY}}
                | {"tools": [{"type": "function", "function": {"name": "terminal"}}]},
                {"kind": "MessageEvent", "id": "2", "source": "user", "llm_message": {"content": "Go."}},
            ],
            POLICY,
            [{"type": "function", "function": {"name": "terminal"}}],
        ),
        (
            [
                {"type": "session_meta", "payload": {"id": "s", "base_instructions": {"text": POLICY}}}
                | {"timestamp": "2026-01-02T03:04:05Z"},
                {"type": "response_item", "payload": {"type": "message", "role": "user", "content": "Go."}},
            ],
            POLICY,
            [],
        ),
        (
            [
                {"type": "system", "subtype": "init", "session_id": "s", "tools": ["Bash", "Read"]},
                {"type": "user", "session_id": "s", "message": {"role": "user", "content": "Go."}},
            ],
            "",
            ["Bash", "Read"],
        ),
    ],
    ids=["openhands", "codex", "claude-code"],
)
def test_session_of_a_program_has_what_it_was_told_and_offered(lines: Any, told: str, tools: Any) -> None:
    run = read_document(lines).transcripts[0]

    assert (run.system_prompt, run.tools) == (told, tools)


def test_trace_has_what_the_model_was_told() -> None:
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": POLICY}]),
        "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Go."}]}]),
    }
    span = {
        "traceId": "t",
        "spanId": "s",
        "attributes": [{"key": name, "value": {"stringValue": value}} for name, value in attributes.items()],
    }

    (run,) = transcripts_of(spans_of_otlp({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}), format="otel")

    assert run.system_prompt == POLICY


def test_what_is_no_tool_in_a_log_is_left_out() -> None:
    run = read_document({"messages": CHAT, "tools": [{"name": "search"}, {"name": ""}, 4, None]}).transcripts[0]

    assert run.tools == [{"name": "search"}]
