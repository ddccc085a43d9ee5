from memory.admin.heuristic import HeuristicAdmin
from memory.admin.mistake import MistakeCardAdmin
from memory.admin.project import ApiKeyAdmin, ProjectAdmin, ProjectMembershipAdmin
from memory.admin.records import ReviewAdmin
from memory.admin.retrieval import PolarityQuotaAdmin, RetrievalAdmin
from memory.admin.trajectory import TrajectoryAdmin

__all__ = [
    "ApiKeyAdmin",
    "HeuristicAdmin",
    "MistakeCardAdmin",
    "PolarityQuotaAdmin",
    "ProjectAdmin",
    "ProjectMembershipAdmin",
    "RetrievalAdmin",
    "ReviewAdmin",
    "TrajectoryAdmin",
]
