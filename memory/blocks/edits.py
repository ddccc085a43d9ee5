"""Edits of blocks. Each is one function, makes one revision and never loses another writer's words.

A writer holds the row of the block, so that two appends both stay. An edit that rests on what was read names the
revision it was read in.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from memory.blocks.models import Block, BlockRevision
from memory.blocks.reading import read_block
from memory.blocks.text_edits import append_text, apply_patch, replace_once
from memory.errors import BlockFull, BlockReadOnly, ChangedMeanwhile, CoveredByOrder, NothingChanged, UnusableText
from memory.failpoints import failpoint
from memory.limits import DEFAULT_BLOCK_CHARS
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.redaction import redact, redact_text
from memory.retrieval.safe_text import clean, clean_text
from memory.review.decisions import add_revision

_Operation, _Status, _Policy = BlockRevision.Operation, BlockRevision.Status, Block.Policy
IN_EFFECT = (_Status.APPLIED, _Status.APPROVED)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewBlock:
    """What a block starts with."""

    label: str
    value: str = ""
    description: str = ""
    char_limit: int = DEFAULT_BLOCK_CHARS
    read_only: bool = False
    policy: str = _Policy.DIRECT


@dataclass(frozen=True, kw_only=True, slots=True)
class Edit:
    """Who edits a block, where and why.

    Args:
        conversation: whose view of the block is edited, where the policy is overlay.
        run_id: the run that writes. Where it is recorded under this id, erasing it takes its words out.
        expected_revision: the number of the revision that was read; another one refuses the edit.
        by_agent: an agent writes, which may not edit what is read-only.
    """

    by: Actor
    reason: str = ""
    conversation: UUID | None = None
    run_id: UUID | None = None
    expected_revision: int | None = None
    by_agent: bool = True


@transaction.atomic
def create_block(project: Project, new: NewBlock, *, by: Actor) -> Block:
    """Make a block whose first value is in effect.

    Raises:
        BlockFull: the value is longer than the limit.
    """
    block = Block.objects.create(
        project=project,
        label=new.label,
        description=clean(redact_text(check_text(new.description))),
        char_limit=new.char_limit,
        read_only=new.read_only,
        policy=new.policy,
        created_by=by.label,
    )
    value = redact_text(check_text(new.value))
    revision = _add_revision(block, _Operation.CREATE, value, Edit(by=by), status=_Status.APPLIED)
    put_in_effect(block, revision)
    return block


def append_to_block(block: Block, *, text: str, edit: Edit) -> BlockRevision:
    """Add a text on a line of its own.

    Raises:
        BlockFull, BlockReadOnly, ChangedMeanwhile, NothingChanged, CoveredByOrder: nothing was changed.
    """
    return _write(block, _Operation.APPEND, {"text": check_text(text)}, edit)


def replace_in_block(block: Block, *, old: str, new: str, edit: Edit) -> BlockRevision:
    """Replace a text that occurs exactly once.

    Raises:
        NoSingleMatch: it does not; the error says how often it occurs.
        BlockFull, BlockReadOnly, ChangedMeanwhile, NothingChanged, CoveredByOrder: as for `append_to_block`.
    """
    return _write(block, _Operation.REPLACE, {"old": check_text(old), "new": check_text(new)}, edit)


def patch_block(block: Block, *, patch: str, edit: Edit) -> BlockRevision:
    """Apply a unified diff.

    Raises:
        PatchDoesNotApply: see `apply_patch`.
        BlockFull, BlockReadOnly, ChangedMeanwhile, NothingChanged, CoveredByOrder: as for `append_to_block`.
    """
    return _write(block, _Operation.PATCH, {"patch": check_text(patch)}, edit)


def set_block(block: Block, *, value: str, edit: Edit) -> BlockRevision:
    """Replace the whole value.

    Raises:
        BlockFull, BlockReadOnly, ChangedMeanwhile, NothingChanged, CoveredByOrder: as for `append_to_block`.
    """
    return _write(block, _Operation.SET, {"value": check_text(value)}, edit)


@transaction.atomic
def undo_block(block: Block, *, edit: Edit, to: int | None = None) -> BlockRevision:
    """Bring back the value before the last edit, or that of a revision that was in effect, byte for byte.

    An undo after an undo goes one step further back. It is an edit itself: the policy of the block decides when it is
    in effect, and it can be undone by naming a revision.

    Raises:
        NothingChanged: there is no earlier value, or the revision named was never in effect here.
        BlockFull, BlockReadOnly, ChangedMeanwhile, CoveredByOrder: as for `append_to_block`.
    """
    locked, seen = _lock(block, edit)
    target = _find_earlier(locked, seen) if to is None else _find_named(locked, to, edit)
    return _finish(locked, _Operation.UNDO, target.value, edit, base=seen, restores=target)


@transaction.atomic
def change_block(
    block: Block, *, edit: Edit, value: str | None = None, description: str | None = None, char_limit: int | None = None
) -> Block:
    """Change what is given: the description and the limit at once, the value by the policy of the block.

    Raises:
        BlockFull: the value is longer than the limit, the new one where it changes too.
        BlockReadOnly, ChangedMeanwhile, NothingChanged, CoveredByOrder: as for `append_to_block`.
    """
    locked, _ = _lock(block, edit)
    # A longer value needs the wider limit first; a shorter limit needs the shorter value first.
    widens = char_limit is not None and char_limit > locked.char_limit
    if value is not None and not widens:
        set_block(locked, value=value, edit=edit)
    # Read again, since the edit above may have put a new value in effect.
    current = Block.objects.select_related("current").get(pk=locked.pk).current
    if char_limit is not None and current is not None and len(current.value) > char_limit:
        raise BlockFull(limit=char_limit, length=len(current.value))
    changed: dict[str, Any] = {} if char_limit is None else {"char_limit": char_limit}
    if description is not None:
        changed["description"] = clean(redact_text(check_text(description)))
    if changed:
        Block.objects.filter(pk=locked.pk).update(**changed, updated_at=timezone.now())
    if value is not None and widens:
        set_block(locked, value=value, edit=edit)
    return Block.objects.get(pk=locked.pk)


def make_value(operation: str, texts: dict[str, str], value: str) -> str:
    """Make an edit on a value. The result is safe in a prompt, wherever the words in it met."""
    match operation:
        case _Operation.APPEND:
            made = append_text(value, texts["text"])
        case _Operation.REPLACE:
            made = replace_once(value, texts["old"], texts["new"])
        case _Operation.PATCH:
            made = apply_patch(value, texts["patch"])
        case _:
            made = texts["value"]
    # After the edit: a secret or a tag may come together from two harmless halves.
    return clean_text(redact_text(made))


def add_waiting(block: Block, operation: str, value: str, edit: Edit, **columns: Any) -> BlockRevision:
    """Propose a value for a locked block."""
    return _add_revision(block, operation, value, edit, status=_Status.PROPOSED, **columns)


def put_in_effect(block: Block, revision: BlockRevision) -> None:
    """Let a revision be what a locked block says."""
    Block.objects.filter(pk=block.pk).update(current=revision, updated_at=timezone.now())
    block.current = revision


def take_out_of_effect(block: Block, value: str, *, by: Actor, reason: str) -> BlockRevision:
    """Give a locked block a value from which words were taken out, whatever its policy."""
    edit = Edit(by=by, reason=reason, by_agent=False)
    return _finish(block, _Operation.WITHDRAW, value, edit, base=block.current, status=_Status.APPLIED)


def check_text(text: str) -> str:
    """Refuse what PostgreSQL cannot store.

    Raises:
        UnusableText: it holds U+0000 or half of a surrogate pair.
    """
    if "\x00" in text or any("\ud800" <= sign <= "\udfff" for sign in text):
        raise UnusableText("The text holds U+0000 or half of a surrogate pair. Leave it out; nothing was changed.")
    return text


@transaction.atomic
def _write(block: Block, operation: str, texts: dict[str, str], edit: Edit) -> BlockRevision:
    locked, seen = _lock(block, edit)
    value = make_value(operation, texts, seen.value)
    if value == seen.value:
        raise NothingChanged(f"The block {locked.label} says exactly this already, so nothing was changed.")
    # A set is the whole value, which the revision holds anyway.
    kept = {} if operation == _Operation.SET else redact(texts).value
    return _finish(locked, operation, value, edit, base=seen, edit_texts=kept)


def _lock(block: Block, edit: Edit) -> tuple[Block, BlockRevision]:
    """Hold the block until the transaction ends; return it with the revision that the writer sees."""
    locked = Block.objects.select_for_update(of=("self",)).select_related("current").get(pk=block.pk)
    if locked.read_only and edit.by_agent:
        raise BlockReadOnly(f"The block {locked.label} is read-only for agents, so nothing was changed.")
    seen = read_block(locked, edit.conversation)
    # Under the lock, so that nothing changes between this check and the write.
    if edit.expected_revision not in (None, seen.number):
        raise ChangedMeanwhile(
            f"The block {locked.label} is at revision {seen.number}, not {edit.expected_revision}: it was changed "
            "after you read it. Nothing was changed. Read it again, make your edit on what it says now, and name the "
            f"revision {seen.number}."
        )
    return locked, seen


def _finish(
    block: Block, operation: str, value: str, edit: Edit, *, base: BlockRevision | None, **columns: Any
) -> BlockRevision:
    """Write the revision that an edit of a locked block makes, and put it in effect if the policy says so."""
    status = columns.pop("status", None) or _choose_status(block, edit)
    # Only what takes effect replaces something; a proposal gets this when it is approved.
    replaced = block.current if status == _Status.APPLIED else None
    revision = _add_revision(block, operation, value, edit, status=status, base=base, replaced=replaced, **columns)
    if status == _Status.APPLIED:
        put_in_effect(block, revision)
    failpoint("block.before_commit")
    return revision


def _choose_status(block: Block, edit: Edit) -> str:
    if block.policy == _Policy.DIRECT:
        return _Status.APPLIED
    if block.policy == _Policy.OVERLAY and edit.conversation is not None:
        return _Status.OVERLAY
    return _Status.PROPOSED


def _add_revision(
    block: Block, operation: str, value: str, edit: Edit, *, edit_texts: dict[str, str] | None = None, **columns: Any
) -> BlockRevision:
    value = clean_text(value)  # an undo brings back what was stored before values were cleaned
    if len(value) > block.char_limit:
        raise BlockFull(limit=block.char_limit, length=len(value))
    texts = {"value": value, "edit": edit_texts or {}, "reason": redact_text(check_text(edit.reason))}
    columns |= texts | {"operation": operation, "conversation_id": edit.conversation, "run_id": edit.run_id}
    # A withdrawal must not be refused: it is how the words under an order go.
    if columns["status"] == _Status.APPLIED and operation != _Operation.WITHDRAW:
        check_writer(BlockRevision(project_id=block.project_id, created_by=edit.by.label, **columns))
    revision: BlockRevision = add_revision(block, by=edit.by, **columns)
    revision.refresh_from_db(fields=["content_sha256", "created_at"])  # the database makes them
    return revision


def check_writer(revision: BlockRevision) -> None:
    """Refuse to put words in effect that a quarantine order covers.

    Raises:
        CoveredByOrder: an order in force is on who wrote them, or on words that an undo would bring back.
    """
    with connection.cursor() as cursor:
        # The rule exists once, in the database, whose trigger asks the same function with the whole row.
        cursor.execute(
            "SELECT memory_order_on_revision(jsonb_populate_record(NULL::memory_blockrevision, jsonb_build_object("
            "'project_id', %s::uuid, 'created_by', %s::text, 'run_id', %s::uuid, 'restores_id', %s::uuid)))",
            [revision.project_id, revision.created_by, revision.run_id, revision.restores_id],
        )
        (order,) = cursor.fetchone()
    if order is not None:
        raise CoveredByOrder(order)


def _find_earlier(block: Block, seen: BlockRevision) -> BlockRevision:
    """Return what stood there before the last edit that no undo has taken back yet."""
    step: BlockRevision | None = seen
    # Undos are followed to what they restored, so that a second undo goes back and not forth.
    while step is not None and step.operation == _Operation.UNDO:
        step = step.restores
    earlier = None if step is None else step.replaced if step.status in IN_EFFECT else step.base
    if earlier is None or earlier.erased_at is not None:
        raise NothingChanged(f"The block {block.label} has no earlier value to return to, so nothing was changed.")
    return earlier


def _find_named(block: Block, number: int, edit: Edit) -> BlockRevision:
    target = block.revisions.filter(number=number, erased_at__isnull=True).first()
    own = target is not None and edit.conversation is not None and target.conversation_id == edit.conversation
    if target is None or not (target.status in IN_EFFECT or own):
        raise NothingChanged(
            f"The block {block.label} has no revision {number} that was in effect, so nothing was changed. Its history "
            "lists them."
        )
    return target
