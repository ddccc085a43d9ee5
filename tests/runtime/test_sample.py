"""The agent of the quickstart and the script that it plays."""

import pytest

from erl_site.quickstart.agent_demo import DEFINITION, SCRIPT
from reflection.llm.base import ProviderConfig
from reflection.llm.scripted import ScriptedModel
from runtime.approvals import decide_effect
from runtime.definitions.loading import load_file
from runtime.models.agents import Agent
from runtime.models.runs import Run
from tests.factories import make_project
from tests.runtime.running import BY, go_on, make_run

pytestmark = pytest.mark.django_db
TASK = "A customer wants to fly home a day later but does not remember the reservation number."


def play() -> tuple[Run, ScriptedModel]:
    load_file(make_project(), DEFINITION.read_text(encoding="utf-8"), by=BY)
    config = ProviderConfig(name="scripted", model="scripted", base_url=str(SCRIPT), timeout_seconds=0.0, api_key="")
    run, model = make_run(Agent.objects.get(), TASK), ScriptedModel(config)
    go_on(run, model)
    return run, model


@pytest.mark.parametrize(
    ("decision", "reply"),
    [
        ("approve", "It is done: Z7GOZK now flies 1 day later for 75 dollars. Have a good flight."),
        ("reject", "I did not change the flight. A person rejected it. Not now"),
    ],
)
def test_sample_waits_before_it_charges_a_fee_and_goes_on_after_the_decision(decision: str, reply: str) -> None:
    run, model = play()
    call = run.effects.get(status="waiting")
    assert (run.status, call.tool, call.arguments["fee"]) == ("waiting", "change_flight", 75)

    decide_effect(call, decision=decision, arguments_sha256=call.arguments_sha256, by=BY, reason="Not now")
    go_on(run, model)

    assert run.status == "succeeded"
    assert run.messages.filter(is_reply=True).get().content == reply
