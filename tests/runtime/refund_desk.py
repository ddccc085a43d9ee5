"""An agent whose tools are Python in the sandbox: list → find → policy → identity → confirmation → refund.

Its tools record nothing in the set-up `bare`: what they do is what they return. In the set-up `recording` the
confirmation writes to the customer, and the refund keeps a note; in `cpython` these two are tools in CPython.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from memory.projects.models import Project
from reflection.llm.chat import ChatRequest
from runtime.approvals import decide_effect
from runtime.changes.ladder import check_change
from runtime.changes.proposals import ProposedChange, propose_change
from runtime.definitions.storage import save_tool
from runtime.definitions.values import Example, ToolDefinition
from runtime.models.agents import Agent
from runtime.models.changes import Change
from runtime.models.runs import Run
from runtime.revisions import AgentSpec, create_agent
from runtime.tools.catalogue import pin_tools
from tests.factories import make_project
from tests.runtime.changing import rehearse
from tests.runtime.running import BY, Script, go_on, make_run

ORDERS = ("A1", "B2", "C3")
WORK = ("list_orders", "find_order", "read_policy", "check_identity", "ask_confirmation", "refund")
SOURCES = {
    "list_orders": "    return ['A1', 'B2', 'C3']",
    "find_order": "    return 'order ' + order",
    "read_policy": "    return 'Refunds within 30 days.'",
    "check_identity": "    return 'The customer of ' + order + ' is known.'",
    "ask_confirmation": "    return 'yes'",
    "refund": "    return 'refunded ' + order",
}
RECORDING = {
    "ask_confirmation": ("    send_message(message='Refund ' + order + '?')\n    return 'yes'", "send_message"),
    "refund": ("    archival_insert(text='Refunded ' + order)\n    return 'refunded ' + order", "archival_insert"),
}


def make_tool(name: str, body: str, *uses: str, **members: Any) -> ToolDefinition:
    """Return a tool of an order."""
    required: list[str] = [] if name == "list_orders" else ["order"]
    arguments = "" if name == "list_orders" else "order: str"
    return ToolDefinition(
        name=name,
        description=f"{name}.",
        parameters={
            "type": "object",
            "properties": {each: {"type": "string"} for each in required},
            "required": required,
        },
        source=f"from typing import Any\ndef {name}({arguments}) -> Any:\n{body}\n",
        uses=uses,
        **members,
    )


def make_desk(
    setup: str = "bare",
    *,
    project: Project | None = None,
    rules: tuple[dict[str, Any], ...] = (),
    orders: tuple[str, ...] = ORDERS,
) -> Agent:
    """Make the agent, with a recorded run for each order."""
    project = project or make_project()
    recording = {} if setup == "bare" else RECORDING
    runtime = "python" if setup == "cpython" else "monty"
    for name, body in SOURCES.items():
        saved = make_tool(name, *recording.get(name, (body,)))
        save_tool(project, replace(saved, runtime=runtime if saved.uses else "monty"), by=BY, approve=True)
    named = tuple(pin_tools(project, [*WORK, "send_message", "archival_insert"]))
    agent = create_agent(project, name="desk", spec=AgentSpec(system="You refund.", tools=named, rules=rules), by=BY)
    for order in orders:
        let_refund(agent, order)
    return agent


def let_refund(agent: Agent, order: str) -> Run:
    """Record a run that refunds an order by the book, with a person who approves what waits for one."""
    run, script = make_run(agent, f"Refund {order}"), Script(*[calls(WORK)] * (len(WORK) + 1))
    go_on(run, script)
    for effect in run.effects.filter(status="waiting"):
        decide_effect(effect, decision="approve", arguments_sha256=effect.arguments_sha256, by=BY)
        go_on(run, script)
    assert (run.status, run.effects.filter(parent__isnull=True).count()) == ("succeeded", len(WORK))
    return run


def calls(names: tuple[str, ...], **arguments: str) -> Callable[[ChatRequest], Any]:
    """Return a model that calls these tools one after another, each with the order of the task, and says so."""

    def turn(request: ChatRequest) -> Any:
        made = sum(said.role == "tool" for said in request.messages)
        if made >= len(names):
            return "It is refunded."
        order = next(said.content for said in request.messages if said.role == "user").split()[-1]
        given = {} if names[made] == "list_orders" else {"order": arguments.get(names[made], order)}
        return [(names[made], given)]

    return turn


def rehearse_change(agent: Agent, proposal: ProposedChange, names: tuple[str, ...], **arguments: str) -> Change:
    """Check a change and rehearse it with a model that makes these calls where its prompt or tools are the new ones."""
    change = propose_change(agent, proposal, by=BY)
    check_change(change, by=BY)
    assert change.rung == Change.Rung.CHECKED, list(change.checks.values_list("name", "said"))
    as_now, as_proposed = calls(WORK), calls(names, **arguments)

    def turn(request: ChatRequest) -> Any:
        offered = {tool.name for tool in request.tools}
        is_new = "NEW" in request.messages[0].content or not offered.isdisjoint({"verify", "find_and_read"})
        return (as_proposed if is_new else as_now)(request)

    return rehearse(change, *[turn] * 12)


def instructions(text: str, **parts: Any) -> ProposedChange:
    """Return a change of the instructions."""
    return ProposedChange(reason="It is quicker.", system=f"NEW: {text}", **parts)


def with_example(definition: ToolDefinition, answer: Any, **host: Any) -> ToolDefinition:
    """Return a tool with an example of order D4."""
    return replace(definition, examples=(Example(arguments={"order": "D4"}, answer=answer, host=host),))
