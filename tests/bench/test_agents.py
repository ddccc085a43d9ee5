"""The benchmarks of agents at their smallest: in this process, through the API, with the server on loopback."""

from collections.abc import Iterator
from typing import Any

import pytest

from bench.agents.bfcl import NARROW, Place
from bench.agents.loopback import Loopback
from bench.agents.product import InProcess, Product
from bench.agents.prompts import Conversations, Taken, compare_all
from evaluation.environments.bfcl import read_dialogues

pytestmark = pytest.mark.nightly


@pytest.fixture
def loopback(settings: Any) -> Iterator[Loopback]:
    settings.ERL_REFLECTION_LEASE_SECONDS = 3600  # the heartbeat does not see the test's transaction
    settings.ERL_LLM_PROVIDER = "openai-compatible"
    settings.ERL_LLM_MODEL = "bench"
    settings.ERL_HTTP_HOSTS = ["127.0.0.1"]
    with Loopback(keep=True) as server:
        settings.ERL_LLM_BASE_URL = f"{server.url}/v1"
        yield server


@pytest.mark.django_db
def test_dialogue_is_held_through_the_api(loopback: Loopback) -> None:
    pytest.importorskip("bfcl_eval")
    dialogue = read_dialogues("long_context")["multi_turn_long_context_0"]
    place = Place(name="place", loopback=loopback, product=Product.make(InProcess(), "bench"))
    place.prepare(dialogue.classes)

    held = place.hold(dialogue, window=NARROW)

    assert (held.why, held.right_turns) == ("", held.turns)
    assert held.largest <= NARROW


@pytest.mark.django_db
def test_prompts_are_those_that_were_received(loopback: Loopback) -> None:
    place = Conversations(name="whimsical", loopback=loopback, product=Product.make(InProcess(), "bench"))

    taken = place.hold(4)
    compared = compare_all(taken)
    changed = Taken(run=taken[0].run, received=(taken[0].received[0].replace(b"read_result", b"read_resulx"),))
    other = compare_all([changed])

    assert (compared.steps > 4, compared.differ) == (True, ())
    assert len(other.differ) > 0
