"""An image in a message reaches the model of each provider that takes images."""

import base64
import json

import pytest

from tests.providers.anthropic_messages import AnthropicMessages
from tests.providers.gemini import Gemini
from tests.providers.gpt import Gpt
from tests.providers.imitation import Turn
from tests.providers.laboratory import Laboratory
from tests.providers.local_servers import Vllm
from tests.providers.openai_responses import OpenAIResponses
from tests.runtime.running import make_run

pytestmark = pytest.mark.django_db
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n and its pixels").decode()


@pytest.mark.parametrize("imitation", [OpenAIResponses, Gpt, AnthropicMessages, Gemini, Vllm], indirect=True)
@pytest.mark.parametrize("streamed", [True])
def test_image_reaches_the_model_in_each_request(lab: Laboratory) -> None:
    lab.imitation.say(Turn(calls=(("look", {"page": 1}),)), Turn(text="A dot."))

    run = make_run(lab.make_agent(), "What is this?", attachments=({"media_type": "image/png", "data": PNG},))
    lab.finish(run)

    assert run.stop_reason == "end_turn"
    assert [json.dumps(request).count(PNG) for request in lab.imitation.requests[-2:]] == [1, 1]


@pytest.mark.parametrize("imitation", [OpenAIResponses, Gpt, AnthropicMessages, Gemini], indirect=True)
@pytest.mark.parametrize("streamed", [True])
def test_document_reaches_the_model(lab: Laboratory) -> None:
    data = base64.b64encode(b"%PDF-1.7 and its pages").decode()
    lab.imitation.say(Turn(text="An invoice."))

    run = make_run(lab.make_agent(), "What is this?", attachments=({"media_type": "application/pdf", "data": data},))
    lab.finish(run)

    assert run.stop_reason == "end_turn"
    assert data in json.dumps(lab.imitation.requests[-1])
