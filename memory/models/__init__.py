from memory.models.embedding import EmbeddingModel, HeuristicEmbedding, SearchStatistics, TermChange, TermCount
from memory.models.feedback import HeuristicFeedback
from memory.models.heuristic import Evidence, Heuristic, HeuristicRevision
from memory.models.idempotency import IdempotencyRecord
from memory.models.project import ApiKey, Project
from memory.models.retrieval import Retrieval
from memory.models.review import Review
from memory.models.trajectory import Trajectory

__all__ = [
    "ApiKey",
    "EmbeddingModel",
    "Evidence",
    "Heuristic",
    "HeuristicEmbedding",
    "HeuristicFeedback",
    "HeuristicRevision",
    "IdempotencyRecord",
    "Project",
    "Retrieval",
    "Review",
    "SearchStatistics",
    "TermChange",
    "TermCount",
    "Trajectory",
]
