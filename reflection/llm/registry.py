"""All providers by name, and the configured one."""

import atexit
import os
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from urllib.parse import urlsplit

from django.conf import settings

from reflection.llm.anthropic import AnthropicProvider
from reflection.llm.base import Provider, ProviderConfig, ProviderNotConfigured
from reflection.llm.openai_compatible import OpenAICompatibleProvider
from reflection.llm.scripted import ScriptedModel
from reflection.llm.transport import BoundedTransport


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderDefaults:
    """The defaults of a provider. If `base_url` is empty, the operator must set it.

    One that needs no key is a server of the operator's own: it need not be told which model, if it has only one.
    """

    wire_format: str = "openai"
    base_url: str = ""
    needs_key: bool = True
    output_limit_field: str = "max_tokens"


COMPATIBLE = "openai-compatible"
SCRIPTED = "scripted"  # no language model: it plays a file in chats, and writes no lessons
PROVIDERS = {
    "anthropic": ProviderDefaults(wire_format="anthropic", base_url="https://api.anthropic.com"),
    "openai": ProviderDefaults(base_url="https://api.openai.com/v1", output_limit_field="max_completion_tokens"),
    "gemini": ProviderDefaults(base_url="https://generativelanguage.googleapis.com/v1beta/openai"),
    "groq": ProviderDefaults(base_url="https://api.groq.com/openai/v1"),
    COMPATIBLE: ProviderDefaults(needs_key=False),
    "ollama": ProviderDefaults(base_url="http://localhost:11434/v1", needs_key=False),
    "vllm": ProviderDefaults(base_url="http://localhost:8000/v1", needs_key=False),
    "llamacpp": ProviderDefaults(base_url="http://localhost:8080/v1", needs_key=False),
}


def configured_name() -> str:
    """Return the name of the provider in the settings, known or not, or "" for none; an address is enough for one."""
    return settings.ERL_LLM_PROVIDER.strip().lower() or (COMPATIBLE if settings.ERL_LLM_BASE_URL else "")


def find_config() -> ProviderConfig | None:
    """Return the configuration from the settings, or None if they name no language model.

    Raises:
        ProviderNotConfigured: the settings are incomplete.
    """
    name = configured_name()
    if not name or name == SCRIPTED:
        return None
    defaults = PROVIDERS.get(name)
    if defaults is None:
        raise ProviderNotConfigured(f"ERL_LLM_PROVIDER names an unknown provider; use one of {', '.join(PROVIDERS)}.")
    if not settings.ERL_LLM_MODEL and defaults.needs_key:
        raise ProviderNotConfigured("ERL_LLM_MODEL is empty; set it to the name of a model of the provider.")
    if defaults.needs_key and not settings.ERL_LLM_API_KEY:
        raise ProviderNotConfigured(f"ERL_LLM_API_KEY is empty; the provider {name} requires an API key.")
    base_url = settings.ERL_LLM_BASE_URL or defaults.base_url
    if not base_url:
        raise ProviderNotConfigured(f"ERL_LLM_BASE_URL is empty; set it to the URL of the provider {name}.")
    return ProviderConfig(
        name=name,
        model=settings.ERL_LLM_MODEL,
        base_url=_with_path(base_url, urlsplit(defaults.base_url).path or "/v1"),
        timeout_seconds=settings.ERL_LLM_TIMEOUT_SECONDS,
        api_key=settings.ERL_LLM_API_KEY,
    )


def _with_path(url: str, path: str) -> str:
    """Return a URL with the path of the API, where it has none: people copy http://localhost:11434."""
    try:
        has_path = urlsplit(url).path.strip("/")
    except ValueError:  # the check of settings says what is wrong with it
        return url
    return url if has_path else url.rstrip("/") + path


def build_provider(config: ProviderConfig, *, transport: BoundedTransport | None = None) -> Provider:
    """Return a new provider with its own connections."""
    defaults = PROVIDERS[config.name]
    transport = transport or BoundedTransport()
    if defaults.wire_format == "anthropic":
        return AnthropicProvider(config, transport=transport)
    return OpenAICompatibleProvider(config, transport=transport, output_limit_field=defaults.output_limit_field)


_lock = Lock()
_current: tuple[int, ProviderConfig, Provider] | None = None
_with_other_models: dict[str, Provider] = {}  # of the current one
MAX_OTHER_MODELS = 64


def find_provider() -> Provider | None:
    """Return this process's provider, or None if none is configured; raise `ProviderNotConfigured`."""
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
    """Return this process's provider; raise `ProviderNotConfigured` if there is none."""
    provider = find_provider()
    if provider is None:
        raise ProviderNotConfigured(
            "No language model is configured. Set ERL_LLM_PROVIDER, for example to ollama, or to anthropic with "
            "ERL_LLM_MODEL and ERL_LLM_API_KEY; docs/language-models.md has all providers."
        )
    return provider


def get_chat_provider(model: str = "") -> Provider:
    """Return the provider for chats with a model: the configured one by default, or "scripted".

    The configured provider's name may stand before the model's, as in "ollama/qwen3".

    Raises:
        ProviderNotConfigured: there is none, or the script cannot be used.
    """
    if model == SCRIPTED or (not model and configured_name() == SCRIPTED):
        return _scripted(settings.ERL_LLM_SCRIPT)
    provider = get_provider()
    model = model.removeprefix(f"{provider.name}/")
    if model in ("", provider.model):
        return provider
    with _lock:
        if len(_with_other_models) >= MAX_OTHER_MODELS:
            _with_other_models.clear()
        if model not in _with_other_models:
            _with_other_models[model] = other = copy(provider)  # on the same connections
            other.model = model
        return _with_other_models[model]


@lru_cache(maxsize=4)
def _scripted(path: str) -> Provider:
    if not path:
        raise ProviderNotConfigured("ERL_LLM_SCRIPT is empty; set it to the path of a script for the scripted model.")
    return ScriptedModel(ProviderConfig(name=SCRIPTED, model=SCRIPTED, base_url=path, timeout_seconds=0.0, api_key=""))


def close_provider() -> None:
    """Close this process's connections, but not those inherited from its parent."""
    global _current
    _with_other_models.clear()
    if _current and _current[0] == os.getpid():
        _current[2].close()
    _current = None


atexit.register(close_provider)
