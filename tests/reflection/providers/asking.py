"""The request that provider tests send, and how they read a failure."""

from collections.abc import Callable

import pytest

from reflection.llm.base import Provider, ProviderError
from reflection.llm.chat import ChatRequest

KEY = "sk-test-0123456789abcdefghijklmnop"
SCHEMA = {"type": "object", "properties": {"learn": {"type": "boolean"}}, "required": ["learn"]}
REQUEST = ChatRequest.single(system="Be brief.", user="What now?", max_output_tokens=200, json_schema=SCHEMA)
Make = Callable[..., Provider]


def failure_of(provider: Provider, request: ChatRequest = REQUEST) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        provider.chat(request)
    return caught.value
