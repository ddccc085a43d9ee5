"""Answers that are none: cut, empty, refused. Each case is a column in docs/language-models.md."""

import pytest

from runtime.tools.catalogue import core_tools
from tests.providers.anthropic_messages import AnthropicMessages
from tests.providers.imitation import Turn
from tests.providers.laboratory import DONE, LOOK, REFUSED, Imitations, Laboratory, end_of, make_tool, open_laboratory

pytestmark = [pytest.mark.nightly, pytest.mark.django_db, pytest.mark.slow]

TORSO, NOTHING = Turn(text="It is", ending="cut"), Turn()


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


def test_paused_answer(imitations: Imitations, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(core_tools(), "look", make_tool())
    anthropic = AnthropicMessages()
    with open_laboratory(imitations, anthropic, streamed=True) as lab:
        run = lab.run(lab.make_agent(), LOOK, Turn(text="Let me see.", ending="paused"), DONE)

    assert (end_of(run), anthropic.broken_rules) == (("end_turn", "It is in Graz."), [])
