"""The office of the suite live, worked in by a scripted agent that slips instead of a language model."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from evaluation.environments.base import Split, Task, TryResult
from evaluation.environments.office import PAGE, TOOLS, Office, make_tasks, open_office
from evaluation.environments.scripted.advice import read_advice
from evaluation.environments.scripted.agent import ScriptedAgent
from evaluation.environments.scripted.plan import PlannedCall, ScriptedAnswer, SlipKind, Work
from evaluation.environments.scripted.slips import choose_slips, find_slips

_MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip


def _spoken_date(date: str) -> str:
    year, month, day = date.split("-")
    return f"{int(day)} {_MONTHS[int(month) - 1]} {year}"


# The office has few situations, so this clerk has most of the habits that one can have in it
HABITS: dict[SlipKind, float] = {"skipped": 0.9, "form": 0.9, "invented": 0.9, "wrong tool": 0.9, "forgotten": 0.3}
FORMS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("add_event", "date"): _spoken_date,
    ("send_mail", "to"): lambda address: address.partition(".")[0].title(),
    ("list_orders", "customer"): str.lower,
    ("find_contact", "name"): str.lower,
}


class OpenedOffice:
    """The office as a world of tools."""

    def __init__(self, task_id: str) -> None:
        self.office = open_office(task_id)

    def call(self, name: str, arguments: dict[str, Any]) -> ScriptedAnswer:
        text = self.office.call(name, arguments)
        return ScriptedAnswer(text=text, is_error=text.startswith("Error"))


class Clerk:
    """Forty tasks to learn from and forty others with other people and orders."""

    name = "clerk"

    def tasks(self, split: Split, *, seed: int) -> Sequence[Task]:
        return make_tasks(split, seed=seed)

    def run(self, task: Task, *, lessons: str, trial: int) -> TryResult:
        seed = task.id.split("-")[1]
        work = Work(
            requests=(task.text,), plan=make_plan(open_office(task.id), task.text), offered=tuple(TOOLS), forms=FORMS
        )
        work, slips = find_slips(lambda: OpenedOffice(task.id), work)
        world = OpenedOffice(task.id)
        chosen = choose_slips(slips, seed=seed, task=task.id, habits=HABITS)
        agent = ScriptedAgent(world, work, chosen, advice=read_advice(lessons), seed=f"{task.id}:{trial}")
        agent.do_turn(0)
        return TryResult(
            success=world.office.is_done and not agent.is_cut,
            steps=agent.steps,
            turns=len(agent.steps),
            members={"tools": list(TOOLS)},
        )


def make_plan(office: Office, text: str) -> list[PlannedCall]:
    """Return the calls that do a task."""
    kind, value = office.wanted["kind"], office.wanted["value"]
    who = next((name for name in office.addresses if re.search(rf"\b{name}\b", text)), "")
    calls: list[tuple[str, dict[str, Any]]]
    match kind:
        case "mail":
            calls = [("find_contact", {"name": who}), ("send_mail", {"to": value[0], "text": value[1]})]
        case "total":
            # Rounded up: the last page may be partly empty.
            pages = -(-len(office.orders[who]) // PAGE)
            calls = [("list_orders", {"customer": who, "page": f"{page + 1}"}) for page in range(pages)]
            calls.append(("finish", {"answer": value}))
        case "refund":
            calls = [("refund_code", {"order": value}), ("refund_order", {"order": value, "code": f"R-{value}"})]
        case _:
            calls = [("add_event", {"title": value[0], "date": value[1]})]
    return [PlannedCall(turn=0, name=name, arguments=arguments) for name, arguments in calls]
