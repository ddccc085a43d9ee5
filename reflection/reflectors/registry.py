"""Which reflector the settings choose."""

from django.conf import settings

from reflection.llm.calls import Ask, ask_provider
from reflection.llm.registry import find_config
from reflection.reflectors.base import Reflector
from reflection.reflectors.llm import LlmReflector
from reflection.reflectors.rules import RulesReflector

MAX_NOTES = 5  # rules that come of what was noted with one run


def get_reflector(*, ask: Ask | None = None) -> Reflector:
    """Return the reflector that ERL_REFLECTOR names; "auto" is the model where one is configured, else the rules.

    `ask` stands between the reflector and the provider; without it every question goes straight to the provider.
    Raises `ProviderNotConfigured` where the model is wanted and not configured.
    """
    choice = settings.ERL_REFLECTOR
    if choice == "rules" or (choice == "auto" and find_config() is None):
        return RulesReflector(max_lessons=settings.ERL_LESSONS_PER_TRAJECTORY, max_notes=MAX_NOTES)
    return LlmReflector(ask=ask or ask_provider)
