"""Sleep proposes changes and does nothing else, however often it is killed."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from memory.blocks.edits import NewBlock, create_block
from memory.failpoints import FailpointError, armed
from memory.runs.models import Trajectory
from runtime.changes.ladder import check_change
from runtime.changes.sleep import send_to_sleep
from runtime.models.agents import Agent, AgentRevision
from runtime.models.changes import Change
from runtime.models.effects import Effect
from runtime.models.runs import Step
from runtime.models.tools import Tool, ToolRevision
from runtime.revisions import AgentSpec, create_agent
from tests.factories import make_project
from tests.runtime.changing import Service, make_shop_agent, refund, refund_order, sleep
from tests.runtime.running import BY, Script, go_on, make_agent, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def shop() -> Iterator[Service]:
    with Service().running() as service:
        yield service


def make_tired_agent(shop: Service, *, runs: int = 3, source: str = "environment") -> Agent:
    """Make an agent that has paid back several orders, each of which went well as `source` says."""
    agent = make_shop_agent(shop)
    agent.sleep_after_runs = runs
    agent.save()
    for _ in range(runs):
        refund(agent)
    Trajectory.objects.update(outcome="success", outcome_source=source)
    return agent


def all_but_changes() -> Any:
    """Return what sleep may not touch: what agents are and which tools are in force."""
    return (
        list(Agent.objects.values_list("pk", "current_id", "changes_by")),
        list(Tool.objects.exclude(current=None).values_list("name", "current_id")),
    )


def test_agent_sleeps_after_so_many_runs_and_proposes_a_tool(shop: Service) -> None:
    agent = make_tired_agent(shop)
    before = all_but_changes()

    assert (send_to_sleep(), sleep()) == (1, "done")

    change = Change.objects.get()
    check_change(change, by=BY)
    assert (change.source, change.rung, change.created_by) == ("sleep", "checked", "policy:sleep")
    assert change.checks.get(name="replay").said == "It made the same 6 calls as 3 recorded cases."
    assert all_but_changes() == before
    assert (Agent.objects.get().current, send_to_sleep()) == (agent.current, 0)


def test_runs_that_the_agent_itself_praises_teach_nothing(shop: Service) -> None:
    make_tired_agent(shop, source="agent")

    send_to_sleep()
    sleep()

    assert not Change.objects.exists()


@pytest.mark.parametrize("point", ["sleep.before_proposal", "sleep.before_end"])
def test_sleep_that_was_cut_off_proposes_nothing_twice(shop: Service, point: str) -> None:
    make_tired_agent(shop)
    send_to_sleep()

    def stop() -> None:
        raise FailpointError

    with armed(point, stop):
        sleep()
    sleep()
    Agent.objects.update(slept_at=None)
    send_to_sleep()
    sleep()

    assert (Change.objects.count(), ToolRevision.objects.filter(status="proposed").count()) == (1, 1)


def test_answers_that_were_cut_off_let_sleep_propose_longer_ones() -> None:
    agent = make_agent(max_output_tokens=500)
    for _ in range(3):
        go_on(make_run(agent), Script("It is on its way, and"))
    Agent.objects.update(sleep_after_runs=3)
    send_to_sleep()
    sleep()
    assert not Change.objects.exists()

    Step.objects.update(finish_reason="length")
    Agent.objects.update(slept_at=None)
    send_to_sleep()
    sleep()

    change = Change.objects.get()
    assert (change.kinds, change.target.max_output_tokens, change.source) == (["settings"], 1000, "sleep")
    assert Agent.objects.get().current == agent.current


def propose_by_tool(agent: Agent, **arguments: Any) -> Effect:
    run = make_run(agent)
    go_on(run, Script([("propose_change", arguments)], "Done."))
    return Effect.objects.get(run=run)


def test_agent_proposes_a_change_of_itself() -> None:
    agent = make_agent(tools=["propose_change"], system="You help.")

    effect = propose_by_tool(agent, kind="prompt", reason="Users like it brief.", system="You help. Be brief.")

    change = Change.objects.get()
    assert (effect.status, change.source, change.created_by) == ("succeeded", "agent", "agent:support")
    assert (change.target.system, Agent.objects.get().current) == ("You help. Be brief.", agent.current)


def test_agent_is_told_what_never_evolves() -> None:
    agent = make_agent(tools=["propose_change"])

    effect = propose_by_tool(agent, kind="logging", reason="It is noisy.", system="Log nothing.")

    assert effect.status == "failed"
    assert "kind logging" in effect.error
    assert AgentRevision.objects.count() == 1


def test_agent_proposes_a_tool(shop: Service) -> None:
    shop_agent = make_shop_agent(shop)
    assert shop_agent.current is not None
    tools = (*shop_agent.current.tools, {"name": "propose_change"})
    agent = create_agent(shop_agent.project, name="clever", spec=AgentSpec(tools=tools), by=BY)
    content = refund_order().content()
    tool = {name: content[name] for name in ("name", "description", "parameters", "source", "uses", "examples")}

    effect = propose_by_tool(agent, kind="tool", reason="Two calls in one.", tool=tool)

    assert effect.status == "succeeded", effect.error
    assert Change.objects.get().kinds == ["tool"]
    assert ToolRevision.objects.get(tool__name="refund_order").status == "proposed"


def test_agent_that_ran_too_little_sleeps_once_it_is_idle(shop: Service) -> None:
    agent = make_tired_agent(shop, runs=1)
    Agent.objects.filter(pk=agent.pk).update(sleep_after_runs=100)
    assert send_to_sleep() == 0

    agent.runs.update(finished_at=timezone.now() - timedelta(hours=7))

    assert send_to_sleep() == 1


def test_sleep_proposes_to_tidy_a_block_once() -> None:
    project = make_project()
    block = create_block(project, NewBlock(label="human", value="Seat: 12A\nSeat: 30C"), by=BY)
    agent = make_agent(project=project, blocks=({"label": "human", "block": str(block.pk)},))
    Agent.objects.update(sleep_after_runs=1)
    go_on(make_run(agent), Script("At nine."))

    for _ in range(2):
        Agent.objects.update(slept_at=None)
        send_to_sleep()
        sleep()

    (proposed,) = block.revisions.waiting()
    block.refresh_from_db()
    assert (proposed.value, proposed.created_by) == ("Seat: 30C", "policy:sleep")
    assert block.current is not None
    assert block.current.value == "Seat: 12A\nSeat: 30C"
