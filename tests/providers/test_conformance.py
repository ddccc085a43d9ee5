"""Agents with tools on every provider, over many turns, with what goes wrong there: each case is a column in
docs/language-models.md.
"""

from itertools import product

import pytest

from runtime.models.runs import Run
from runtime.tools.catalogue import core_tools
from tests.providers.anthropic_messages import AnthropicMessages
from tests.providers.catalogue import IMITATIONS
from tests.providers.gemini import Gemini
from tests.providers.imitation import Imitation, Turn
from tests.providers.laboratory import FORBIDDEN, Imitations, Laboratory, look, make_tool, open_laboratory
from tests.providers.local_servers import Vllm
from tests.providers.openai_responses import OpenAIResponses

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

LOOK, DONE = Turn(calls=(look(1),)), Turn(text="It is in Graz.")
TORSO, NOTHING, REFUSED = Turn(text="It is", ending="cut"), Turn(), Turn(text="I will not.", ending="refused")


def end_of(run: Run) -> tuple[str, str]:
    return run.stop_reason, run.messages.filter(is_reply=True).order_by("-seq").values_list("content", flat=True)[0]


def test_two_tool_turns(lab: Laboratory) -> None:
    run = lab.run(lab.make_agent(), LOOK, Turn(text="Once more.", calls=(look(2),)), DONE)

    assert end_of(run) == ("end_turn", "It is in Graz.")
    assert [effect.result[:6] for effect in run.effects.order_by("id")] == ["Page 1", "Page 2"]


def test_parallel_calls(lab: Laboratory) -> None:
    run = lab.run(lab.make_agent(), Turn(calls=(look(1), look(2), look(3))), Turn(calls=(look(4), look(5))), DONE)

    assert end_of(run) == ("end_turn", "It is in Graz.")
    assert [effect.result[:6] for effect in run.effects.order_by("id")] == [f"Page {page}" for page in range(1, 6)]


def test_second_message(lab: Laboratory) -> None:
    agent = lab.make_agent()
    first = lab.run(agent, LOOK, DONE)
    second = lab.run(agent, LOOK, Turn(text="Still there."), after=first)

    assert [end_of(first)[0], end_of(second)] == ["end_turn", ("end_turn", "Still there.")]


def test_message_after_failures(lab: Laboratory) -> None:
    agent = lab.make_agent()
    at_once = lab.run(agent, FORBIDDEN)
    after_a_call = lab.run(agent, Turn(calls=(look(1), look(2))), FORBIDDEN, after=at_once)
    last = lab.run(agent, LOOK, DONE, after=after_a_call)

    assert [at_once.stop_reason, after_a_call.stop_reason] == ["model_failed", "model_failed"]
    assert end_of(last) == ("end_turn", "It is in Graz.")


def test_cut_answer(lab: Laboratory) -> None:
    agent = lab.make_agent()
    saved = lab.run(agent, LOOK, TORSO, DONE)
    failed = lab.run(agent, TORSO, TORSO, after=saved)
    last = lab.run(agent, DONE, after=failed)

    assert [end_of(saved), failed.stop_reason] == [("end_turn", "It is in Graz."), "answer_cut_off"]
    assert end_of(last) == ("end_turn", "It is in Graz.")


def test_empty_answer(lab: Laboratory) -> None:
    agent = lab.make_agent()
    saved = lab.run(agent, LOOK, NOTHING, DONE)
    failed = lab.run(agent, NOTHING, NOTHING, after=saved)
    last = lab.run(agent, DONE, after=failed)

    assert [end_of(saved), failed.stop_reason] == [("end_turn", "It is in Graz."), "empty_answer"]
    assert end_of(last) == ("end_turn", "It is in Graz.")


def test_refusal(lab: Laboratory) -> None:
    agent = lab.make_agent()
    refused = lab.run(agent, LOOK, REFUSED)
    last = lab.run(agent, LOOK, DONE, after=refused)

    assert refused.stop_reason == lab.imitation.refused_as
    assert end_of(last) == ("end_turn", "It is in Graz.")


def test_overflow(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(core_tools(), "look", make_tool(words=1_000))
    lab.imitation.window = 4_000
    agent = lab.make_agent()
    looks = [Turn(calls=(look(page),)) for page in range(4)]
    run = lab.run(agent, *looks, DONE)
    last = lab.run(agent, LOOK, DONE, after=run)

    assert run.events.filter(kind="window").exists()
    assert [end_of(run), end_of(last)] == [("end_turn", "It is in Graz.")] * 2


def test_compaction(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(core_tools(), "look", make_tool(words=80))
    agent = lab.make_agent(window_tokens=900, max_output_tokens=200)
    run = lab.run(agent, *[Turn(calls=(look(page),)) for page in range(9)], DONE)
    last = lab.run(agent, LOOK, DONE, after=run)

    assert {*run.conversation.compactions.values_list("method", flat=True)} == {"mask", "model"}
    assert [end_of(run), end_of(last)] == [("end_turn", "It is in Graz.")] * 2


def test_resume(lab: Laboratory) -> None:
    agent = lab.make_agent()
    failed = lab.run(agent, Turn(calls=(look(1), look(2))), FORBIDDEN)
    resumed = lab.resume(failed, LOOK, DONE)

    assert (failed.status, end_of(resumed)) == ("failed", ("end_turn", "It is in Graz."))


def test_paused_answer(imitations: Imitations, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(core_tools(), "look", make_tool())
    anthropic = AnthropicMessages()
    with open_laboratory(imitations, anthropic, streamed=True) as lab:
        run = lab.run(lab.make_agent(), LOOK, Turn(text="Let me see.", ending="paused"), DONE)

    assert (end_of(run), anthropic.broken_rules) == (("end_turn", "It is in Graz."), [])


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
