"""The steps that decisions on lessons and on mistake cards share: serve a wording, withdraw it, move the row."""

from datetime import datetime
from typing import Any, TypedDict, TypeVar

from django.utils import timezone

from memory.curation.proposal_groups import leave_group
from memory.errors import NotServable
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.heuristics.provenance import check_servable
from memory.projects.actors import Actor
from memory.review.decisions import check_read
from memory.rows import find_row

Item = TypeVar("Item", bound=Heuristic)


class ReviewNote(TypedDict, total=False):
    """What is recorded with a decision: why, how long the text was on the screen, and the request it came with.

    `created_at` is given for a decision that was taken earlier, in another installation.
    """

    reason: str
    seconds_on_screen: float | None
    request_id: str
    created_at: datetime


def get_current_revision(item: Heuristic, *, content_sha256: str | None) -> Any:
    """Return the newest wording of a locked row, if it is the one that was read.

    Args:
        content_sha256: the hash of the wording that was read; None means the newest.

    Raises:
        ChangedMeanwhile: the newest is another.
    """
    current = item.current_revision
    assert current is not None  # every row is made with one
    check_read(current, content_sha256)
    return current


def serve_revision(item: Heuristic, revision: HeuristicRevision, *, by: Actor) -> None:
    """Approve a wording by its hash and serve it from now on, in place of any earlier one.

    Raises:
        CoveredByOrder, OrderUnderWay: see `check_servable`.
    """
    check_servable(item.project_id, [revision.lineage])
    # First: the database allows one served wording of a row at a time.
    item.revisions.filter(served=True).exclude(pk=revision.pk).update(served=False)
    item.revisions.filter(pk=revision.pk).update(
        approved_sha256=revision.content_sha256, approved_by=by.label, approved_at=timezone.now(), served=True
    )


def serve_again(revision: HeuristicRevision) -> None:
    """Serve a wording that was approved and withdrawn.

    Raises:
        CoveredByOrder, OrderUnderWay: see `check_servable`.
    """
    check_servable(revision.project_id, [revision.lineage])
    HeuristicRevision.objects.filter(pk=revision.pk).update(served=True)


def withdraw_revision(item: Heuristic) -> Any:
    """Take the served wording out of service; it becomes the current one. Return it.

    Raises:
        NotServable: none is served.
    """
    served = find_row(item.revisions.filter(served=True))
    if served is None:
        raise NotServable(
            f"This {item._meta.verbose_name} is {item.status} and is not being served, so nothing was changed."
        )
    item.revisions.filter(pk=served.pk).update(served=False)
    item.current_revision = served
    return served


def refuse_revision(item: Heuristic) -> str:
    """Make the served wording, if there is one, the current one again; return the status that follows."""
    served = find_row(item.revisions.filter(served=True))
    if served is None:
        return "rejected"
    item.current_revision = served
    return "approved"


def set_status(item: Heuristic, status: str, *more_fields: str) -> None:
    """Move a locked row to another status, and save its current revision and the fields named.

    A proposal that is decided on leaves its group.
    """
    if item.kind == Heuristic.Kind.LESSON and status != Heuristic.Status.PROPOSED:
        leave_group(item)
    item.status = status
    item.updated_at = timezone.now()
    item.save(update_fields=["status", "current_revision", "updated_at", *more_fields])
