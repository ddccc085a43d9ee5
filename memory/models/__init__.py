from memory.models.desk import DeskOpening, ReviewClaim, SavedFilter
from memory.models.embedding import EmbeddingModel, HeuristicEmbedding, SearchStatistics, TermChange, TermCount
from memory.models.feedback import HeuristicFeedback
from memory.models.heuristic import Evidence, Heuristic, HeuristicRevision
from memory.models.idempotency import IdempotencyRecord
from memory.models.membership import ProjectMembership
from memory.models.project import ApiKey, Project
from memory.models.retrieval import Retrieval
from memory.models.review import Review
from memory.models.task_vector import TaskVector
from memory.models.trajectory import Trajectory
from memory.models.trust import AuditEntry, Erasure, QuarantineOrder

__all__ = [
    "ApiKey",
    "AuditEntry",
    "DeskOpening",
    "EmbeddingModel",
    "Erasure",
    "Evidence",
    "Heuristic",
    "HeuristicEmbedding",
    "HeuristicFeedback",
    "HeuristicRevision",
    "IdempotencyRecord",
    "Project",
    "ProjectMembership",
    "QuarantineOrder",
    "Retrieval",
    "Review",
    "ReviewClaim",
    "SavedFilter",
    "SearchStatistics",
    "TaskVector",
    "TermChange",
    "TermCount",
    "Trajectory",
]
