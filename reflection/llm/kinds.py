"""The models of each kind of provider, made with pydantic-ai and an HTTP client of ours."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from pydantic_ai.models import Model, infer_model
from pydantic_ai.providers import Provider, infer_provider_class

from reflection.llm.base import ProviderConfig

OWN_FORMAT = ("anthropic", "google", "mistral")
OPENAI_KINDS = ("openai", "openai-chat", "openai-responses", "azure")
KNOWN_SERVERS = ("openai", "openai-chat", "openai-responses", "deepseek", "openrouter", "ollama", "vllm")
NO_KEY = "none"  # servers of one's own ask for none, and SDKs insist on one


def build_model(config: ProviderConfig, model: str, client: httpx2.AsyncClient) -> Model:
    """Return a model of the provider. The kind says which API is spoken, and what its models want."""
    kind = config.kind or config.name
    if kind not in OWN_FORMAT:
        return _build_openai(config, kind, model, client)
    connect: Any = infer_provider_class(kind)
    # These SDKs add the version themselves.
    base_url = config.base_url.rstrip("/").removesuffix("/v1")
    provider = connect(api_key=config.api_key or NO_KEY, base_url=base_url, http_client=client)
    return infer_model(f"{kind}:{model}", lambda _: provider)


def _build_openai(config: ProviderConfig, kind: str, model: str, client: httpx2.AsyncClient) -> Model:
    """Return a model behind OpenAI's Responses or chat completions, or a server that speaks the latter."""
    from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
    from pydantic_ai.profiles import merge_profile
    from pydantic_ai.profiles.openai import OpenAIModelProfile

    from reflection.llm.openai_chat import LooseChatModel, LooseOpenRouterModel

    provider = _connect(config, kind, client)
    # An answer that breaks off must not pass for one that has ended
    profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=True)
    # OpenAI's newer models refuse the older name of the limit; other servers ignore the newer one.
    if kind not in OPENAI_KINDS:
        profile["openai_chat_supports_max_completion_tokens"] = False
    profile = merge_profile(provider.model_profile(model), profile)
    if kind == "openrouter":
        return LooseOpenRouterModel(model, provider=provider, profile=profile)
    is_openai = urlsplit(config.base_url).hostname == "api.openai.com"
    if kind == "openai-responses" or (kind == "openai" and is_openai):
        # Nothing is kept at OpenAI: what the model thought comes back encrypted, and is sent with the conversation.
        settings = OpenAIResponsesModelSettings(openai_store=False)
        return OpenAIResponsesModel(model, provider=provider, profile=profile, settings=settings)
    return LooseChatModel(model, provider=provider, profile=profile)


def _connect(config: ProviderConfig, kind: str, client: httpx2.AsyncClient) -> Provider[Any]:
    key = config.api_key or NO_KEY
    if kind == "azure":
        from pydantic_ai.providers.azure import AzureProvider

        # A dated version of the API stands in the address, as Azure's portal shows it; the deployment is the model.
        version = parse_qs(urlsplit(config.base_url).query).get("api-version", [None])[0]
        address = config.base_url.partition("?")[0]
        endpoint = address.partition("/openai/")[0].removesuffix("/openai") if version else address
        return AzureProvider(azure_endpoint=endpoint, api_version=version, api_key=key, http_client=client)
    from openai import AsyncOpenAI
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    # No retries by the SDK: each is paid for, and the queue decides when to try again.
    sdk = AsyncOpenAI(api_key=key, base_url=config.base_url, http_client=client, max_retries=0)
    if kind not in KNOWN_SERVERS:
        return OpenAICompatibleProvider(config.name, openai_client=sdk)
    connect: Any = infer_provider_class(kind)
    provider: Provider[Any] = connect(openai_client=sdk)
    return provider
