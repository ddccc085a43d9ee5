"""The forms in which steps are read and the one in which they are written, for the OpenAPI document.

What is accepted is decided by `memory.runs.steps`; these fields pass it on as it came.
"""

from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_field
from rest_framework import serializers

from memory.runs.chat_messages import ROLES


class ActionSerializer(serializers.Serializer[Any]):
    """A tool call."""

    name = serializers.CharField(help_text="The tool.")
    arguments = serializers.DictField(help_text="Its arguments by name.")


class StepSerializer(serializers.Serializer[Any]):
    """One step of a run as it is stored."""

    index = serializers.IntegerField(min_value=1, help_text="Counts from 1.")
    thought = serializers.CharField(allow_blank=True)
    action = ActionSerializer(allow_null=True)
    observation = serializers.CharField(allow_blank=True, help_text="What the action returned.")
    error = serializers.CharField(allow_blank=True, help_text="What went wrong, if anything did.")


@extend_schema_field(
    {
        "oneOf": [
            {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "arguments": {"type": ["object", "string"]}},
            },
            {"type": "string"},
            {"type": "null"},
        ]
    }
)
class ActionInputField(serializers.JSONField):
    """A tool call in any form that is read."""


class StepInputSerializer(serializers.Serializer[Any]):
    """One step of a run: every member may be left out."""

    thought = serializers.CharField(required=False, allow_null=True)
    action = ActionInputField(
        required=False,
        help_text='The tool call: `{name, arguments}`, or a text such as `search[red shoes]` or `get_user({"id": 1})`.',
    )
    observation = serializers.CharField(required=False, allow_null=True, help_text="What the action returned.")
    error = serializers.CharField(required=False, allow_null=True, help_text="What went wrong, if anything did.")
    index = serializers.IntegerField(required=False, help_text="The number of the step, counted from 1.")


@extend_schema_field({"type": ["string", "array", "null"], "items": {}})
class MessageContentField(serializers.JSONField):
    """A text or content parts."""


class ChatMessageSerializer(serializers.Serializer[Any]):
    """A chat message as the OpenAI API has it; assistant messages may carry tool calls."""

    role = serializers.ChoiceField(choices=[(role, role) for role in ROLES])
    content = MessageContentField(required=False)
    tool_calls = serializers.ListField(child=serializers.DictField(), required=False)
    tool_call_id = serializers.CharField(required=False, help_text="Of a tool message: the call it answers.")
    name = serializers.CharField(required=False)


@extend_schema_field(
    PolymorphicProxySerializer(
        component_name="StepOrMessage",
        serializers=[StepInputSerializer, ChatMessageSerializer],
        resource_type_field_name=None,
        many=True,
    )
)
class StepsField(serializers.JSONField):
    """Steps in any form that is read; `normalise_steps` checks them."""


@extend_schema_field(ChatMessageSerializer(many=True))
class MessagesField(serializers.JSONField):
    """A chat log."""
