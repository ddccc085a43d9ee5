"""The error shape as serializers, for the OpenAPI schema only."""

from typing import Any

from rest_framework import serializers

from memory.api.errors import ErrorCode


class ErrorSerializer(serializers.Serializer[Any]):
    code = serializers.ChoiceField(choices=ErrorCode.choices)
    message = serializers.CharField(help_text="A sentence that says what to do next.")
    request_id = serializers.CharField(help_text="The X-Request-ID of this response.")
    retryable = serializers.BooleanField(help_text="Whether the same request may succeed if it is sent again.")
    fields = serializers.DictField(  # type: ignore[assignment]
        child=serializers.ListField(child=serializers.CharField()),
        help_text="What is wrong where: JSON pointers for the body, bare names for query parameters.",
    )


class ProblemSerializer(serializers.Serializer[Any]):
    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField()
    error = ErrorSerializer()
