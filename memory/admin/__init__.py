from memory.admin.heuristic import HeuristicAdmin
from memory.admin.mistake import MistakeCardAdmin
from memory.admin.project import ApiKeyAdmin, ProjectAdmin, ProjectMembershipAdmin
from memory.admin.retrieval import PolarityQuotaAdmin, RetrievalAdmin
from memory.admin.review_log import ReviewAdmin
from memory.admin.search_index import SearchIndexAdmin
from memory.admin.trajectory import TrajectoryAdmin
from memory.admin.trust import AuditEntryAdmin, ErasureAdmin, QuarantineOrderAdmin

__all__ = [
    "ApiKeyAdmin",
    "AuditEntryAdmin",
    "ErasureAdmin",
    "HeuristicAdmin",
    "MistakeCardAdmin",
    "PolarityQuotaAdmin",
    "ProjectAdmin",
    "ProjectMembershipAdmin",
    "QuarantineOrderAdmin",
    "RetrievalAdmin",
    "ReviewAdmin",
    "SearchIndexAdmin",
    "TrajectoryAdmin",
]
