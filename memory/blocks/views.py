"""Blocks over HTTP."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django_filters import rest_framework as filters
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from memory.api.base import ApiView
from memory.api.errors import ErrorCode, Refusal
from memory.api.filters import ExactText
from memory.api.pagination import LimitOffset
from memory.api.schema import LOCATION, describe
from memory.blocks.decisions import decide_block_revision
from memory.blocks.edits import (
    Edit,
    NewBlock,
    append_to_block,
    change_block,
    create_block,
    patch_block,
    replace_in_block,
    undo_block,
)
from memory.blocks.models import Block, BlockRevision
from memory.blocks.reading import read_block
from memory.blocks.serializers import (
    BlockAnswer,
    BlockAppend,
    BlockDecision,
    BlockDiff,
    BlockEdited,
    BlockHistory,
    BlockInput,
    BlockPage,
    BlockPatch,
    BlockReplace,
    BlockUndo,
    describe_block,
    describe_revision,
)
from memory.errors import ChangedMeanwhile
from memory.projects.models import ApiKey
from memory.retrieval.safe_text import needs_cleaning

Scope = ApiKey.Scope
ETAG = OpenApiParameter(
    "ETag",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    response=[200, 201],
    description="The number of the revision in double quotes.",
)
IF_MATCH = OpenApiParameter(
    "If-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description='The ETag you read, such as `"3"`; 412 if the block has changed since.',
)
_CLEANED = ("value", "text", "new", "patch", "description")  # what a body may say of what agents read
CONVERSATION = OpenApiParameter(
    "conversation_id", OpenApiTypes.UUID, description="Read the block as this conversation sees it."
)


class BlockFilter(filters.FilterSet):  # type: ignore[misc]
    label = ExactText(help_text="The whole label.")
    policy = filters.ChoiceFilter(choices=Block.Policy.choices, help_text="When edits are in effect.")


class BlockListView(ApiView):
    required_scopes = {"GET": Scope.MEMORY_READ, "POST": Scope.MEMORY_WRITE}
    pagination_class = LimitOffset
    filterset_class = BlockFilter
    queryset = Block.objects.none()

    @describe(
        "listBlocks",
        tag="blocks",
        summary="List blocks",
        description="The project's memory blocks with what they say, the newest first.",
        filters=True,
        responses=BlockPage,
    )
    def get(self, request: Request) -> Response:
        blocks = Block.objects.filter(project=self.project, current__isnull=False).select_related("current")
        page = self.paginate_queryset(self.filter_queryset(blocks)) or ()
        return self.get_paginated_response([describe_block(block, block.current) for block in page if block.current])

    @describe(
        "createBlock",
        tag="blocks",
        summary="Make a block",
        description="Its first value is in effect. Several blocks of a project may have the same label.",
        request=BlockInput,
        responses={201: OpenApiResponse(BlockEdited, "It is made.")},
        parameters=[LOCATION, ETAG],
    )
    def post(self, request: Request) -> Response:
        sent = BlockInput.from_body(self.body)
        new = NewBlock(**{name: getattr(sent, name) for name in BlockInput.model_fields})
        block = create_block(self.project, new, by=self.actor)
        response = answer_edit(block, block.current, sent=sent, status=201)
        response["Location"] = reverse("api:block", args=[block.pk])
        return response


class BlockView(ApiView):
    required_scopes = {"GET": Scope.MEMORY_READ, "PATCH": Scope.MEMORY_WRITE}
    allowed_query_params = frozenset({"conversation_id"})

    @describe(
        "getBlock",
        tag="blocks",
        summary="Read a block",
        description="What is in effect; with `conversation_id` what that conversation sees. The ETag names the "
        "revision.",
        responses=BlockAnswer,
        parameters=[ETAG, CONVERSATION],
    )
    def get(self, request: Request, id: UUID) -> Response:
        return answer_block(get_block(self, id), conversation=read_conversation(request))

    @describe(
        "changeBlock",
        tag="blocks",
        summary="Change a block",
        description="A new description or limit is in effect at once, a new value by the policy of the block. Send "
        "`If-Match` so that only the value you read is replaced. This also changes blocks that are read-only for "
        "agents.",
        request=BlockPatch,
        responses=BlockEdited,
        parameters=[ETAG, IF_MATCH],
    )
    def patch(self, request: Request, id: UUID) -> Response:
        sent = BlockPatch.from_body(self.body)
        block = get_block(self, id)
        # The change may make no revision; only one with a higher number is the one that it made.
        newest = block.revisions.order_by("-number").values_list("number", flat=True).first() or 0
        with_refusal(
            request,
            lambda: change_block(
                block,
                edit=read_edit(self, request, sent, by_agent=False),
                value=sent.value,
                description=sent.description,
                char_limit=sent.char_limit,
            ),
        )
        made = block.revisions.select_related("base").filter(number__gt=newest).first()
        return answer_edit(get_block(self, id), made, sent=sent, conversation=sent.conversation_id)


class BlockEditView(ApiView):
    """What the edits share. A subclass reads the body and makes the edit."""

    reads_if_match = True
    required_scopes = {"POST": Scope.MEMORY_WRITE}
    input: type[Any]

    def edit(self, block: Block, sent: Any, edit: Edit) -> BlockRevision:
        raise NotImplementedError

    def answer(self, request: Request, id: UUID) -> Response:
        sent = self.input.from_body(self.body)
        block = get_block(self, id)
        edit = read_edit(self, request, sent)
        made = with_refusal(request, lambda: self.edit(block, sent, edit))
        return answer_edit(get_block(self, id), made, sent=sent, conversation=sent.conversation_id)


class BlockAppendView(BlockEditView):
    input = BlockAppend

    def edit(self, block: Block, sent: Any, edit: Edit) -> BlockRevision:
        return append_to_block(block, text=sent.text, edit=edit)

    @describe(
        "appendToBlock",
        tag="blocks",
        summary="Append to a block",
        description="Adds a text on a line of its own. Of two clients that append at once, both texts stay.",
        request=BlockAppend,
        responses=BlockEdited,
        parameters=[ETAG, IF_MATCH],
    )
    def post(self, request: Request, id: UUID) -> Response:
        return self.answer(request, id)


class BlockReplaceView(BlockEditView):
    input = BlockReplace

    def edit(self, block: Block, sent: Any, edit: Edit) -> BlockRevision:
        return replace_in_block(block, old=sent.old, new=sent.new, edit=edit)

    @describe(
        "replaceInBlock",
        tag="blocks",
        summary="Replace a text in a block",
        description="The text has to occur exactly once; otherwise the error says how often it does.",
        request=BlockReplace,
        responses=BlockEdited,
        parameters=[ETAG, IF_MATCH],
    )
    def post(self, request: Request, id: UUID) -> Response:
        return self.answer(request, id)


class BlockPatchView(BlockEditView):
    input = BlockDiff

    def edit(self, block: Block, sent: Any, edit: Edit) -> BlockRevision:
        return patch_block(block, patch=sent.patch, edit=edit)

    @describe(
        "patchBlock",
        tag="blocks",
        summary="Apply a diff to a block",
        description="A unified diff, all of it or nothing.",
        request=BlockDiff,
        responses=BlockEdited,
        parameters=[ETAG, IF_MATCH],
    )
    def post(self, request: Request, id: UUID) -> Response:
        return self.answer(request, id)


class BlockUndoView(BlockEditView):
    input = BlockUndo
    body_optional = True

    def edit(self, block: Block, sent: Any, edit: Edit) -> BlockRevision:
        return undo_block(block, edit=edit, to=sent.to)

    @describe(
        "undoBlock",
        tag="blocks",
        summary="Undo edits of a block",
        description="Brings back the value before the last edit, or that of the revision `to`, byte for byte. After "
        "an undo it goes one step further back. An undo is an edit: where the policy is `propose`, it "
        "waits for review.",
        request=BlockUndo,
        responses=BlockEdited,
        parameters=[ETAG, IF_MATCH],
    )
    def post(self, request: Request, id: UUID) -> Response:
        return self.answer(request, id)


class BlockHistoryView(ApiView):
    required_scopes = {"GET": Scope.MEMORY_READ}
    pagination_class = LimitOffset
    queryset = BlockRevision.objects.none()

    @describe(
        "getBlockHistory",
        tag="blocks",
        summary="List the history of a block",
        description="Every revision, with what waits for review and the views of conversations, the newest first.",
        responses=BlockHistory,
    )
    def get(self, request: Request, id: UUID) -> Response:
        revisions = get_block(self, id).revisions.select_related("base").order_by("-number")
        return self.answer_rows(revisions, describe_revision)


class BlockDecisionView(ApiView):
    required_scopes = {"POST": Scope.REVIEW}

    @describe(
        "decideBlockRevision",
        tag="blocks",
        summary="Decide on a proposed edit of a block",
        description="By the id of the revision. An approval is in effect at once. Other edits that wait for the block "
        "are then made again on the approved value.",
        request=BlockDecision,
        responses=BlockEdited,
        parameters=[ETAG],
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent = BlockDecision.from_body(self.body)
        revisions = BlockRevision.objects.filter(project=self.project).select_related("base")
        revision: BlockRevision = get_object_or_404(revisions, pk=id)
        decide_block_revision(
            revision,
            decision=sent.decision,
            content_sha256=sent.content_sha256,
            by=self.actor,
            reason=sent.reason,
            expected_revision=sent.expected_revision,
        )
        return answer_edit(get_block(self, revision.block_id), revisions.get(pk=id), sent=sent)


def get_block(view: ApiView, id: UUID) -> Block:
    """Return a block of the caller's project, or answer 404."""
    blocks = Block.objects.filter(project=view.project, current__isnull=False).select_related("current")
    block: Block = get_object_or_404(blocks, pk=id)
    return block


def answer_edit(
    block: Block, made: BlockRevision | None, *, sent: Any, conversation: UUID | None = None, status: int = 200
) -> Response:
    """Answer with a block as it is now, with the revision that an edit made, and whether what was sent was cleaned."""
    response = answer_block(block, conversation=conversation, status=status)
    response.data["made"] = describe_revision(made) if made is not None else None
    response.data["cleaned"] = needs_cleaning(*(text for name in _CLEANED if (text := getattr(sent, name, None))))
    return response


def answer_block(block: Block, *, conversation: UUID | None = None, status: int = 200) -> Response:
    """Answer with a block as it is now, and an ETag of the revision."""
    assert block.current is not None, "every block has a value"
    seen = block.current if conversation is None else read_block(block, conversation)
    response = Response(describe_block(block, seen), status=status, headers={"ETag": f'"{seen.number}"'})
    # The stored answer holds words of the block, which an erasure has to reach.
    response.resource_id = block.pk  # type: ignore[attr-defined]
    return response


def read_edit(view: ApiView, request: Request, sent: Any, *, by_agent: bool = True) -> Edit:
    """Return who edits and what was read."""
    return Edit(
        by=view.actor,
        reason=sent.reason,
        conversation=sent.conversation_id,
        expected_revision=read_expected(request),
        by_agent=by_agent,
    )


def read_expected(request: Request) -> int | None:
    """Return the number that If-Match names; None where it is absent or names any."""
    header: str = request.META.get("HTTP_IF_MATCH", "").strip()
    if header in ("", "*"):
        return None
    number = header.strip('"')
    # 0 is the number of no revision: an ETag that is not ours fails the comparison, as RFC 9110 wants.
    return int(number) if number.isascii() and number.isdecimal() and len(number) < 10 else 0


def read_conversation(request: Request) -> UUID | None:
    """Return the conversation that the query names."""
    text = request.query_params.get("conversation_id")
    try:
        return UUID(text) if text is not None else None
    except ValueError:
        fault = "Send a UUID."
        raise Refusal(
            ErrorCode.INVALID_QUERY, f"conversation_id: {fault}", fields={"conversation_id": [fault]}
        ) from None


def with_refusal(request: Request, edit: Callable[[], Any]) -> Any:
    """Make an edit. Where If-Match names another revision, the status is 412."""
    try:
        return edit()
    except ChangedMeanwhile as error:
        raise Refusal(ErrorCode.CHANGED_MEANWHILE, str(error), status=412) from None
