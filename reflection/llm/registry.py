"""The providers by name, and the one that the settings choose."""

import atexit
import os
from dataclasses import dataclass, field
from threading import Lock

from django.conf import settings

from reflection.llm.anthropic import AnthropicProvider
from reflection.llm.base import Provider, ProviderNotConfigured
from reflection.llm.openai_compatible import OpenAICompatibleProvider
from reflection.llm.transport import BoundedTransport


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderLine:
    """One provider. An empty `base_url` must be given by the operator."""

    wire_format: str = "openai"
    base_url: str = ""
    needs_key: bool = True
    output_limit_field: str = "max_tokens"


PROVIDERS = {
    "anthropic": ProviderLine(wire_format="anthropic", base_url="https://api.anthropic.com"),
    "openai": ProviderLine(base_url="https://api.openai.com/v1", output_limit_field="max_completion_tokens"),
    "groq": ProviderLine(base_url="https://api.groq.com/openai/v1"),
    "openai-compatible": ProviderLine(needs_key=False),
    "ollama": ProviderLine(base_url="http://localhost:11434/v1", needs_key=False),
    "vllm": ProviderLine(base_url="http://localhost:8000/v1", needs_key=False),
    "llamacpp": ProviderLine(base_url="http://localhost:8080/v1", needs_key=False),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderConfig:
    """Everything a provider is built from."""

    name: str
    model: str
    base_url: str
    timeout_seconds: float
    api_key: str = field(repr=False)


def find_config() -> ProviderConfig | None:
    """Return what the settings say, or None when they name no provider; raise `ProviderNotConfigured`."""
    name = settings.ERL_LLM_PROVIDER.strip().lower()
    if not name:
        return None
    line = PROVIDERS.get(name)
    if line is None:
        raise ProviderNotConfigured(f"ERL_LLM_PROVIDER names no provider we know; use one of {', '.join(PROVIDERS)}.")
    if not settings.ERL_LLM_MODEL:
        raise ProviderNotConfigured("ERL_LLM_MODEL is empty; set it to the name of the provider's model.")
    if line.needs_key and not settings.ERL_LLM_API_KEY:
        raise ProviderNotConfigured(
            f"ERL_LLM_API_KEY is empty; set it to your key, which the provider {name} requires."
        )
    base_url = settings.ERL_LLM_BASE_URL or line.base_url
    if not base_url:
        raise ProviderNotConfigured(
            f"ERL_LLM_BASE_URL is empty; set it to the address of the provider {name}, which ends in /v1."
        )
    return ProviderConfig(
        name=name,
        model=settings.ERL_LLM_MODEL,
        base_url=base_url,
        timeout_seconds=settings.ERL_LLM_TIMEOUT_SECONDS,
        api_key=settings.ERL_LLM_API_KEY,
    )


def build_provider(config: ProviderConfig, *, transport: BoundedTransport | None = None) -> Provider:
    """Make a provider with connections of its own."""
    line = PROVIDERS[config.name]
    transport = transport or BoundedTransport()
    if line.wire_format == "anthropic":
        return AnthropicProvider(
            name=config.name,
            model=config.model,
            base_url=config.base_url,
            api_key=config.api_key,
            timeout_seconds=config.timeout_seconds,
            transport=transport,
        )
    return OpenAICompatibleProvider(
        name=config.name,
        model=config.model,
        base_url=config.base_url,
        api_key=config.api_key,
        timeout_seconds=config.timeout_seconds,
        transport=transport,
        output_limit_field=line.output_limit_field,
    )


_lock = Lock()
_current: tuple[int, ProviderConfig, Provider] | None = None


def find_provider() -> Provider | None:
    """Return this process's provider, or None when none is configured; raise `ProviderNotConfigured`."""
    global _current
    config = find_config()
    if config is None:
        return None
    with _lock:
        if _current and _current[:2] == (os.getpid(), config):
            return _current[2]
        close_provider()
        provider = build_provider(config)
        _current = (os.getpid(), config, provider)
        return provider


def get_provider() -> Provider:
    """Return this process's provider; raise `ProviderNotConfigured` when there is none."""
    provider = find_provider()
    if provider is None:
        raise ProviderNotConfigured(
            "No language model is configured. Set ERL_LLM_PROVIDER, ERL_LLM_MODEL and ERL_LLM_API_KEY; "
            ".env.example shows how."
        )
    return provider


def close_provider() -> None:
    """Close this process's connections, but not those it inherited from its parent."""
    global _current
    if _current and _current[0] == os.getpid():
        _current[2].close()
    _current = None


atexit.register(close_provider)
