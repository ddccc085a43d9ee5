"""A small simulated office with tools, unwritten rules, and a check of the result. Plain Python, no network.

Mail goes to addresses, not names; lists come in pages; a refund needs a code that must be requested first; dates have
one format. The two splits have different people and orders, but the same rules.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from evaluation.environments.base import Split, Task

PEOPLE: dict[Split, tuple[str, ...]] = {
    "source": ("Ada", "Bruno", "Chen", "Dilek", "Emeka", "Freya", "Goran", "Hana", "Idris", "Jorun"),
    "test": ("Kofi", "Leila", "Mateo", "Nadia", "Oskar", "Priya", "Quinn", "Rosa", "Soren", "Tala"),
}
MESSAGES = ("the meeting is at noon", "the invoice is paid", "the parcel has arrived", "the lift is repaired")
EVENTS = ("budget review", "fire drill", "team lunch", "stock count")
MONTHS = {"January": 1, "March": 3, "May": 5, "August": 8, "October": 10, "December": 12}
FAMILIES = ("mail", "total", "refund", "event")
TASKS_PER_SPLIT = 40
PAGE = 2
TOOLS = {
    "find_contact": "find_contact(name): look a person up",
    "send_mail": "send_mail(to, text): send a mail",
    "list_orders": "list_orders(customer, page): list a customer's orders",
    "refund_code": "refund_code(order): ask for a code for a refund",
    "refund_order": "refund_order(order, code): pay an order back",
    "add_event": "add_event(title, date): put an event into the calendar",
    "finish": "finish(answer): end the task, with the answer if one was asked for",
}


@dataclass(kw_only=True)
class Office:
    """The world of one task. `call` uses a tool; `is_done` tells whether exactly the requested action was done."""

    addresses: dict[str, str]
    orders: dict[str, list[tuple[str, int]]]
    wanted: dict[str, Any]
    done: dict[str, list[Any]] = field(default_factory=lambda: {"mail": [], "refund": [], "event": []})
    answer: str = ""
    is_over: bool = False

    def call(self, tool: str, arguments: dict[str, str]) -> str:
        """Use a tool and return its answer."""
        actions: dict[str, Callable[..., str]] = {
            "find_contact": lambda name: self.addresses.get(name, "Error: no one has that name"),
            "send_mail": self._send_mail,
            "list_orders": self._list_orders,
            "refund_code": lambda order: f"R-{order}" if self._has_order(order) else "Error: no such order",
            "refund_order": self._refund_order,
            "add_event": self._add_event,
            "finish": self._finish,
        }
        if tool not in actions:
            return f"Error: there is no tool {tool}"
        try:
            return actions[tool](**arguments)
        # Arguments that are missing or unknown: the answer says how the tool is used.
        except TypeError:
            return f"Error: use it as {TOOLS[tool].partition(':')[0]}"

    @property
    def is_done(self) -> bool:
        kind, value = self.wanted["kind"], self.wanted["value"]
        # An agent that also does something that was not asked for has not solved the task.
        others = any(self.done[action] for action in self.done if action != kind)
        if kind == "total":
            return self.is_over and not others and self.answer.strip().strip(".") == value
        return not others and self.done[kind] == [value]

    def _send_mail(self, to: str, text: str) -> str:
        if to not in self.addresses.values():
            return "Error: unknown recipient"
        self.done["mail"].append([to, text.strip().rstrip(".")])
        return "sent"

    def _list_orders(self, customer: str, page: str = "1") -> str:
        if not page.isdigit() or customer not in self.orders:
            return "Error: no such customer or page"
        start = (int(page) - 1) * PAGE
        rows = [f"{number}: {amount} dollars" for number, amount in self.orders[customer][start : start + PAGE]]
        return "; ".join(rows) or "nothing more"

    def _has_order(self, order: str) -> bool:
        return any(number == order for rows in self.orders.values() for number, _ in rows)

    def _refund_order(self, order: str, code: str = "") -> str:
        if code != f"R-{order}" or not self._has_order(order):
            return "Error: the code is missing or wrong"
        self.done["refund"].append(order)
        return "refunded"

    def _add_event(self, title: str, date: str) -> str:
        parts = date.split("-")
        if [len(part) for part in parts] != [4, 2, 2] or not all(part.isdigit() for part in parts):
            return "Error: the date is not readable"
        self.done["event"].append([title, date])
        return "added"

    def _finish(self, answer: str = "") -> str:
        self.answer, self.is_over = answer, True
        return "over"


def make_tasks(split: Split, *, seed: int) -> Sequence[Task]:
    """Return the tasks of a split, cycling through the families."""
    return [
        Task(id=name, text=_generate(name)[0], family=FAMILIES[number % len(FAMILIES)])
        for number in range(TASKS_PER_SPLIT)
        for name in [f"{split}-{seed}-{number:02d}"]
    ]


def open_office(task_id: str) -> Office:
    """Return the initial world of a task."""
    return _generate(task_id)[1]


def _generate(task_id: str) -> tuple[str, Office]:
    split, _, number = task_id.split("-")
    # From the id alone, so that each process builds the same world for a task.
    generator = random.Random(task_id)  # noqa: S311 - repeatable by design
    people = PEOPLE["source" if split == "source" else "test"]
    addresses = {name: f"{name.lower()}.{generator.randrange(100, 999)}@office.example" for name in people}
    orders = {
        name: [(f"{generator.randrange(1000, 9999)}", generator.randrange(5, 90)) for _ in range(5)] for name in people
    }
    who = generator.choice(people)
    value: Any
    match FAMILIES[int(number) % len(FAMILIES)]:
        case "mail":
            message = generator.choice(MESSAGES)
            text, kind, value = f"Tell {who} by mail that {message}.", "mail", [addresses[who], message]
        case "total":
            text, kind = f"How many dollars are all orders of {who} together? Answer with the number.", "total"
            # Over all pages: an agent that reads only the first one gets another sum.
            value = str(sum(amount for _, amount in orders[who]))
        case "refund":
            order = generator.choice(orders[who])[0]
            text, kind, value = f"Pay order {order} of {who} back.", "refund", order
        case _:
            title, month, day = generator.choice(EVENTS), generator.choice(list(MONTHS)), generator.randrange(1, 28)
            text = f"Put the {title} of {day} {month} 2027 into the calendar."
            kind, value = "event", [title, f"2027-{MONTHS[month]:02d}-{day:02d}"]
    return text, Office(addresses=addresses, orders=orders, wanted={"kind": kind, "value": value})
