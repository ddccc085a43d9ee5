"""Decide on several proposals at once, within what a person can answer for (reliability D5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from memory.curation.claims import release_heuristic
from memory.curation.decisions import approve_heuristic, reject_heuristic
from memory.errors import MemoryAppError, NotReadYet, TooManyAtOnce
from memory.heuristics.models import DeskOpening, Heuristic
from memory.projects.actors import Actor

MAX_AT_ONCE = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class BulkResult:
    """What came of one of the selected: the heuristic as it is now, or why nothing was changed."""

    heuristic: Heuristic
    refusal: str = ""


def review_in_bulk(
    heuristics: Sequence[Heuristic], *, approve: bool, by: Actor, reason: str = "", request_id: str = ""
) -> list[BulkResult]:
    """Approve or reject each on its own; one that is refused does not keep the others back.

    Raises:
        TooManyAtOnce: more than 20; nothing is decided then.
    """
    if len(heuristics) > MAX_AT_ONCE:
        raise TooManyAtOnce(
            f"You selected {len(heuristics)}; at most {MAX_AT_ONCE} can be decided at once. Nothing was changed."
        )
    read = set(
        DeskOpening.objects.filter(user=by.user_id, heuristic__in=heuristics).values_list(
            "heuristic_id", "content_sha256"
        )
    )
    decide = approve_heuristic if approve else reject_heuristic
    results = []
    for heuristic in heuristics:
        try:
            with transaction.atomic():
                sha256 = _check_read(heuristic, read)
                done = decide(heuristic, by=by, content_sha256=sha256, reason=reason, request_id=request_id)
                release_heuristic(heuristic, by=by)
        except MemoryAppError as refusal:
            results.append(BulkResult(heuristic=heuristic, refusal=str(refusal)))
        else:
            results.append(BulkResult(heuristic=done))
    return results


def _check_read(heuristic: Heuristic, read: set[tuple[UUID, str]]) -> str:
    revision = heuristic.current_revision
    assert revision is not None
    if heuristic.prioritised_at is None:
        raise NotReadYet("What the checks found in it is not known yet. Wait a few seconds and reload the queue.")
    if heuristic.risk_flags:
        raise NotReadYet(
            f"The checks flagged it ({', '.join(heuristic.risk_flags)}). Decide on it on its own page, not in bulk."
        )
    if (heuristic.pk, revision.content_sha256) not in read:
        raise NotReadYet("You have not opened it in its present words. Open it, read it, then select it again.")
    return revision.content_sha256
