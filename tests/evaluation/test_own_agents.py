"""An agent of a project evolves on a suite: with its own model, within the budget, and what passes is only proposed."""

from dataclasses import replace
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now
from django.test import override_settings

from evaluation.errors import EvaluationError
from evaluation.evolution.planner import plan_turn
from evaluation.evolution.requests import EndedEvolution, EvolutionPlan, evolve_now
from evaluation.models import Evolution
from memory.failpoints import FailpointError, armed
from reflection.jobs.models import Job
from reflection.llm.base import OnText
from reflection.llm.chat import ChatAnswer, ChatRequest
from reflection.llm.models import DailySpend
from runtime.changes.ladder import check_change
from runtime.changes.proposer import version
from runtime.definitions.storage import save_tool
from runtime.definitions.values import ToolDefinition
from runtime.models.agents import Agent
from runtime.models.changes import Change
from runtime.revisions import AgentSpec, create_agent
from runtime.tools.catalogue import pin_tools
from tests.factories import make_project
from tests.runtime.running import BY, Script, make_agent
from tests.scripted_answers import answer
from tests.scripted_provider import ScriptedProvider

pytest.importorskip("bfcl_eval")
pytestmark = [pytest.mark.nightly, pytest.mark.django_db]

from evaluation.environments.bfcl import read_dialogues  # noqa: E402
from evaluation.environments.bfcl_tools import read_tools  # noqa: E402

CLASSES = ("VehicleControlAPI", "TwitterAPI")
SYSTEM = "You look after a car. " * 20


class Driver(Script):
    """A model that knows the right calls of each dialogue: it finds the dialogue by what the user said."""

    def __init__(self) -> None:
        super().__init__()
        self.known = {
            each.requests[: turn + 1]: (each, turn)
            for each in read_dialogues().values()
            for turn in range(len(each.requests))
        }

    def chat(self, request: ChatRequest, *, on_text: OnText | None = None) -> ChatAnswer:
        self.asked.append(request)
        said = tuple(message.content for message in request.messages if message.role == "user")
        dialogue, turn = self.known[said]
        names = {tool.name.partition("_")[2]: tool.name for tool in request.tools if "API_" in tool.name}
        plan = [_named(call, names) for call in dialogue.plan if call.turn == turn]
        return plan_turn(plan, seed=f"{dialogue.id}:{turn}")(len(request.messages), request)


def _named(call: Any, names: dict[str, str]) -> Any:
    return replace(call, name=names[call.name])


@pytest.fixture
def agent() -> Agent:
    """An agent with the tools of a car."""
    project = make_project()
    names = [name for name in read_tools() if name.partition("_")[0] in CLASSES]
    with override_settings(ERL_HTTP_HOSTS=["127.0.0.1"]):
        for name in names:
            description, parameters = read_tools()[name]
            definition = ToolDefinition(
                name=name,
                description=description,
                parameters=parameters,
                runtime="http",
                request={"method": "POST", "url": f"http://127.0.0.1:9/{name}"},
            )
            save_tool(project, definition, by=BY, approve=True)
    spec = AgentSpec(system=SYSTEM, tools=tuple(pin_tools(project, names)))
    return create_agent(project, name="driver", spec=spec, by=BY)


def evolve(agent: Agent, driver: Driver, *, most: int = 8) -> EndedEvolution:
    plan = EvolutionPlan(agent=str(agent.pk), suite="bfcl", generations=1, most=most)
    with override_settings(ERL_REFLECTION_LEASE_SECONDS=3600):  # the heartbeat does not see the test's transaction
        return evolve_now(agent, plan, by=BY, find=lambda model: driver)


def test_best_candidate_becomes_a_change_and_no_answer_is_paid_for_twice(agent: Agent) -> None:
    driver = Driver()

    def stop() -> None:
        raise FailpointError

    with armed("evolution.before_end", stop), pytest.raises(EvaluationError, match="FailpointError"):
        evolve(agent, driver)
    asked = len(driver.asked)
    Job.objects.update(available_at=Now())  # it would be tried again a little later
    ended = evolve(agent, driver)

    assert len(driver.asked) == asked == DailySpend.objects.get(project=agent.project).calls
    change = Change.objects.get()
    assert (ended.change, change.source, change.kinds, change.rung) == (change, "evolution", ["tool"], "proposed")
    assert Agent.objects.get().current == agent.current
    chosen = Evolution.objects.get(agent=agent).candidates.get(figures__is_chosen=True)
    assert chosen.change == change
    assert {each["name"] for each in chosen.figures["adds"]["tools"]} == {
        each["name"] for each in change.target.tools if each not in change.base.tools
    }
    check_change(change, by=BY)
    assert change.rung == "checked", list(change.checks.values_list("name", "said"))


def test_language_model_proposes_besides_the_miner(agent: Agent, settings: Any) -> None:
    short = {"kind": "prompt", "reason": "Most of it is said twice.", "content": "You look after a car."}
    unusable = {"kind": "prompt", "reason": "", "content": "Drive."}
    with ScriptedProvider(answer({"candidates": [short, unusable]})) as provider:
        settings.ERL_LLM_PROVIDER = "openai-compatible"
        settings.ERL_LLM_BASE_URL = provider.openai_url
        settings.ERL_LLM_MODEL = "scripted-1"
        ended = evolve(agent, Driver(), most=4)

    assert '"mean_tokens"' in provider.requests[0].user_text
    assert ended.change is not None
    assert (ended.change.kinds, ended.change.target.system) == (["prompt"], short["content"])
    proposer = Evolution.objects.get().figures["proposer"]
    assert (proposer["usable"], len(proposer["unusable"]), proposer["prompt_version"]) == (1, 1, version())
    chosen = Evolution.objects.get().candidates.get(figures__is_chosen=True).figures
    assert (chosen["adds"], chosen["look"]) == ({"tools": [], "system": short["content"]}, 2)


def test_agent_without_the_tools_of_a_suite_is_refused() -> None:
    agent = make_agent(tools=["propose_change"])

    with pytest.raises(CommandError, match="The agent support can work on 0 tasks of the suite bfcl"):
        call_command("evolve", "support")
    assert not Evolution.objects.exists()
    with pytest.raises(CommandError, match="An agent called nobody is in no project"):
        call_command("evolve", "nobody")
    make_agent()
    with pytest.raises(CommandError, match="in several projects"):
        call_command("evolve", "support")
    assert agent.current is not None
