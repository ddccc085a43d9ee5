"""Which reflector the settings choose."""

import pytest
from django.test import override_settings

from reflection.llm.base import ProviderNotConfigured
from reflection.reflectors.llm import LlmReflector
from reflection.reflectors.reflections import get_reflector
from reflection.reflectors.rules import RulesReflector
from tests.reflection.episodes import make_episode
from tests.scripted_provider import ScriptedProvider


def test_rules_reflect_where_no_model_is_configured() -> None:
    with override_settings(ERL_REFLECTOR="auto", ERL_LLM_PROVIDER=""):
        assert isinstance(get_reflector(), RulesReflector)


def test_model_reflects_where_one_is_configured(server: ScriptedProvider) -> None:
    assert isinstance(get_reflector(), LlmReflector)


def test_rules_can_be_chosen_although_a_model_is_configured(server: ScriptedProvider) -> None:
    with override_settings(ERL_REFLECTOR="rules"):
        assert isinstance(get_reflector(), RulesReflector)


def test_model_that_is_wanted_but_not_configured_is_reported() -> None:
    with override_settings(ERL_REFLECTOR="llm", ERL_LLM_PROVIDER=""), pytest.raises(ProviderNotConfigured):
        get_reflector().reflect(make_episode(), near=())


def test_reflector_carries_name_and_versions(server: ScriptedProvider) -> None:
    reflector = get_reflector()

    assert isinstance(reflector, LlmReflector)
    assert reflector.name == "llm"
    assert reflector.version.startswith("reflect/2@")
    assert reflector.prompt_version(make_episode()).startswith("reflect-failure/2@")
