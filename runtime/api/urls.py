"""The resources of /api/v1 that live in this app. No path ends in a slash."""

from django.urls import path

from runtime.api.agent_views import AgentListView, AgentRevisionListView, AgentView, AllowToolView
from runtime.api.approval_views import ApprovalListView, DecideView
from runtime.api.change_views import (
    ChangeListView,
    ChangeView,
    CheckChangeView,
    EvolutionView,
    PromoteChangeView,
    RejectChangeView,
    RollBackChangeView,
    ShadowChangeView,
    TrialView,
)
from runtime.api.conversation_views import (
    CompactConversationView,
    ConversationView,
    ForkConversationView,
    MessageListView,
    RewindConversationView,
)
from runtime.api.event_views import RunEventsView
from runtime.api.run_views import (
    AgentRunListView,
    CancelRunView,
    EffectListView,
    ResumeRunView,
    RunView,
    StepListView,
)
from runtime.api.tool_views import ApproveToolView, RejectToolView, ToolListView, ToolView, TryToolView

app_name = "agents_api"
urlpatterns = [
    path("agents", AgentListView.as_view(), name="agent-list"),
    path("agents/<uuid:id>", AgentView.as_view(), name="agent"),
    path("agents/<uuid:id>/allow", AllowToolView.as_view(), name="agent-allow"),
    path("agents/<uuid:id>/revisions", AgentRevisionListView.as_view(), name="agent-revisions"),
    path("agents/<uuid:id>/runs", AgentRunListView.as_view(), name="agent-runs"),
    path("agents/<uuid:id>/evolution", EvolutionView.as_view(), name="agent-evolution"),
    path("changes", ChangeListView.as_view(), name="change-list"),
    path("changes/<uuid:id>", ChangeView.as_view(), name="change"),
    path("changes/<uuid:id>/check", CheckChangeView.as_view(), name="change-check"),
    path("changes/<uuid:id>/shadow", ShadowChangeView.as_view(), name="change-shadow"),
    path("changes/<uuid:id>/canary", TrialView.as_view(), name="change-canary"),
    path("changes/<uuid:id>/promote", PromoteChangeView.as_view(), name="change-promote"),
    path("changes/<uuid:id>/rollback", RollBackChangeView.as_view(), name="change-rollback"),
    path("changes/<uuid:id>/reject", RejectChangeView.as_view(), name="change-reject"),
    path("runs/<uuid:id>", RunView.as_view(), name="run"),
    path("runs/<uuid:id>/cancel", CancelRunView.as_view(), name="run-cancel"),
    path("runs/<uuid:id>/resume", ResumeRunView.as_view(), name="run-resume"),
    path("runs/<uuid:id>/steps", StepListView.as_view(), name="run-steps"),
    path("runs/<uuid:id>/effects", EffectListView.as_view(), name="run-effects"),
    path("runs/<uuid:id>/events", RunEventsView.as_view(), name="run-events"),
    path("approvals", ApprovalListView.as_view(), name="approval-list"),
    path("effects/<uuid:id>/decide", DecideView.as_view(), name="effect-decide"),
    path("conversations/<uuid:id>", ConversationView.as_view(), name="conversation"),
    path("conversations/<uuid:id>/rewind", RewindConversationView.as_view(), name="conversation-rewind"),
    path("conversations/<uuid:id>/fork", ForkConversationView.as_view(), name="conversation-fork"),
    path("conversations/<uuid:id>/compact", CompactConversationView.as_view(), name="conversation-compact"),
    path("conversations/<uuid:id>/messages", MessageListView.as_view(), name="conversation-messages"),
    path("tools", ToolListView.as_view(), name="tool-list"),
    path("tools/<uuid:id>", ToolView.as_view(), name="tool"),
    path("tools/<uuid:id>/approve", ApproveToolView.as_view(), name="tool-approve"),
    path("tools/<uuid:id>/reject", RejectToolView.as_view(), name="tool-reject"),
    path("tools/<uuid:id>/try", TryToolView.as_view(), name="tool-try"),
]
