"""What a block says: to all, or in one conversation."""

from collections.abc import Collection
from uuid import UUID

from memory.blocks.models import Block, BlockRevision

_Status = BlockRevision.Status


def read_block(block: Block, conversation: UUID | None = None) -> BlockRevision:
    """Return the revision in effect; in a conversation the one that it alone sees, if it has one."""
    return read_blocks([block.pk], conversation)[block.pk]


def read_blocks(block_ids: Collection[UUID], conversation: UUID | None = None) -> dict[UUID, BlockRevision]:
    """Return the revisions in effect by the ids of their blocks. One query, two in a conversation."""
    shared = Block.objects.filter(pk__in=block_ids, current__isnull=False).select_related("current")
    revisions = {block.pk: block.current for block in shared if block.current is not None}
    if conversation is not None:
        own = BlockRevision.objects.filter(
            block__in=block_ids,
            block__policy=Block.Policy.OVERLAY,
            conversation_id=conversation,
            status__in=[_Status.OVERLAY, _Status.PROPOSED],
        )
        revisions |= {
            revision.block_id: revision for revision in own.order_by("block_id", "-number").distinct("block_id")
        }
    return revisions
