"""Conversations that another model began: a column in docs/language-models.md."""

from itertools import product

import pytest

from tests.providers.anthropic_messages import AnthropicMessages
from tests.providers.catalogue import IMITATIONS
from tests.providers.gemini import Gemini
from tests.providers.imitation import Imitation, Turn
from tests.providers.laboratory import DONE, LOOK, REFUSED, Imitations, Laboratory, end_of, look, open_laboratory
from tests.providers.local_servers import Vllm
from tests.providers.openai_responses import OpenAIResponses

pytestmark = [pytest.mark.nightly, pytest.mark.django_db, pytest.mark.slow]

FIRST = (OpenAIResponses, AnthropicMessages, Gemini, Vllm)
PAIRS = [pair for pair in product(IMITATIONS, FIRST) if pair[0].kind != pair[1].kind]


@pytest.mark.parametrize(
    ("imitation", "other"),
    [(one(), other) for one, other in PAIRS],
    ids=[f"{one.name}-{other.kind}" for one, other in PAIRS],
)
@pytest.mark.parametrize("streamed", [False])
def test_conversation_of_another_model(lab: Laboratory, imitations: Imitations, other: type[Imitation]) -> None:
    lab.imitation.is_second = True
    with open_laboratory(imitations, other(), streamed=True) as elsewhere:
        agent = lab.make_agent()
        begun = elsewhere.run(agent, Turn(text="Two.", calls=(look(1), look(2))), DONE)
        refused = elsewhere.run(agent, LOOK, REFUSED, after=begun)
    last = lab.run(agent, LOOK, Turn(calls=(look(3), look(4))), DONE, after=refused)

    assert end_of(last) == ("end_turn", "It is in Graz.")
