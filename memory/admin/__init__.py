from memory.admin.heuristic import HeuristicAdmin
from memory.admin.project import ApiKeyAdmin, ProjectAdmin, ProjectMembershipAdmin
from memory.admin.records import RetrievalAdmin, ReviewAdmin
from memory.admin.trajectory import TrajectoryAdmin

__all__ = [
    "ApiKeyAdmin",
    "HeuristicAdmin",
    "ProjectAdmin",
    "ProjectMembershipAdmin",
    "RetrievalAdmin",
    "ReviewAdmin",
    "TrajectoryAdmin",
]
