"""This app's part of /api/v1. Paths do not end in a slash."""

from django.urls import path

from memory.blocks.views import (
    BlockAppendView,
    BlockDecisionView,
    BlockHistoryView,
    BlockListView,
    BlockPatchView,
    BlockReplaceView,
    BlockUndoView,
    BlockView,
)
from memory.curation.review_views import (
    ApproveView,
    ConfirmEvidenceView,
    MergeView,
    QuarantineView,
    RejectView,
    RetireView,
    ReviewListView,
)
from memory.curation.views import EvidenceView, HeuristicBatchView, HeuristicListView, HeuristicView
from memory.effects.views import FeedbackView, RetrievalOutcomesView
from memory.episodes.views import MemorySummaryView
from memory.intake.views import (
    TrajectoryFinishView,
    TrajectoryListView,
    TrajectoryOutcomeView,
    TrajectoryStepsView,
    TrajectoryView,
)
from memory.passages.views import PassageListView, PassageSearchView, PassageView
from memory.persons.views import PersonEraseView, PersonExportView, PersonFindView
from memory.releases.views import (
    CanaryView,
    DeploymentView,
    PromoteView,
    ReleaseDiffView,
    ReleaseListView,
    ReleaseView,
    RollbackView,
)
from memory.retrieval.views import ContextView, RetrievalView, RetrieveView
from memory.transfer.views import ExportPageView, ExportView

app_name = "api"
urlpatterns = [
    path("trajectories", TrajectoryListView.as_view(), name="trajectory-list"),
    path("trajectories/<uuid:id>", TrajectoryView.as_view(), name="trajectory"),
    path("trajectories/<uuid:id>/outcome", TrajectoryOutcomeView.as_view(), name="trajectory-outcome"),
    path("trajectories/<uuid:id>/steps", TrajectoryStepsView.as_view(), name="trajectory-steps"),
    path("trajectories/<uuid:id>/finish", TrajectoryFinishView.as_view(), name="trajectory-finish"),
    path("releases", ReleaseListView.as_view(), name="release-list"),
    path("releases/<str:id>", ReleaseView.as_view(), name="release"),
    path("releases/<str:id>/diff/<str:other>", ReleaseDiffView.as_view(), name="release-diff"),
    path("deployment", DeploymentView.as_view(), name="deployment"),
    path("deployment/canary", CanaryView.as_view(), name="deployment-canary"),
    path("deployment/promote", PromoteView.as_view(), name="deployment-promote"),
    path("deployment/rollback", RollbackView.as_view(), name="deployment-rollback"),
    path("heuristics", HeuristicListView.as_view(), name="heuristic-list"),
    path("heuristics/batch", HeuristicBatchView.as_view(), name="heuristic-batch"),
    path("heuristics/<uuid:id>", HeuristicView.as_view(), name="heuristic"),
    path("heuristics/<uuid:id>/evidence", EvidenceView.as_view(), name="heuristic-evidence"),
    path("heuristics/<uuid:id>/approve", ApproveView.as_view(), name="heuristic-approve"),
    path("heuristics/<uuid:id>/reject", RejectView.as_view(), name="heuristic-reject"),
    path("heuristics/<uuid:id>/retire", RetireView.as_view(), name="heuristic-retire"),
    path("heuristics/<uuid:id>/quarantine", QuarantineView.as_view(), name="heuristic-quarantine"),
    path("heuristics/<uuid:id>/confirm-evidence", ConfirmEvidenceView.as_view(), name="heuristic-confirm-evidence"),
    path("heuristics/<uuid:id>/merge", MergeView.as_view(), name="heuristic-merge"),
    path("heuristics/<uuid:id>/feedback", FeedbackView.as_view(), name="heuristic-feedback"),
    path("reviews", ReviewListView.as_view(), name="review-list"),
    path("retrieve", RetrieveView.as_view(), name="retrieve"),
    path("retrievals/outcomes", RetrievalOutcomesView.as_view(), name="retrieval-outcomes"),
    path("retrievals/<uuid:id>", RetrievalView.as_view(), name="retrieval"),
    path("memory/summary", MemorySummaryView.as_view(), name="memory-summary"),
    path("blocks", BlockListView.as_view(), name="block-list"),
    path("blocks/<uuid:id>", BlockView.as_view(), name="block"),
    path("blocks/<uuid:id>/append", BlockAppendView.as_view(), name="block-append"),
    path("blocks/<uuid:id>/replace", BlockReplaceView.as_view(), name="block-replace"),
    path("blocks/<uuid:id>/patch", BlockPatchView.as_view(), name="block-patch"),
    path("blocks/<uuid:id>/undo", BlockUndoView.as_view(), name="block-undo"),
    path("blocks/<uuid:id>/history", BlockHistoryView.as_view(), name="block-history"),
    path("blocks/revisions/<uuid:id>/decide", BlockDecisionView.as_view(), name="block-decide"),
    path("passages", PassageListView.as_view(), name="passage-list"),
    path("passages/search", PassageSearchView.as_view(), name="passage-search"),
    path("passages/<uuid:id>", PassageView.as_view(), name="passage"),
    path("persons/find", PersonFindView.as_view(), name="person-find"),
    path("persons/export", PersonExportView.as_view(), name="person-export"),
    path("persons/erase", PersonEraseView.as_view(), name="person-erase"),
    path("context", ContextView.as_view(), name="context"),
    path("export", ExportView.as_view(), name="export"),
    path("export/<str:table>", ExportPageView.as_view(), name="export-page"),
]
