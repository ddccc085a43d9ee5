"""The pages of tables, which are those of Django's admin. One module for each table, with its forms beside it."""

from django.contrib import admin
from django_otp.plugins.otp_static.models import StaticDevice
from django_otp.plugins.otp_totp.models import TOTPDevice

from desk.admin.agent import AgentAdmin
from desk.admin.api_key import ApiKeyAdmin
from desk.admin.approval import ApprovalAdmin
from desk.admin.block import BlockAdmin
from desk.admin.change import ChangeAdmin
from desk.admin.consolidation import ConsolidationRunAdmin, SuggestionAdmin
from desk.admin.deployment import DeploymentAdmin
from desk.admin.evaluation_run import EvaluationRunAdmin
from desk.admin.evolution import EvolutionAdmin
from desk.admin.experiment import ExperimentAdmin
from desk.admin.heuristic import HeuristicAdmin
from desk.admin.mistake import MistakeCardAdmin
from desk.admin.passage import PassageAdmin
from desk.admin.project import PolarityQuotaAdmin, ProjectAdmin, ProjectMembershipAdmin
from desk.admin.quarantine_order import QuarantineOrderAdmin
from desk.admin.records import AuditEntryAdmin, ErasureAdmin, ReviewAdmin
from desk.admin.reflection import DailySpendAdmin, ModelCallAdmin, ReflectionAdmin
from desk.admin.release import ReleaseAdmin
from desk.admin.retrieval import RetrievalAdmin
from desk.admin.rule_change import RuleChangeAdmin
from desk.admin.run import RunAdmin
from desk.admin.shadow_answer import ShadowAnswerAdmin
from desk.admin.tool import ToolAdmin
from desk.admin.trajectory import TrajectoryAdmin
from desk.admin.webhook import WebhookDeliveryAdmin, WebhookEndpointAdmin

__all__ = [
    "AgentAdmin",
    "ApiKeyAdmin",
    "ApprovalAdmin",
    "AuditEntryAdmin",
    "BlockAdmin",
    "ChangeAdmin",
    "ConsolidationRunAdmin",
    "DailySpendAdmin",
    "DeploymentAdmin",
    "ErasureAdmin",
    "EvaluationRunAdmin",
    "EvolutionAdmin",
    "ExperimentAdmin",
    "HeuristicAdmin",
    "MistakeCardAdmin",
    "ModelCallAdmin",
    "PassageAdmin",
    "PolarityQuotaAdmin",
    "ProjectAdmin",
    "ProjectMembershipAdmin",
    "QuarantineOrderAdmin",
    "ReflectionAdmin",
    "ReleaseAdmin",
    "RetrievalAdmin",
    "ReviewAdmin",
    "RuleChangeAdmin",
    "RunAdmin",
    "ShadowAnswerAdmin",
    "SuggestionAdmin",
    "ToolAdmin",
    "TrajectoryAdmin",
    "WebhookDeliveryAdmin",
    "WebhookEndpointAdmin",
]

# These pages would show secrets; use `manage.py reset_second_factor` instead.
admin.site.unregister([StaticDevice, TOTPDevice])
