"""Agents with enough recorded runs to evolve on them."""

from typing import Any

from memory.projects.models import Project
from reflection.llm.base import OnText
from reflection.llm.chat import ChatAnswer, ChatRequest
from runtime.models.agents import Agent
from tests.runtime.changing import Service, make_shop_agent
from tests.runtime.running import Script, go_on, make_agent, make_run

OWN = ("read_order", "pay_back", "notify")
PAID = "Paid."


class Shopkeeper(Script):
    """A model that pays the order of its task back, with one call where it has a tool for both."""

    def chat(self, request: ChatRequest, *, on_text: OnText | None = None) -> ChatAnswer:
        task = next(each.content for each in request.messages if each.role == "user")
        order = {"order": task.rpartition(" ")[2]}
        both = [tool.name for tool in request.tools if tool.name not in OWN]
        steps: list[Any] = [[("read_order", order)], [("pay_back", order | {"amount": 150})], PAID]
        if both:
            steps = [[(both[0], order)], PAID]
        self.turns = [steps[sum(each.role == "tool" for each in request.messages)]]
        return super().chat(request, on_text=on_text)


def make_shop_with_runs(service: Service, *, project: Project, runs: int = 20) -> Agent:
    """Make an agent that has paid orders back, each in two calls."""
    agent = make_shop_agent(service, project=project)
    for number in range(runs):
        go_on(make_run(agent, f"Refund order A{number}", task_id="refunds"), Shopkeeper())
    return agent


def make_talker(*, project: Project, runs: int = 20, **how: Any) -> Agent:
    """Make an agent that has answered questions."""
    agent = make_agent(project=project, system="You help.", **how)
    for number in range(runs):
        go_on(make_run(agent, f"When does shop {number} open?", task_id="hours"), Script("At nine."))
    return agent
