"""The request that provider tests send, and how they read a failure."""

from collections.abc import Callable

import pytest

from reflection.llm.base import CompletionRequest, Provider, ProviderError

KEY = "sk-test-0123456789abcdefghijklmnop"
SCHEMA = {"type": "object", "properties": {"learn": {"type": "boolean"}}, "required": ["learn"]}
REQUEST = CompletionRequest(system="Be brief.", user="What now?", max_output_tokens=200, json_schema=SCHEMA)
Make = Callable[..., Provider]


def failure_of(provider: Provider, request: CompletionRequest = REQUEST) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        provider.complete(request)
    return caught.value
