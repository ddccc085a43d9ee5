"""Rows of an agent that has run, with a text wherever a client, a model or a person can write one."""

from typing import Any

from django.utils import timezone

from memory.projects.actors import Actor
from memory.projects.models import Project
from runtime.models.agents import Agent, AgentRevision
from runtime.models.conversations import Conversation, Message
from runtime.models.effects import Approval, Effect
from runtime.models.runs import Run, Step
from runtime.models.tools import Tool, ToolRevision
from runtime.revisions import point_at

SHA256 = "0" * 64


def store_agent(project: Project, text: str) -> Approval:
    """Store an agent, a tool and a run that has ended but for a call of which nobody knows whether it happened."""
    now = timezone.now()
    tool = Tool.objects.create(project=project, name="send", created_by=text)
    for number in (1, 2):
        revision = ToolRevision.objects.create(
            project=project, tool=tool, number=number, content_sha256=str(number) * 64, created_by=text,
            description=text, source=f"{text}\n{number}", parameters={text: text}, uses=[text],
            examples=[{"arguments": {text: text}, "answer": text, "host": {text: text}}],
        )  # fmt: skip
    agent = Agent.objects.create(project=project, name="support", description=text, created_by=text)
    for number in (1, 2):
        current = AgentRevision.objects.create(
            project=project, agent=agent, number=number, content_sha256=str(number) * 64, created_by=text,
            system=f"{text}\n{number}", model=text, blocks=[{"label": text, "block": str(agent.pk)}],
            tools=[{"name": text[:200]}, {"name": "send", "revision": str(revision.pk)}],
            rules=[{"type": "requires_approval", "tool": text[:200], "when": text}], limits={"max_steps": 5},
            max_output_tokens=500,
        )  # fmt: skip
    point_at(agent, current, by=Actor(label=text))
    conversation = Conversation.objects.create(project=project, agent=agent, created_by=text)
    run = Run.objects.create(
        project=project, agent=agent, revision=current, conversation=conversation, status="failed",
        stop_reason="error", error=text, task=text, head=text, arm=text[:100], created_by=text, max_steps=5,
        approval_seconds=5, finished_at=now, prepared_at=now, steps_taken=1,
    )  # fmt: skip
    step = Step.objects.create(
        project=project, run=run, seq=1, status="answered", through=1, prompt_sha256=SHA256, request_sha256=SHA256,
        model=text, fence=1, finished_at=now,
    )  # fmt: skip
    parts: dict[str, Any] = {
        "project": project,
        "run": run,
        "step": step,
        "tool": text[:200],
        "arguments_sha256": SHA256,
    }
    failed = Effect.objects.create(
        **parts, index=0, kind="pure", arguments={text: text}, status="failed", result=text, error=text, finished_at=now
    )
    unknown = Effect.objects.create(
        **parts, index=1, kind="unsafe", arguments={text: text}, status="unknown", started_at=now, result=text
    )
    turns: list[tuple[str, dict[str, Any]]] = [
        ("user", {"created_by": text}),
        ("assistant", {}),
        ("assistant", {"effect": failed}),
        ("note", {}),
    ]
    for seq, (role, more) in enumerate(turns, 1):
        said: dict[str, Any] = {
            "project": project,
            "conversation": conversation,
            "run": run,
            "seq": seq,
            "content": text,
        }
        Message.objects.create(**said, role=role, **more)
    asked: dict[str, Any] = {"project": project, "run": run, "arguments_sha256": SHA256}
    Approval.objects.create(**asked, effect=failed, status="rejected", reason=text, decided_by=text, decided_at=now)
    return Approval.objects.create(**asked, effect=unknown, about_unknown=True)
