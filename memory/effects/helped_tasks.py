"""Let lessons be found by the tasks they have helped with, as evidence grows: followed, and the run succeeded.

Only a run whose answer injected the lesson counts, a lesson keeps few of them, and fewer still of one client, so that a
client's reports cannot make a lesson turn up for any task it likes (reliability D4). The rows made here have neither
vector nor words; the periodic work, which completes what is not fully searchable, makes them.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from memory.index.heuristic_vectors import find_relevant_revisions, get_active_model
from memory.retrieval.models import HeuristicEmbedding
from memory.runs.models import Trajectory

MAX_HELPED_TASKS = 10
OF_A_CLIENT = 5

_Kind = HeuristicEmbedding.Kind


@dataclass(frozen=True, kw_only=True, slots=True)
class Help:
    """Runs that followed a lesson and succeeded, and runs of which something else is known by now."""

    helped: Collection[UUID]
    others: Collection[UUID]


@dataclass(kw_only=True, slots=True)
class _Kept:
    """The tasks a lesson is found by since it has helped with them."""

    runs: set[UUID] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)
    of_client: Counter[str] = field(default_factory=Counter)

    def take(self, run: UUID, client: str, task: str) -> bool:
        """Keep one more, if there is room for it and it is another."""
        if run in self.runs or task in self.tasks or not task:
            return False
        if len(self.runs) >= MAX_HELPED_TASKS or self.of_client[client] >= OF_A_CLIENT:
            return False
        self.runs.add(run)
        self.tasks.add(task)
        self.of_client[client] += 1
        return True


def note_help(help_of: Mapping[UUID, Help]) -> int:
    """Keep the first few different tasks that lessons have helped with; return how many texts have come or gone.

    Tasks that were kept before need not be named again. The same number of queries for any number of lessons.
    """
    kept, withdrawn = _find_kept(help_of)
    gone, _ = HeuristicEmbedding.objects.filter(pk__in=withdrawn).delete() if withdrawn else (0, {})
    wanted = {
        run
        for heuristic_id, help_given in help_of.items()
        if len(have := kept.setdefault(heuristic_id, _Kept()).runs) < MAX_HELPED_TASKS
        for run in help_given.helped
        if run not in have
    }
    runs = Trajectory.objects.filter(pk__in=wanted, retrieval__isnull=False).order_by("created_at", "pk")
    new: dict[UUID, dict[UUID, str]] = {}
    for run, client, task, given in runs.values_list("pk", "client", "task", "retrieval__injected_ids"):
        for heuristic_id in given:
            # An answer gives several lessons, and the run may have followed only some.
            if heuristic_id not in help_of or run not in help_of[heuristic_id].helped:
                continue
            if kept[heuristic_id].take(run, client, task):
                new.setdefault(heuristic_id, {})[run] = task
    return gone + (_add(new) if new else 0)


def _find_kept(help_of: Mapping[UUID, Help]) -> tuple[dict[UUID, _Kept], list[int]]:
    """Return what is kept, and the rows of what is not to be kept any more."""
    kept: dict[UUID, _Kept] = {}
    withdrawn: list[int] = []
    rows = HeuristicEmbedding.objects.filter(heuristic__in=list(help_of), kind=_Kind.HELPED_TASK)
    for pk, heuristic_id, run, client, task in rows.values_list(
        "pk", "heuristic_id", "trajectory_id", "trajectory__client", "trajectory__task"
    ):
        # The run was erased, or its outcome or verdict has changed since.
        if run is None or run in help_of[heuristic_id].others:
            withdrawn.append(pk)
        else:
            kept.setdefault(heuristic_id, _Kept()).take(run, client, task)
    return kept, withdrawn


def _add(new: Mapping[UUID, Mapping[UUID, str]]) -> int:
    model = get_active_model()
    revisions = list(find_relevant_revisions(new))
    stored: Iterable[tuple[UUID, str]] = HeuristicEmbedding.objects.filter(
        revision__in=revisions, embedding_model=model
    ).values_list("revision_id", "text_sha256")
    searched = set(stored)  # a task it was learnt from among them
    rows = [
        HeuristicEmbedding(
            project_id=revision.project_id,
            heuristic_id=revision.heuristic_id,
            revision=revision,
            trajectory_id=run,
            embedding_model=model,
            kind=_Kind.HELPED_TASK,
            text_sha256=sha256,
        )
        for revision in revisions
        for run, task in new[revision.heuristic_id].items()
        if (revision.pk, sha256 := hashlib.sha256(task.encode()).hexdigest()) not in searched
    ]
    # Two processes may count at once; the unique key lets one of them write.
    HeuristicEmbedding.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)
