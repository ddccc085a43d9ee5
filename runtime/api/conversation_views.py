"""Conversations over HTTP: read, rewind, fork, shorten and delete them."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework.generics import get_object_or_404
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.reverse import reverse

from memory.api.base import ApiView
from memory.api.pagination import LimitOffset
from memory.api.schema import LOCATION, describe
from memory.projects.models import ApiKey
from runtime.api.conversation_shapes import (
    ConversationAnswer,
    ForkInput,
    MessagePage,
    RewindInput,
    describe_conversation,
    describe_message,
)
from runtime.conversations import delete_conversation, fork_conversation, rewind_conversation, want_compaction
from runtime.models.conversations import Conversation, Message

Scope = ApiKey.Scope
_IDLE = "While a run goes on in it, this is refused with 409."


class ConversationView(ApiView):
    required_scopes = {"GET": Scope.RUN, "DELETE": Scope.TRAJECTORIES_WRITE}

    @describe(
        "getConversation",
        tag="agents",
        summary="Read what a conversation is",
        description="Where it comes from, what was rewound, and the model's window. Its messages are listed apart.",
        responses=ConversationAnswer,
    )
    def get(self, request: Request, id: UUID) -> Response:
        return Response(describe_conversation(get_conversation(self, id)))

    @describe(
        "deleteConversation",
        tag="agents",
        summary="Delete a conversation",
        description="Erases its runs as `DELETE /trajectories/{id}` does, with what was learnt only from them, then "
        f"its messages and their copies in forks. This cannot be undone. {_IDLE}",
        responses={204: OpenApiResponse(description="The conversation is erased.")},
    )
    def delete(self, request: Request, id: UUID) -> Response:
        delete_conversation(get_conversation(self, id), by=self.actor)
        return Response(status=204)


class RewindConversationView(ApiView):
    required_scopes = {"POST": Scope.RUN}

    @describe(
        "rewindConversation",
        tag="agents",
        summary="Rewind a conversation to a message",
        description="The model no longer reads what follows that message. The messages can still be listed, and what "
        f"tools did stays done. Then send a message, or resume the run that it belongs to. {_IDLE}",
        request=RewindInput,
        responses=ConversationAnswer,
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent = RewindInput.from_body(self.body)
        conversation = rewind_conversation(get_conversation(self, id), to=sent.message, by=self.actor)
        return Response(describe_conversation(conversation))


class ForkConversationView(ApiView):
    required_scopes = {"POST": Scope.RUN}
    body_optional = True

    @describe(
        "forkConversation",
        tag="agents",
        summary="Fork a conversation",
        description="Makes a new conversation that begins with copies of the messages up to one, and goes on by "
        f"itself. Views of memory blocks that the old one alone has stay there. {_IDLE}",
        request=ForkInput,
        responses={201: OpenApiResponse(ConversationAnswer, "It is made.")},
        parameters=[LOCATION],
    )
    def post(self, request: Request, id: UUID) -> Response:
        sent = ForkInput.from_body(self.body)
        fork = fork_conversation(get_conversation(self, id), through=sent.message, by=self.actor)
        location = reverse("agents_api:conversation", args=[fork.pk])
        return Response(describe_conversation(fork), status=201, headers={"Location": location})


class CompactConversationView(ApiView):
    required_scopes = {"POST": Scope.RUN}
    body_optional = True

    @describe(
        "compactConversation",
        tag="agents",
        summary="Shorten a conversation",
        description="Before the model is asked next, all but the newest turn is summarised, as the agent's "
        f"`compaction` says. {_IDLE}",
        request=None,
        responses=ConversationAnswer,
    )
    def post(self, request: Request, id: UUID) -> Response:
        return Response(describe_conversation(want_compaction(get_conversation(self, id))))


class MessageListView(ApiView):
    required_scopes = {"GET": Scope.RUN}
    pagination_class = LimitOffset
    queryset = Message.objects.none()
    allowed_query_params = frozenset({"query"})

    @describe(
        "listMessages",
        tag="agents",
        summary="Read a conversation",
        description="All its messages in their order, also those for which a summary stands in the prompt"
        " and those that were rewound.",
        parameters=[OpenApiParameter("query", str, description="Only messages that hold this text.")],
        responses=MessagePage,
    )
    def get(self, request: Request, id: UUID) -> Response:
        rows: Any = get_conversation(self, id).messages.order_by("seq")
        if text := request.query_params.get("query", ""):
            rows = rows.filter(content__icontains=text)
        return self.answer_rows(rows, describe_message)


def get_conversation(view: ApiView, id: UUID) -> Conversation:
    """Return a conversation of the caller's project, or answer 404."""
    conversation: Conversation = get_object_or_404(Conversation.objects.for_project(view.project), pk=id)
    return conversation
