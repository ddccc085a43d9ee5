"""Blocks as clients read and edit them."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field, model_validator

from memory.api.input import WHOLE, ContentHash, Id, Input, OneOf, wrong_member
from memory.api.output import Pagination
from memory.blocks.models import Block, BlockRevision
from memory.limits import DEFAULT_BLOCK_CHARS, MAX_BLOCK_CHARS, MAX_BLOCK_DESCRIPTION_CHARS, MAX_REASON_CHARS

MAX_PATCH_CHARS = 2 * MAX_BLOCK_CHARS  # it may remove a whole value and add another

Label = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_./-]{0,99}$", description="For example persona or human.")
]
Value = Annotated[str, Field(max_length=MAX_BLOCK_CHARS, description="What the block says.")]
Description = Annotated[
    str, Field(max_length=MAX_BLOCK_DESCRIPTION_CHARS, description="What belongs into it; agents read this.")
]
CharLimit = Annotated[int, Field(ge=1, le=MAX_BLOCK_CHARS, description="Most characters of the value."), WHOLE]
Why = Annotated[str, Field(max_length=MAX_REASON_CHARS, description="Why; kept in the history.")]
RevisionNumber = Annotated[int, Field(ge=1, le=2**31 - 1), WHOLE]
Conversation = Annotated[
    Id | None, Field(description="The conversation whose view is edited, where the policy is overlay.")
]


class BlockInput(Input):
    """A new block."""

    label: Label
    value: Value = ""
    description: Description = ""
    char_limit: CharLimit = DEFAULT_BLOCK_CHARS
    read_only: Annotated[bool, Field(description="Whether agents may only read it.")] = False
    policy: Annotated[
        str,
        OneOf(Block.Policy),
        Field(
            description="When an edit is in effect: `direct` at once; `overlay` in its conversation alone, proposed to "
            "the block at its end; `propose` after review. It cannot be changed."
        ),
    ] = Block.Policy.DIRECT.value


class _Edit(Input):
    reason: Why = ""
    conversation_id: Conversation = None


class BlockPatch(_Edit):
    """What to change; what is left out stays as it is."""

    value: Annotated[str | None, Field(max_length=MAX_BLOCK_CHARS, description="The whole new value.")] = None
    description: Annotated[str | None, Field(max_length=MAX_BLOCK_DESCRIPTION_CHARS)] = None
    char_limit: Annotated[int | None, Field(ge=1, le=MAX_BLOCK_CHARS), WHOLE] = None

    @model_validator(mode="after")
    def _changes_something(self) -> "BlockPatch":
        if self.value is None and self.description is None and self.char_limit is None:
            raise wrong_member("value", "Send a value, a description or a char_limit.")
        return self


class BlockAppend(_Edit):
    """A text to add on a line of its own."""

    text: Annotated[str, Field(min_length=1, max_length=MAX_BLOCK_CHARS)]


class BlockReplace(_Edit):
    """A text of the block, which occurs exactly once, and what to put in its place."""

    old: Annotated[str, Field(min_length=1, max_length=MAX_BLOCK_CHARS)]
    new: Annotated[str, Field(max_length=MAX_BLOCK_CHARS)]


class BlockDiff(_Edit):
    """A unified diff of the value."""

    patch: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_PATCH_CHARS,
            description="Hunks begin with a line such as `@@ -1,2 +1,3 @@`. The lines of a hunk decide where it is "
            "applied; its line number matters only if they occur more than once.",
        ),
    ]


class BlockUndo(_Edit):
    """Which value to bring back."""

    to: Annotated[
        RevisionNumber | None, Field(description="The number of a revision; null for the value before the last edit.")
    ] = None


class BlockDecision(Input):
    """A decision on a proposed revision."""

    decision: Literal["approve", "reject"]
    content_sha256: Annotated[ContentHash, Field(description="Of the value that was read.")]
    expected_revision: Annotated[
        RevisionNumber | None,
        Field(description="The revision in effect that it was compared with; needed if the block changed since."),
    ] = None
    reason: Why = ""


class BlockRevisionAnswer(BaseModel):
    """One value of a block and the edit that made it. Of an erased one the texts are empty."""

    id: UUID
    number: int
    value: str
    content_sha256: str
    operation: Annotated[str, OneOf(BlockRevision.Operation)]
    edit: Annotated[dict[str, Any], Field(description="The texts of an append, a replacement or a patch.")]
    status: Annotated[str, OneOf(BlockRevision.Status)]
    base: Annotated[int | None, Field(description="The number of the revision that it was made on.")]
    conversation_id: UUID | None
    run_id: UUID | None
    reason: str
    created_by: str
    created_at: datetime
    erased_at: datetime | None


class BlockAnswer(BaseModel):
    """A block with the revision in effect, or the one that a conversation sees."""

    id: UUID
    label: str
    description: str
    char_limit: int
    read_only: bool
    policy: Annotated[str, OneOf(Block.Policy)]
    value: str
    revision: Annotated[int, Field(description="Its number; `If-Match` takes it.")]
    content_sha256: str
    created_by: str
    created_at: datetime
    updated_at: datetime


class BlockEdited(BlockAnswer):
    """A block after an edit, and the revision that the edit made: it may wait for review."""

    made: BlockRevisionAnswer | None
    cleaned: Annotated[
        bool,
        Field(
            description="What was sent held hidden or direction characters, tokens of a chat template or delimiters of "
            "a prompt. It is stored, reviewed and given without them."
        ),
    ]


class BlockPage(BaseModel):
    """Blocks, the newest first."""

    results: list[BlockAnswer]
    pagination: Pagination


class BlockHistory(BaseModel):
    """Revisions, the newest first."""

    results: list[BlockRevisionAnswer]
    pagination: Pagination


def describe_revision(revision: BlockRevision) -> dict[str, Any]:
    """Return a revision, fetched with its base, as clients read it."""
    return {name: getattr(revision, name) for name in BlockRevisionAnswer.model_fields if name != "base"} | {
        "base": revision.base.number if revision.base is not None else None
    }


def describe_block(block: Block, seen: BlockRevision) -> dict[str, Any]:
    """Return a block as clients read it, with the revision that they see."""
    of_block = {name: getattr(block, name) for name in BlockAnswer.model_fields if hasattr(block, name)}
    return of_block | {"value": seen.value, "revision": seen.number, "content_sha256": seen.content_sha256}
