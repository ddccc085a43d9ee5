from memory.models.desk import DeskOpening, ReviewClaim, SavedFilter
from memory.models.embedding import (
    EmbeddingModel,
    HeuristicEmbedding,
    SearchStatistics,
    ServedChange,
    TermChange,
    TermCount,
)
from memory.models.feedback import HeuristicFeedback
from memory.models.heuristic import Evidence, Heuristic, HeuristicRevision
from memory.models.idempotency import IdempotencyRecord
from memory.models.membership import ProjectMembership
from memory.models.memory_import import MemoryImport
from memory.models.mistake import MistakeCard, MistakeEmbedding, MistakeSighting
from memory.models.mistake_review import MistakeCardReview, MistakeCardRevision, MistakeMerge
from memory.models.project import ApiKey, Project
from memory.models.quota import PolarityQuota
from memory.models.retrieval import Retrieval
from memory.models.review import Review
from memory.models.search_index import SearchIndex
from memory.models.task_vector import TaskVector
from memory.models.trajectory import Trajectory
from memory.models.trust import AuditEntry, Erasure, QuarantineOrder
from memory.models.usage import UsageVerdict

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
    "MemoryImport",
    "MistakeCard",
    "MistakeCardReview",
    "MistakeCardRevision",
    "MistakeEmbedding",
    "MistakeMerge",
    "MistakeSighting",
    "PolarityQuota",
    "Project",
    "ProjectMembership",
    "QuarantineOrder",
    "Retrieval",
    "Review",
    "ReviewClaim",
    "SavedFilter",
    "SearchIndex",
    "SearchStatistics",
    "ServedChange",
    "TaskVector",
    "TermChange",
    "TermCount",
    "Trajectory",
    "UsageVerdict",
]
