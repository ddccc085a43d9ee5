"""Prompts that grow too long for the model. Each case is a column in docs/language-models.md."""

import pytest

from runtime.tools.catalogue import core_tools
from tests.providers.imitation import Turn
from tests.providers.laboratory import DONE, LOOK, Laboratory, end_of, look, make_tool
from tests.providers.local_servers import Vllm

pytestmark = [pytest.mark.nightly, pytest.mark.django_db, pytest.mark.slow]


def test_overflow(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(core_tools(), "look", make_tool(words=1_000))
    lab.imitation.window = 4_000
    agent = lab.make_agent()
    looks = [Turn(calls=(look(page),)) for page in range(4)]
    run = lab.run(agent, *looks, DONE)
    last = lab.run(agent, LOOK, DONE, after=run)

    assert run.events.filter(kind="window").exists()
    assert [end_of(run), end_of(last)] == [("end_turn", "It is in Graz.")] * 2


@pytest.mark.parametrize("imitation", [Vllm], indirect=True)
@pytest.mark.parametrize("streamed", [False])
def test_prompt_stays_where_only_the_answer_had_no_room(lab: Laboratory) -> None:
    lab.imitation.window = 4_000
    run = lab.run(lab.make_agent(max_output_tokens=3_800), DONE)

    assert end_of(run) == ("end_turn", "It is in Graz.")
    assert [event.payload["used"] for event in run.events.filter(kind="window")] == [4_000]


def test_compaction(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(core_tools(), "look", make_tool(words=80))
    agent = lab.make_agent(window_tokens=900, max_output_tokens=200)
    run = lab.run(agent, *[Turn(calls=(look(page),)) for page in range(9)], DONE)
    last = lab.run(agent, LOOK, DONE, after=run)

    assert {*run.conversation.compactions.values_list("method", flat=True)} == {"mask", "model"}
    assert [end_of(run), end_of(last)] == [("end_turn", "It is in Graz.")] * 2
