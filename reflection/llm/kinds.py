"""The models of each kind of provider, made with pydantic-ai and an HTTP client of ours."""

from urllib.parse import urlsplit

import httpx2
from pydantic_ai.models import Model

from reflection.llm.base import ProviderConfig

OPENAI_KINDS = ("openai", "openai-chat", "openai-responses", "azure")
NO_KEY = "none"  # servers of one's own ask for none, and SDKs insist on one


def build_model(config: ProviderConfig, model: str, client: httpx2.AsyncClient) -> Model:
    """Return a model of the provider. The kind says which API is spoken, and what its models want."""
    key = config.api_key or NO_KEY
    kind = config.kind or config.name
    match kind:
        case "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            base_url = config.base_url.rstrip("/").removesuffix("/v1")
            return AnthropicModel(model, provider=AnthropicProvider(api_key=key, base_url=base_url, http_client=client))
        case "google":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel(
                model, provider=GoogleProvider(api_key=key, base_url=config.base_url, http_client=client)
            )
        case "mistral":
            from pydantic_ai.models.mistral import MistralModel
            from pydantic_ai.providers.mistral import MistralProvider

            base_url = config.base_url.rstrip("/").removesuffix("/v1")
            return MistralModel(model, provider=MistralProvider(api_key=key, base_url=base_url, http_client=client))
    return _build_openai(config, kind, model, client)


def _build_openai(config: ProviderConfig, kind: str, model: str, client: httpx2.AsyncClient) -> Model:
    """Return a model behind OpenAI's Responses or chat completions, or a server that speaks the latter."""
    from openai import AsyncOpenAI
    from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
    from pydantic_ai.profiles import merge_profile
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers import Provider
    from pydantic_ai.providers.deepseek import DeepSeekProvider
    from pydantic_ai.providers.ollama import OllamaProvider
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider
    from pydantic_ai.providers.openrouter import OpenRouterProvider
    from pydantic_ai.providers.vllm import VLLMProvider

    from reflection.llm.openai_chat import LooseChatModel, LooseOpenRouterModel

    sdk = AsyncOpenAI(api_key=config.api_key or NO_KEY, base_url=config.base_url, http_client=client, max_retries=0)
    provider: Provider[AsyncOpenAI]
    match kind:
        case "openai" | "openai-chat" | "openai-responses" | "azure":
            provider = OpenAIProvider(openai_client=sdk)
        case "deepseek":
            provider = DeepSeekProvider(openai_client=sdk)
        case "openrouter":
            provider = OpenRouterProvider(openai_client=sdk)
        case "ollama":
            provider = OllamaProvider(openai_client=sdk)
        case "vllm":
            provider = VLLMProvider(openai_client=sdk)
        case _:
            provider = OpenAICompatibleProvider(config.name, openai_client=sdk)
    profile = merge_profile(
        provider.model_profile(model),
        OpenAIModelProfile(
            # An answer that breaks off must not pass for one that has ended
            openai_chat_streaming_requires_finish_reason=True,
            # OpenAI's newer models refuse the older name of the limit, and other servers ignore the newer one
            openai_chat_supports_max_completion_tokens=kind in OPENAI_KINDS,
        ),
    )
    if kind == "openrouter":
        return LooseOpenRouterModel(model, provider=provider, profile=profile)
    is_openai = urlsplit(config.base_url).hostname == "api.openai.com"
    if kind == "openai-responses" or (kind == "openai" and is_openai):
        # Nothing is kept at OpenAI: what the model thought comes back encrypted, and is sent with the conversation.
        settings = OpenAIResponsesModelSettings(openai_store=False)
        return OpenAIResponsesModel(model, provider=provider, profile=profile, settings=settings)
    return LooseChatModel(model, provider=provider, profile=profile)
