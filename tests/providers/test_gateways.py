"""Failures of gateways: OpenRouter's inside its answers, and what Azure's filters and limits say."""

import pytest

from reflection.llm.base import ProviderError
from reflection.llm.chat import ChatRequest, ChatTool, PromptMessage
from tests.providers.gateways import FILTERED, TOO_MANY, Azure, OpenRouter, behind
from tests.providers.laboratory import DONE, LOOK, Laboratory, end_of

pytestmark = pytest.mark.django_db

TOOL = ChatTool(name="look", description="Look at a page.", parameters={"type": "object", "properties": {}})
REQUEST = ChatRequest(messages=(PromptMessage(role="user", content="Where?"),), tools=(TOOL,), max_output_tokens=100)
OVERLOADED = behind("The model is overloaded. Please try again later.", status=502, is_expected=True)


@pytest.mark.parametrize("imitation", [OpenRouter], indirect=True)
def test_failure_inside_an_answer_is_tried_again(lab: Laboratory) -> None:
    run = lab.run(lab.make_agent(), LOOK, OVERLOADED, DONE)

    assert end_of(run) == ("end_turn", "It is in Graz.")


@pytest.mark.parametrize("imitation", [OpenRouter], indirect=True)
@pytest.mark.parametrize("streamed", [False])
def test_words_of_the_provider_behind_a_gateway_are_shown(lab: Laboratory) -> None:
    lab.imitation.say(behind("This model takes one image at most.", is_expected=True))

    with pytest.raises(ProviderError, match="This model takes one image at most") as failure:
        lab.provider.chat(REQUEST)
    assert not failure.value.transient


@pytest.mark.parametrize("imitation", [Azure], indirect=True)
def test_filtered_prompt_is_a_refusal(lab: Laboratory) -> None:
    agent = lab.make_agent()
    filtered = lab.run(agent, LOOK, FILTERED)
    last = lab.run(agent, LOOK, DONE, after=filtered)

    assert filtered.stop_reason == "filtered"
    assert end_of(last) == ("end_turn", "It is in Graz.")


@pytest.mark.parametrize("imitation", [Azure], indirect=True)
@pytest.mark.parametrize("streamed", [False])
def test_limit_of_a_deployment_says_when_to_come_back(lab: Laboratory) -> None:
    lab.imitation.say(TOO_MANY)

    with pytest.raises(ProviderError) as failure:
        lab.provider.chat(REQUEST)
    assert (failure.value.code, failure.value.transient, failure.value.retry_after_seconds) == ("rate_limited", True, 7)
