"""Record what an agent says about a lesson it was given."""

from dataclasses import dataclass

from django.db import transaction

from memory.effects.models import HeuristicFeedback
from memory.effects.uses import refresh_uses
from memory.errors import NoSuchRun
from memory.heuristics.models import Heuristic
from memory.redaction import redact
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory


@dataclass(frozen=True, kw_only=True, slots=True)
class Feedback:
    """What a run did with a lesson, and whether that helped; None where it is not known."""

    verdict: str
    helpful: bool | None = None
    comment: str = ""


@transaction.atomic
def record_feedback(
    heuristic: Heuristic,
    feedback: Feedback,
    *,
    client: str,
    trajectory: Trajectory | None = None,
    retrieval: Retrieval | None = None,
) -> HeuristicFeedback:
    """Keep one verdict for a client and run; a repeated one replaces the first, so that repeating moves nothing.

    Raises:
        NoSuchRun: neither a trajectory nor a retrieval is named, so the verdict could be counted any number of times.
    """
    if trajectory is None and retrieval is None:
        raise NoSuchRun("Name the trajectory_id or the retrieval_id that this feedback is about.")
    key = {"trajectory": trajectory} if trajectory is not None else {"trajectory": None, "retrieval": retrieval}
    row, _ = HeuristicFeedback.objects.update_or_create(
        heuristic=heuristic,
        client=client,
        **key,
        defaults={
            "project_id": heuristic.project_id,
            "retrieval": retrieval,
            "verdict": feedback.verdict,
            "helpful": feedback.helpful,
            "comment": redact(feedback.comment).value,
        },
    )
    # In the same transaction, so that the counts never lack a stored verdict.
    refresh_uses([heuristic.pk])
    return row
