"""All models of the app, so that Django finds them. Other code imports them from their packages."""

# ruff: noqa: F401

from memory.api.models import IdempotencyRecord
from memory.blocks.models import Block, BlockRevision
from memory.discussion.models import Comment, ItemState
from memory.effects.models import HeuristicFeedback, UsageVerdict
from memory.episodes.models import MemoryImport
from memory.heuristics.models import Evidence, Heuristic, HeuristicRevision, SavedFilter
from memory.heuristics.provenance import WordOrigin
from memory.mistakes.models import MistakeCard
from memory.passages.models import Passage, PassageEmbedding
from memory.projects.models import ApiKey, Project, ProjectMembership
from memory.releases.models import Deployment, DeploymentEvent, Release, ReleaseMember
from memory.retrieval.models import (
    EmbeddingModel,
    HeuristicEmbedding,
    PolarityQuota,
    Retrieval,
    SearchStatistics,
    ServedChange,
    TaskVector,
    TermChange,
    TermCount,
)
from memory.review.models import Review
from memory.runs.models import Trajectory
from memory.trust.models import AuditEntry, Erasure, QuarantineLift, QuarantineOrder
