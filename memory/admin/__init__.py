from memory.admin.api_key import ApiKeyAdmin
from memory.admin.block import BlockAdmin
from memory.admin.deployment import DeploymentAdmin
from memory.admin.heuristic import HeuristicAdmin
from memory.admin.inbox.harmful import HARMFUL
from memory.admin.insights import coverage_page, insights_page
from memory.admin.lessons import lessons_page
from memory.admin.mistake import MistakeCardAdmin
from memory.admin.passage import PassageAdmin
from memory.admin.project import PolarityQuotaAdmin, ProjectAdmin, ProjectMembershipAdmin
from memory.admin.quarantine_order import QuarantineOrderAdmin
from memory.admin.records import AuditEntryAdmin, ErasureAdmin, ReviewAdmin
from memory.admin.release import ReleaseAdmin
from memory.admin.retrieval import RetrievalAdmin
from memory.admin.rule_change import RuleChangeAdmin
from memory.admin.search import search_page
from memory.admin.trajectory import TrajectoryAdmin

__all__ = [
    "HARMFUL",
    "ApiKeyAdmin",
    "AuditEntryAdmin",
    "BlockAdmin",
    "DeploymentAdmin",
    "ErasureAdmin",
    "HeuristicAdmin",
    "MistakeCardAdmin",
    "PassageAdmin",
    "PolarityQuotaAdmin",
    "ProjectAdmin",
    "ProjectMembershipAdmin",
    "QuarantineOrderAdmin",
    "ReleaseAdmin",
    "RetrievalAdmin",
    "ReviewAdmin",
    "RuleChangeAdmin",
    "TrajectoryAdmin",
    "coverage_page",
    "insights_page",
    "lessons_page",
    "search_page",
]
