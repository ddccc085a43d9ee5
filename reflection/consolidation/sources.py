"""What a consolidation reads: the lessons in use or proposed, and the notes of the runs."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from django.db.models import F

from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.index.heuristic_vectors import embed_heuristics, find_heuristics_without_vectors, get_active_model
from memory.meaning.comparison import MeaningVerdict
from memory.projects.models import Project
from memory.retrieval.context import count_tokens, write_line
from memory.retrieval.models import HeuristicEmbedding
from memory.retrieval.replay import find_injected_wordings
from memory.runs.episode import FAILURE_SCORE, SUCCESS_SCORE
from memory.runs.models import Trajectory
from reflection.consolidation.models import ConsolidationRun
from reflection.consolidation.requests import new_trajectories
from reflection.reflectors.repetition import find_given, write_given

MAX_LESSONS = 3000
MAX_EPISODES = 2000
_LIVE = (Heuristic.Status.PROPOSED, Heuristic.Status.APPROVED)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lesson:
    """A lesson in use or proposed, in its newest words, with its evidence and its vector."""

    revision: HeuristicRevision
    status: str
    support: int
    usefulness: float
    created_at: datetime
    harm: dict[str, Any] | None = None
    vector: Any = None

    @property
    def id(self) -> UUID:
        return self.revision.heuristic_id

    @property
    def place(self) -> str:
        """Its task family, or nothing where it holds for the whole project."""
        return "" if self.revision.scope == HeuristicRevision.Scope.PROJECT else self.revision.task_id

    @property
    def tokens(self) -> int:
        words = {name: getattr(self.revision, name) for name in ("trigger", "guideline", "avoid", "not_when")}
        return count_tokens(write_line({"id": self.id, **words}, number=1) + "\n")

    @property
    def rank(self) -> tuple[Any, ...]:
        """Of two lessons that say the same, the lower rank stays: approved, then more runs, more useful, older."""
        approved = self.status == Heuristic.Status.APPROVED
        return (not approved, -self.support, -self.usefulness, self.created_at, self.id)


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedNote:
    """Something noted with a run. `kind` is mistake, success or summary."""

    trajectory_id: UUID
    text: str
    kind: str
    task: str
    family: str
    score: float
    client: str
    at: datetime
    new: bool


def read_lessons(project: Project) -> list[Lesson]:
    """Return the lessons of a project in order of rank, in two queries, after making the vectors that are missing."""
    model = get_active_model()
    tried: list[UUID] = []
    # Where the embedder does not answer, the same ones are missing again and are compared another time.
    while (missing := find_heuristics_without_vectors(model=model)) and missing != tried:
        embed_heuristics(missing, model=model)
        tried = missing
    rows = Heuristic.objects.for_project(project).filter(status__in=_LIVE, current_revision__isnull=False)
    heuristics = list(rows.with_text().order_by("-created_at", "-id")[:MAX_LESSONS])
    embedded = HeuristicEmbedding.objects.filter(
        project=project,
        embedding_model=model,
        kind=HeuristicEmbedding.Kind.LESSON,
        vector__isnull=False,
        heuristic__current_revision=F("revision"),
    )
    rows_of = embedded.values_list("heuristic_id", "vector")
    vectors = {heuristic_id: np.array(vector, np.float32) for heuristic_id, vector in rows_of}
    lessons = [
        Lesson(
            revision=heuristic.current_revision,
            status=heuristic.status,
            support=heuristic.support,
            usefulness=heuristic.usefulness,
            created_at=heuristic.created_at,
            harm=heuristic.harm,
            vector=vectors.get(heuristic.pk),
        )
        for heuristic in heuristics
        if heuristic.current_revision is not None
    ]
    return sorted(lessons, key=lambda lesson: lesson.rank)


def read_notes(run: ConsolidationRun) -> list[RecordedNote]:
    """Return what was noted with the runs up to a consolidation, best score first, then oldest first."""
    new = set(Trajectory.objects.for_project(run.project).filter(new_trajectories(run)).values_list("pk", flat=True))
    rows = (
        Trajectory.objects.for_project(run.project)
        .filter(created_at__lte=run.until)
        .exclude(summary="", mistakes=[], successes=[])
        .select_related("retrieval")
        .defer("steps", "metadata", "redactions")
        .order_by("-created_at", "-id")[:MAX_EPISODES]
    )
    runs = list(rows)
    wordings = find_injected_wordings(run.retrieval for run in runs if run.retrieval is not None)
    given = {run.pk: [*map(write_given, wordings[run.retrieval.pk])] for run in runs if run.retrieval is not None}
    notes = [
        note
        for trajectory in runs
        for note in _notes_of(trajectory, new=trajectory.pk in new)
        if not _is_given(note, given.get(trajectory.pk, []))
    ]
    return sorted(notes, key=lambda note: (-note.score, note.at, note.trajectory_id))


def _is_given(note: RecordedNote, injected: list[str]) -> bool:
    """Tell whether a note only repeats a lesson that its run was given."""
    given = find_given("", note.text, injected)
    return given is not None and given.verdict is MeaningVerdict.SAME


def _notes_of(trajectory: Trajectory, *, new: bool) -> Iterable[RecordedNote]:
    score = trajectory.score
    if score is None:
        score = {"success": 1.0, "failure": 0.0}.get(trajectory.outcome, 0.5)
    notes: list[tuple[str, str]] = []
    if score < FAILURE_SCORE:
        notes += [("mistake", text) for text in trajectory.mistakes]
    if score >= SUCCESS_SCORE:
        notes += [("success", text) for text in trajectory.successes]
        notes += [("summary", trajectory.summary)] if trajectory.summary else []
    for kind, text in notes:
        if text.strip():
            yield RecordedNote(
                trajectory_id=trajectory.pk,
                text=" ".join(text.split()),
                kind=kind,
                task=trajectory.task,
                family=trajectory.task_id,
                score=score,
                client=trajectory.client,
                at=trajectory.created_at,
                new=new,
            )
