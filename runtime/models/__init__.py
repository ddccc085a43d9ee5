"""The models of the app, listed for Django. Import them from their modules."""

from runtime.models.agents import Agent, AgentRevision
from runtime.models.changes import Change, EvaluationRow
from runtime.models.conversations import Compaction, Conversation, Message
from runtime.models.effects import Approval, Effect
from runtime.models.runs import Event, Run, Step
from runtime.models.tools import Tool, ToolRevision

__all__ = [
    "Agent",
    "AgentRevision",
    "Approval",
    "Change",
    "Compaction",
    "Conversation",
    "Effect",
    "EvaluationRow",
    "Event",
    "Message",
    "Run",
    "Step",
    "Tool",
    "ToolRevision",
]
