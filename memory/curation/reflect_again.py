"""Have a run looked at once more, because the lesson drawn from it is not good enough and the run deserves one."""

from django.db import transaction

from memory.curation.deciders import check_decider
from memory.curation.decisions import record_review
from memory.curation.service import get_current_revision, lock_item
from memory.heuristics.extensions import ask_for_reflection
from memory.heuristics.models import Heuristic, Review
from memory.projects.actors import Actor


@transaction.atomic
def ask_again(
    heuristic: Heuristic,
    *,
    by: Actor,
    reason: str = "",
    seconds_on_screen: float | None = None,
    request_id: str = "",
) -> str:
    """Ask for another reflection of the heuristic's newest run; the heuristic itself stays as it is.

    Returns:
        a sentence about what happens now.

    Raises:
        MemoryAppError: it has no run, or nothing reflects.
        NotAllowed, ProjectArchived, ClaimedByOther: as for a decision.
    """
    heuristic = lock_item(heuristic)
    check_decider(heuristic, by=by)
    said = ask_for_reflection(heuristic, by=by)
    revision = get_current_revision(heuristic, content_sha256=None)
    record_review(heuristic, revision, Review.Decision.REFLECT_AGAIN, by, reason, seconds_on_screen, request_id)
    return said
