"""Agents with tools on every provider, over many turns. The cases but the last are columns in the docs."""

from typing import Any

import pytest

from tests.providers.imitation import Turn
from tests.providers.laboratory import DONE, FORBIDDEN, LOOK, Laboratory, end_of, look
from tests.providers.local_servers import Vllm

pytestmark = [pytest.mark.nightly, pytest.mark.django_db, pytest.mark.slow]


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


def test_resume(lab: Laboratory) -> None:
    agent = lab.make_agent()
    failed = lab.run(agent, Turn(calls=(look(1), look(2))), FORBIDDEN)
    resumed = lab.resume(failed, LOOK, DONE)

    assert (failed.status, end_of(resumed)) == ("failed", ("end_turn", "It is in Graz."))


class SameIds(Vllm):
    """A server that starts numbering its calls again in each answer, and gives all of them one number."""

    def write_id(self) -> str:
        return "call_0"


@pytest.mark.parametrize("imitation", [SameIds], indirect=True)
def test_ids_that_come_again_in_each_answer(lab: Laboratory) -> None:
    run = lab.run(lab.make_agent(), Turn(calls=(look(1), look(2))), Turn(calls=(look(3), look(4))), DONE)
    after = lab.run(run.agent, Turn(calls=(look(5), look(6))), DONE, after=run)

    messages = [message for message in lab.imitation.requests[-1]["messages"] if message["role"] == "tool"]
    assert (end_of(after), len({message["tool_call_id"] for message in messages})) == (
        ("end_turn", "It is in Graz."),
        6,
    )
    assert [message["content"][:6] for message in messages] == [f"Page {page}" for page in range(1, 7)]


def test_call_of_a_name_that_no_tool_could_have(lab: Laboratory) -> None:
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("functions.look:0", {"page": 1}),
        ("найти 🛫", {}),
        ("n" * 300, {}),
    )
    run = lab.run(lab.make_agent(), Turn(calls=calls), LOOK, DONE)
    after = lab.run(run.agent, DONE, after=run)

    assert [end_of(run), end_of(after)] == [("end_turn", "It is in Graz.")] * 2
