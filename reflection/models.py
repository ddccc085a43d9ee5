"""The models of the app, listed for Django. Import them from their packages."""

from reflection.consolidation.models import ConsolidationRun, Suggestion, SuggestionEvidence
from reflection.imports.models import ProjectImport
from reflection.jobs.models import Job, WorkerHeartbeat
from reflection.llm.models import DailySpend, ModelCall, ProviderState, Reservation
from reflection.reflectors.models import Proposal, Reflection
from reflection.webhooks.models import WebhookDelivery, WebhookEndpoint, WebhookSecret

__all__ = [
    "ConsolidationRun",
    "DailySpend",
    "Job",
    "ModelCall",
    "ProjectImport",
    "Proposal",
    "ProviderState",
    "Reflection",
    "Reservation",
    "Suggestion",
    "SuggestionEvidence",
    "WebhookDelivery",
    "WebhookEndpoint",
    "WebhookSecret",
    "WorkerHeartbeat",
]
