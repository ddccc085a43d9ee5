"""Check the settings of the language model."""

from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register

from memory.egress import find_url_fault
from memory.retrieval.models import RetrievalMode
from reflection.llm.base import ProviderNotConfigured
from reflection.llm.registry import (
    PROVIDERS,
    SCRIPTED,
    USES,
    configured_name,
    find_config,
    get_chat_provider,
    provider_names,
)

MIN_INPUT_TOKENS = 3000
MIN_OUTPUT_TOKENS = 300
MAX_TIMEOUT_SECONDS = 110


@register("llm")
def check_llm(**kwargs: Any) -> list[CheckMessage]:
    """Report invalid settings of the language model."""
    return [*_check_mode(), *_check_provider(), *_check_entries(), *_check_uses(), *_check_script(), *_check_limits()]


def _check_mode() -> Iterator[CheckMessage]:
    if settings.ERL_RETRIEVE_MODE not in RetrievalMode.values:
        yield Error(
            f"ERL_RETRIEVE_MODE is {settings.ERL_RETRIEVE_MODE!r}.",
            hint=f"Set it to one of {', '.join(RetrievalMode.values)}; hybrid is the default.",
            id="erl.llm.E010",
        )


def _check_provider() -> Iterator[CheckMessage]:
    if settings.ERL_REFLECTOR not in ("auto", "llm", "rules"):
        yield Error(
            f"ERL_REFLECTOR is {settings.ERL_REFLECTOR!r}.", hint="Set it to auto, llm or rules.", id="erl.llm.E001"
        )
    try:
        config = find_config()
    except ProviderNotConfigured as error:
        yield Error(str(error), hint=f"The providers are {', '.join(PROVIDERS)}.", id="erl.llm.E002")
        return
    if config is None:
        if settings.ERL_REFLECTOR == "llm":
            yield Error(
                "ERL_REFLECTOR is llm, but no language model is configured.",
                hint="Set ERL_LLM_PROVIDER, or set ERL_REFLECTOR to auto to reflect by rules.",
                id="erl.llm.E003",
            )
        if settings.ERL_LLM_API_KEY or settings.ERL_LLM_MODEL:
            yield Warning(
                "The language model is not used, because ERL_LLM_PROVIDER is empty while other settings are not.",
                hint=f"Set ERL_LLM_PROVIDER to one of {', '.join(PROVIDERS)}.",
                id="erl.llm.W001",
            )
        if settings.ERL_RETRIEVE_MODE == RetrievalMode.ERL:
            yield Warning(
                "ERL_RETRIEVE_MODE is erl, but no language model is configured, so hybrid answers instead.",
                hint="Set ERL_LLM_PROVIDER, or leave ERL_RETRIEVE_MODE out.",
                id="erl.llm.W002",
            )
        return
    if fault := find_url_fault(config.base_url):
        yield Error(f"The language model cannot be reached at {config.base_url}. {fault}", id="erl.llm.E004")


def _check_entries() -> Iterator[CheckMessage]:
    try:
        names = [name for name in provider_names() if name in settings.ERL_LLM_PROVIDERS]
    except ProviderNotConfigured as error:
        yield Error(str(error), hint="docs/language-models.md says what an entry holds.", id="erl.llm.E014")
        return
    for name in names:
        try:
            config = find_config(model=f"{name}:any")
        except ProviderNotConfigured as error:
            yield Error(str(error), id="erl.llm.E014")
            continue
        if config is not None and (fault := find_url_fault(config.base_url)):
            yield Error(f"The provider {name} cannot be reached at {config.base_url}. {fault}", id="erl.llm.E014")


def _check_uses() -> Iterator[CheckMessage]:
    for unknown in settings.ERL_LLM_MODELS.keys() - {*USES}:
        yield Error(
            f"ERL_LLM_MODELS names a model for {unknown!r}.", hint=f"The uses are {', '.join(USES)}.", id="erl.llm.E012"
        )
    for use in USES:
        if (model := settings.ERL_LLM_MODELS.get(use)) is None:
            continue
        if not isinstance(model, str):
            yield Error(f"The model for {use} in ERL_LLM_MODELS is no name.", id="erl.llm.E012")
            continue
        try:
            find_config(use)
        except ProviderNotConfigured as error:
            yield Error(f"The model {model} for {use} cannot be used. {error}", id="erl.llm.E013")


def _check_script() -> Iterator[CheckMessage]:
    if settings.ERL_LLM_SCRIPT or configured_name() == SCRIPTED:
        try:
            get_chat_provider(SCRIPTED)
        except ProviderNotConfigured as error:
            yield Error(str(error), hint="docs/language-models.md says what a script looks like.", id="erl.llm.E011")


def _check_limits() -> Iterator[CheckMessage]:
    if settings.ERL_LLM_MAX_INPUT_TOKENS < MIN_INPUT_TOKENS:
        yield Error(
            f"ERL_LLM_MAX_INPUT_TOKENS is {settings.ERL_LLM_MAX_INPUT_TOKENS}; even the shortest run does not fit.",
            hint=f"Set it to {MIN_INPUT_TOKENS} or more.",
            id="erl.llm.E005",
        )
    if settings.ERL_LLM_MAX_OUTPUT_TOKENS < MIN_OUTPUT_TOKENS:
        yield Error(
            f"ERL_LLM_MAX_OUTPUT_TOKENS is {settings.ERL_LLM_MAX_OUTPUT_TOKENS}; answers would be cut off.",
            hint=f"Set it to {MIN_OUTPUT_TOKENS} or more.",
            id="erl.llm.E006",
        )
    if not 1 <= settings.ERL_LESSONS_PER_TRAJECTORY <= 3:
        yield Error(
            f"ERL_LESSONS_PER_TRAJECTORY is {settings.ERL_LESSONS_PER_TRAJECTORY}.",
            hint="Set it to 1, 2 or 3.",
            id="erl.llm.E007",
        )
    if not 0 < settings.ERL_LLM_TIMEOUT_SECONDS <= MAX_TIMEOUT_SECONDS:
        yield Error(
            f"ERL_LLM_TIMEOUT_SECONDS is {settings.ERL_LLM_TIMEOUT_SECONDS}.",
            hint=f"Set it to at most {MAX_TIMEOUT_SECONDS} seconds; workers stop a task after 120.",
            id="erl.llm.E008",
        )
    if min(settings.ERL_LLM_INPUT_USD_PER_MTOK, settings.ERL_LLM_OUTPUT_USD_PER_MTOK) < 0:
        yield Error(
            "A price of the language model is negative.",
            hint="Set ERL_LLM_INPUT_USD_PER_MTOK and ERL_LLM_OUTPUT_USD_PER_MTOK to 0 or more.",
            id="erl.llm.E009",
        )
