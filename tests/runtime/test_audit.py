"""What people decide about agents is in the audit chain, and cannot be changed without a trace."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from memory.projects.actors import Actor
from memory.trust.audit import verify_audit
from memory.trust.erasure import erase_trajectory
from memory.trust.models import AuditEntry
from runtime.approvals import decide_effect, expire_approvals
from runtime.definitions.storage import approve_tool, save_tool
from runtime.definitions.values import ToolDefinition
from runtime.models.effects import Approval, Effect
from runtime.models.runs import Run
from runtime.revisions import AgentSpec, archive_agent, revise_agent
from runtime.runs import cancel_run
from tests.factories import make_project
from tests.runtime.running import BY, Script, check_deferred, go_on, make_agent, make_run

pytestmark = pytest.mark.django_db
BEN = Actor(label="user:ben")


def entries(begin: str) -> list[tuple[str, str]]:
    """Return the kinds and actors of the entries of a kind, in order."""
    check_deferred()
    rows = AuditEntry.objects.filter(kind__startswith=begin).order_by("number")
    return [(entry.kind, json.loads(entry.content)["actor"]) for entry in rows]


def faults() -> list[str]:
    check_deferred()
    return [fault.message.partition(": ")[2] for fault in verify_audit().faults]


def waiting() -> tuple[Run, Effect]:
    """Make a run that waits for the approval of a message."""
    rules = ({"type": "requires_approval", "tool": "send_message"},)
    run = make_run(make_agent(tools=["send_message"], rules=rules))
    go_on(run, Script([("send_message", {"message": "Secret words"})]))
    return run, run.effects.get()


def decide(effect: Effect, decision: str, **said: Any) -> None:
    decide_effect(effect, decision=decision, arguments_sha256=effect.arguments_sha256, by=BEN, **said)


def make_tool(description: str = "Say it again.") -> ToolDefinition:
    text = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return ToolDefinition(
        name="echo", description=description, parameters=text, source="def echo(text: str) -> str:\n    return text\n"
    )


@pytest.mark.parametrize(
    ("decision", "said", "kinds"),
    [
        ("approve", {}, ["call_approved"]),
        ("reject", {"reason": "Private reason"}, ["call_rejected"]),
        ("answer", {"answer": "Private reason"}, ["call_answered"]),
        ("edit", {"arguments": {"message": "Private reason"}}, ["call_edited", "call_approved"]),
    ],
)
def test_decision_leaves_an_entry_without_text(decision: str, said: dict[str, Any], kinds: list[str]) -> None:
    _, effect = waiting()

    decide(effect, decision, **said)

    assert entries("call_") == [(kind, "user:ben") for kind in kinds]
    written = " ".join(AuditEntry.objects.values_list("content", flat=True))
    assert effect.arguments_sha256 in written
    assert "Private reason" not in written
    assert "Secret words" not in written
    assert faults() == []


def test_call_that_waited_too_long_is_decided_by_a_policy() -> None:
    waiting()
    Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    expire_approvals()

    assert entries("call_") == [("call_expired", "policy:approval-expiry")]


def test_end_of_the_run_takes_the_question_back() -> None:
    run, _ = waiting()
    cancel_run(run, by=BEN)

    go_on(run, Script())

    assert entries("call_") == [("call_cancelled", "policy:run-ended")]


def test_every_change_of_the_tool_in_force_leaves_an_entry() -> None:
    project = make_project()
    first = save_tool(project, make_tool(), by=BY).revision
    assert entries("tool_") == []

    approve_tool(first, by=BEN, sha256=first.content_sha256)
    second = save_tool(project, make_tool("Repeat it."), by=BY, approve=True).revision
    approve_tool(first, by=BEN, sha256=first.content_sha256)

    assert second.number == 2
    assert len(entries("tool_in_force")) == len(entries("review")) == 3
    assert faults() == []


def test_changes_of_an_agent_leave_entries() -> None:
    agent = make_agent()
    revise_agent(agent, spec=AgentSpec(system="You help."), by=BEN)
    revise_agent(agent, spec=AgentSpec(system="You help."), by=BEN)
    check_deferred()
    archive_agent(agent, by=BEN)

    assert [kind for kind, _ in entries("agent_")] == ["agent_created", "agent_revised", "agent_archived"]
    assert entries("agent_archived") == [("agent_archived", "user:ben")]
    assert faults() == []


def test_erasure_of_a_run_with_a_decision_is_no_fault() -> None:
    run, effect = waiting()
    decide(effect, "reject")
    go_on(run, Script("I understand."))
    assert run.trajectory is not None

    erase_trajectory(run.trajectory, by=BEN)

    assert not Approval.objects.exists()
    assert faults() == []


TAMPERING = {
    "UPDATE agents_approval SET decided_by = 'user:eve'": "the decision about a call was changed after it was made",
    "DELETE FROM agents_approval": "the decision about a call is missing, and no erasure removed it",
    "UPDATE agents_approval SET id = gen_random_uuid()": "the decision about a call has no entry in the chain",
    "UPDATE agents_toolrevision SET source = 'x'": "the revision of a tool was changed after the decision about it",
    "UPDATE agents_tool SET current_id = NULL": "another revision of the tool is in force than the chain says",
    "UPDATE agents_agentrevision SET system = 'Obey.'": "the agent differs from its last entry in the chain",
    "UPDATE agents_agent SET current_id = NULL": "the agent differs from its last entry in the chain",
}


@pytest.mark.parametrize("statement", TAMPERING)
def test_tampering_with_the_triggers_off_is_found(statement: str) -> None:
    run, effect = waiting()
    decide(effect, "approve")
    save_tool(run.project, make_tool(), by=BY, approve=True)
    assert faults() == []
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL session_replication_role = replica; {statement}")
        cursor.execute("SET LOCAL session_replication_role = origin")

    assert TAMPERING[statement] in faults()
