"""The models of the app, listed for Django. Import them from their modules."""

from agents.models.agents import Agent, AgentRevision
from agents.models.changes import Change, Check, ShadowRun
from agents.models.conversations import Compaction, Conversation, Message
from agents.models.effects import Approval, Effect
from agents.models.runs import Event, Run, Step
from agents.models.tools import Tool, ToolRevision

__all__ = [
    "Agent",
    "AgentRevision",
    "Approval",
    "Change",
    "Check",
    "Compaction",
    "Conversation",
    "Effect",
    "Event",
    "Message",
    "Run",
    "ShadowRun",
    "Step",
    "Tool",
    "ToolRevision",
]
