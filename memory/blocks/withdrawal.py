"""Take words out of blocks: those of a run that is erased, and those of a source under quarantine.

A block holds the words of many. What a revision added are the lines that its base lacks; where they still stand, word
for word, they go, and the rest stays.
"""

import json
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from uuid import UUID

from django.db.models import Q, QuerySet
from django.utils import timezone

from memory.blocks.edits import IN_EFFECT, take_out_of_effect
from memory.blocks.models import Block, BlockRevision
from memory.projects.actors import Actor
from memory.projects.models import ApiKey, Project
from memory.runs.models import Trajectory

_Status = BlockRevision.Status


def withdraw_source(project: Project, *, client: str, api_key: ApiKey | None, since: datetime, by: Actor) -> list[UUID]:
    """Take what a source wrote since a time out of effect; return the ids of the blocks that had it.

    History keeps it. Proposals of the source no longer wait, and conversations lose their view of it.
    """
    runs = Trajectory.objects.filter(project=project, created_at__gte=since, client=client)
    if api_key is not None:
        runs = runs.filter(api_key=api_key)
    written = BlockRevision.objects.filter(project=project, created_at__gte=since).filter(
        Q(created_by=f"key:{client}") | Q(run_id__in=runs.values("pk"))
    )
    return [block.pk for block in _lock_blocks(written) if _withdraw(block, written, by=by, reason="quarantine")]


def erase_run(run: Trajectory, *, by: Actor) -> list[UUID]:
    """Clear all that a run wrote to blocks, in effect and in history; return the ids of the blocks.

    Revisions that still hold its lines are cleared as well. Call it in the transaction that erases the run.
    """
    written = BlockRevision.objects.filter(project=run.project_id, run_id=run.pk, erased_at__isnull=True)
    blocks = _lock_blocks(written)
    for block in blocks:
        own = list(block.revisions.filter(run_id=run.pk).select_related("base"))
        lines = _find_added(own)
        # First the current value, so that the block already points at a clean revision when history is cleared.
        _withdraw(block, written, by=by, reason="erasure")
        # Nothing older than the first revision of the run can hold words of it.
        later = block.revisions.filter(number__gte=min(revision.number for revision in own))
        holding = [
            revision.pk
            for revision in later
            if revision.pk != block.current_id
            and (revision.run_id == run.pk or lines.intersection(revision.value.split("\n")))
        ]
        _clear(block, holding)
    return [block.pk for block in blocks]


def erase_lines(block: Block, *, holds: Callable[[str], bool], by: Actor) -> None:
    """Take the lines that hold something out of a block, and clear the revisions that hold it. Call it where erasure is
    allowed."""
    locked = Block.objects.select_for_update(of=("self",)).select_related("current").get(pk=block.pk)
    value = locked.current.value if locked.current is not None else ""
    kept = "\n".join(line for line in value.split("\n") if not holds(line))
    if kept != value:
        take_out_of_effect(locked, kept, by=by, reason="erasure")
    holding = [
        revision.pk
        for revision in locked.revisions.all()
        if revision.pk != locked.current_id
        and (holds(revision.value) or holds(json.dumps(revision.edit, ensure_ascii=False)) or holds(revision.reason))
    ]
    _clear(locked, holding)


def _clear(block: Block, revision_ids: list[UUID]) -> None:
    """Clear these revisions of a locked block; those that wait or are seen in one conversation alone end."""
    revisions = block.revisions.filter(pk__in=revision_ids)
    revisions.filter(status__in=[_Status.PROPOSED, _Status.OVERLAY]).update(status=_Status.SUPERSEDED)
    revisions.filter(erased_at__isnull=True).update(value="", edit={}, reason="", erased_at=timezone.now())


def _lock_blocks(written: QuerySet[BlockRevision]) -> list[Block]:
    ids = set(written.values_list("block", flat=True))
    locked = Block.objects.select_for_update(of=("self",)).select_related("current").filter(pk__in=ids)
    # In one order for all writers, so that two of them cannot deadlock.
    return list(locked.order_by("pk"))


def _withdraw(block: Block, written: QuerySet[BlockRevision], *, by: Actor, reason: str) -> bool:
    """Take the lines of these revisions out of a locked block; return whether it said any of them."""
    of_block = written.filter(block=block).select_related("base")
    of_block.filter(status__in=[_Status.PROPOSED, _Status.OVERLAY]).update(status=_Status.SUPERSEDED)
    lines = _find_added(of_block.filter(status__in=IN_EFFECT))
    value = block.current.value if block.current is not None else ""
    kept = "\n".join(line for line in value.split("\n") if line not in lines)
    if kept == value:
        return False
    take_out_of_effect(block, kept, by=by, reason=reason)
    return True


def _find_added(revisions: Iterable[BlockRevision]) -> set[str]:
    """Return the lines that these revisions have and their bases lack; blank ones say nothing."""
    added: set[str] = set()
    for revision in revisions:
        before: Collection[str] = set(revision.base.value.split("\n")) if revision.base is not None else ()
        added.update(line for line in revision.value.split("\n") if line.strip() and line not in before)
    return added
