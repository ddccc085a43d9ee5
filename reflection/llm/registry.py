"""The providers of language models in the settings, and which model is used for what.

A model is named `provider:model`, as in "anthropic:claude-haiku-5-5"; without a provider it is one of ERL_LLM_PROVIDER.
"""

import atexit
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from django.conf import settings
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from reflection.llm.base import Provider, ProviderConfig, ProviderNotConfigured
from reflection.llm.scripted import ScriptedModel

if TYPE_CHECKING:
    from reflection.llm.wire import ModelProvider

Use = Literal["", "reflect", "rank", "consolidate", "agents"]
USES: tuple[Use, ...] = ("reflect", "rank", "consolidate", "agents")
COMPATIBLE = "openai-compatible"
SCRIPTED = "scripted"  # no language model: it plays a file in chats, and writes no lessons


@dataclass(frozen=True, kw_only=True, slots=True)
class ProviderKind:
    """The defaults of a kind of provider. If `base_url` is empty, the operator must set it.

    One that needs no key is a server of the operator's own: it need not be told which model, if it has only one.
    """

    base_url: str = ""
    path: str = "/v1"  # of the API, where people copy an address without it
    needs_key: bool = True


PROVIDERS = {
    "anthropic": ProviderKind(base_url="https://api.anthropic.com"),
    "openai": ProviderKind(base_url="https://api.openai.com/v1"),
    "openai-responses": ProviderKind(base_url="https://api.openai.com/v1"),
    "openai-chat": ProviderKind(base_url="https://api.openai.com/v1"),
    "google": ProviderKind(base_url="https://generativelanguage.googleapis.com", path=""),
    "gemini": ProviderKind(base_url="https://generativelanguage.googleapis.com/v1beta/openai", path="/v1beta/openai"),
    "groq": ProviderKind(base_url="https://api.groq.com/openai/v1", path="/openai/v1"),
    "mistral": ProviderKind(base_url="https://api.mistral.ai/v1"),
    "deepseek": ProviderKind(base_url="https://api.deepseek.com", path=""),
    "openrouter": ProviderKind(base_url="https://openrouter.ai/api/v1", path="/api/v1"),
    "azure": ProviderKind(path="/openai/v1"),
    COMPATIBLE: ProviderKind(needs_key=False),
    "ollama": ProviderKind(base_url="http://localhost:11434/v1", needs_key=False),
    "vllm": ProviderKind(base_url="http://localhost:8000/v1", needs_key=False),
    "llamacpp": ProviderKind(base_url="http://localhost:8080/v1", needs_key=False),
}


class _Entry(BaseModel):
    """A provider in ERL_LLM_PROVIDERS. Its kind is its name where it says no other."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str = ""
    base_url: str = ""
    api_key: str = ""
    timeout_seconds: float | None = Field(default=None, gt=0)
    input_usd_per_mtok: float | None = Field(default=None, ge=0)
    output_usd_per_mtok: float | None = Field(default=None, ge=0)
    daily_usd: float | None = Field(default=None, ge=0)


_ENTRIES = TypeAdapter(dict[str, _Entry])


def configured_name() -> str:
    """Return the name of the provider in the settings, known or not, or "" for none; an address is enough for one."""
    return settings.ERL_LLM_PROVIDER.strip().lower() or (COMPATIBLE if settings.ERL_LLM_BASE_URL else "")


def name_of(use: Use) -> str:
    """Return the name of the provider for a use, known or not."""
    return provider_of(configured_model(use))


def provider_of(model: str) -> str:
    """Return which provider is asked for a model; empty for the server's own."""
    return _split(model or configured_model(""))[0] or configured_name()


def configured_model(use: Use) -> str:
    """Return the model for a use, as the settings name it; "" where they leave it to the provider."""
    return str(settings.ERL_LLM_MODELS.get(use) or settings.ERL_LLM_MODEL)


def find_config(use: Use = "", *, model: str = "") -> ProviderConfig | None:
    """Return the configuration for a use, or for a model by its name; None if the settings name no language model.

    Raises:
        ProviderNotConfigured: the settings are incomplete.
    """
    provider, model = _split(model or configured_model(use))
    name = provider or configured_name()
    if not name or name == SCRIPTED:
        return None
    entry = _read_entries().get(name) or _default_entry()
    kind_name = entry.kind or name
    kind = PROVIDERS.get(kind_name)
    if kind is None:
        where = (
            "ERL_LLM_PROVIDER" if name not in settings.ERL_LLM_PROVIDERS else f"The kind of {name} in ERL_LLM_PROVIDERS"
        )
        raise ProviderNotConfigured(f"{where} names an unknown provider; use one of {', '.join(PROVIDERS)}.")
    is_default = name not in settings.ERL_LLM_PROVIDERS
    where = "ERL_LLM_API_KEY" if is_default else f"The api_key of {name} in ERL_LLM_PROVIDERS"
    address = "ERL_LLM_BASE_URL" if is_default else f"The base_url of {name} in ERL_LLM_PROVIDERS"
    if not model and kind.needs_key:
        raise ProviderNotConfigured(
            f"ERL_LLM_MODEL is empty; set it to the name of a model of the provider {name}, or name models in "
            f"ERL_LLM_MODELS, as in {name}:…"
        )
    if kind.needs_key and not entry.api_key:
        raise ProviderNotConfigured(f"{where} is empty; the provider {name} requires an API key.")
    base_url = entry.base_url or kind.base_url
    if not base_url:
        raise ProviderNotConfigured(f"{address} is empty; set it to the URL of the provider {name}.")
    return ProviderConfig(
        name=name,
        kind=kind_name,
        model=model,
        base_url=_with_path(base_url, kind.path),
        timeout_seconds=entry.timeout_seconds or settings.ERL_LLM_TIMEOUT_SECONDS,
        api_key=entry.api_key,
    )


def find_prices(name: str) -> tuple[float, float]:
    """Return what a million tokens cost at a provider, in US dollars: read and written."""
    entry = _read_entries().get(name) or _Entry()
    price_in, price_out = entry.input_usd_per_mtok, entry.output_usd_per_mtok
    return (
        settings.ERL_LLM_INPUT_USD_PER_MTOK if price_in is None else price_in,
        settings.ERL_LLM_OUTPUT_USD_PER_MTOK if price_out is None else price_out,
    )


def find_daily_usd(name: str) -> float | None:
    """Return what may be spent at a provider in a UTC day by all projects together; None for no limit."""
    return (_read_entries().get(name) or _Entry()).daily_usd


def _split(name: str) -> tuple[str, str]:
    """Return the provider and the model that a name names; the provider is "" where it names none.

    Names of models have colons and slashes too: what stands before one is a provider only if there is such a one.
    """
    provider, colon, model = name.partition(":")
    if colon and (provider in PROVIDERS or provider in _read_entries()):
        return provider, model
    return "", name.removeprefix(f"{configured_name()}/")


def _default_entry() -> _Entry:
    return _Entry(base_url=settings.ERL_LLM_BASE_URL, api_key=settings.ERL_LLM_API_KEY)


def provider_names() -> list[str]:
    """Return the names of the providers in the settings; raise `ProviderNotConfigured` where these have a fault."""
    return list(_read_entries())


def _read_entries() -> dict[str, _Entry]:
    """Return the providers of ERL_LLM_PROVIDERS, and that of ERL_LLM_PROVIDER, by name."""
    try:
        entries = _ENTRIES.validate_python(settings.ERL_LLM_PROVIDERS)
    except ValidationError as error:
        fault = error.errors(include_input=False)[0]
        path = ".".join(str(part) for part in fault["loc"])
        raise ProviderNotConfigured(f"ERL_LLM_PROVIDERS has a fault at {path}: {fault['msg']}.") from None
    name = configured_name()
    if name and name not in entries:
        entries[name] = _default_entry()
    return entries


def _with_path(url: str, path: str) -> str:
    """Return a URL with the path of the API, where it has none: people copy http://localhost:11434."""
    try:
        parts = urlsplit(url)
    except ValueError:
        # The check of settings says what is wrong with it.
        return url
    return url if parts.path.strip("/") or parts.query else url.rstrip("/") + path


def build_provider(config: ProviderConfig) -> "ModelProvider":
    """Return a new provider with its own connections."""
    # Most processes never ask a model, and so never need these.
    from pydantic_ai.exceptions import UserError

    from reflection.llm.wire import ModelProvider

    try:
        return ModelProvider(config)
    except UserError as error:
        raise ProviderNotConfigured(f"The provider {config.name} cannot be used: {error}") from error


_lock = Lock()
_process = 0  # whose connections these are: a fork must not use its parent's
_providers: dict[ProviderConfig, "ModelProvider"] = {}
MAX_PROVIDERS = 64


def find_provider(use: Use = "", *, model: str = "") -> Provider | None:
    """Return this process's provider for a use or a model, or None if none is configured.

    Raises:
        ProviderNotConfigured: the settings are incomplete.
    """
    global _process
    config = find_config(use, model=model)
    if config is None:
        return None
    with _lock:
        # After a fork, parent and child would read from the same sockets.
        if _process != os.getpid():
            _providers.clear()
            _process = os.getpid()
        if config not in _providers:
            # Agents name models freely: without a limit the dictionary would only grow.
            if len(_providers) >= MAX_PROVIDERS:
                _providers.clear()
            # Models of one provider share its connections and what was learnt of its refusals.
            same = (other for key, other in _providers.items() if replace(key, model=config.model) == config)
            other = next(same, None)
            _providers[config] = other.for_model(config) if other is not None else build_provider(config)
        return _providers[config]


def load_providers() -> None:
    """Import what the providers in the settings need, so that processes forked from this one have it.

    That is 70 MB and takes seconds of a processor, which each process would otherwise spend on its first question.
    """
    with suppress(ProviderNotConfigured):
        for name in provider_names():
            with suppress(ProviderNotConfigured):
                find_provider(model=f"{name}:any")


def get_provider(use: Use = "") -> Provider:
    """Return this process's provider for a use; raise `ProviderNotConfigured` if there is none."""
    provider = find_provider(use)
    if provider is None:
        names = ", ".join(settings.ERL_LLM_PROVIDERS)
        todo = (
            f"The providers in ERL_LLM_PROVIDERS are {names}. Name a model as provider:model in ERL_LLM_MODEL, or for "
            'one use in ERL_LLM_MODELS, as in {"reflect": "provider:model"}.'
            if names
            else "Set ERL_LLM_PROVIDER, for example to ollama, or to anthropic with ERL_LLM_MODEL and ERL_LLM_API_KEY; "
            "docs/language-models.md has all providers. Until then, ERL reflects by rules."
        )
        raise ProviderNotConfigured(f"No language model is configured. {todo}")
    return provider


def get_chat_provider(model: str = "") -> Provider:
    """Return the provider for an agent's model: by default that of the settings, or "scripted".

    Raises:
        ProviderNotConfigured: there is none, or the script cannot be used.
    """
    model = model or configured_model("agents")
    if model == SCRIPTED or (not model and configured_name() == SCRIPTED):
        return _scripted(settings.ERL_LLM_SCRIPT)
    return find_provider(model=model) or get_provider()


@lru_cache(maxsize=4)
def _scripted(path: str) -> Provider:
    if not path:
        raise ProviderNotConfigured("ERL_LLM_SCRIPT is empty; set it to the path of a script for the scripted model.")
    return ScriptedModel(
        ProviderConfig(name=SCRIPTED, kind=SCRIPTED, model=SCRIPTED, base_url=path, timeout_seconds=0.0, api_key="")
    )


def close_provider() -> None:
    """Close this process's connections, but not those inherited from its parent."""
    with _lock:
        if _process == os.getpid():
            # Several models share one client, which is closed once.
            for provider in {id(candidate.connections): candidate for candidate in _providers.values()}.values():
                provider.close()
        _providers.clear()


atexit.register(close_provider)
