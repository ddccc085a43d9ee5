"""Runs that fill the pages which the sample runs of a quickstart leave empty: mistake cards, scores, consolidation."""

import json
import random
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

FAMILIES = {"airline.cancel": 0.4, "airline.book": 0.6, "retail.exchange": 0.5}
AGENTS = ("travel-bot", "planner")
RUNS = 12  # of each agent in each family
ERROR = "Error: basic economy cannot be cancelled after 24 hours."
CARDS = (
    ("Called cancel_reservation at once.", "Read the fare class and the time of booking first."),
    ("Called cancel_reservation right away.", "First read the fare class and the booking time."),
)
NOTES = (
    "Cancelled before checking whether the fare class of the ticket allows it.",
    "Did not check whether the fare class of the ticket allows it before cancelling.",
)
LESSONS = (
    ("When a customer asks to cancel a ticket", "Check the fare class and the booking time before you cancel it."),
    ("When a customer wants to cancel a ticket", "Before cancelling, check the fare class and when it was booked."),
)


def record_runs(base_url: str, api_key: str) -> None:
    """Record the runs and propose two similar lessons, over HTTP."""
    for trigger, guideline in LESSONS:
        _post(base_url, api_key, "heuristics", {"trigger": trigger, "guideline": guideline})
    for run in _runs():
        _post(base_url, api_key, "trajectories", run)


def _runs() -> Iterator[dict[str, Any]]:
    chance = random.Random("pictures")
    for number in range(RUNS):
        for family, start in FAMILIES.items():
            for agent in AGENTS:
                score = round(min(max(start + 0.03 * number + chance.uniform(-0.2, 0.2), 0), 1), 2)
                run: dict[str, Any] = {
                    "task": f"Customer {number + 1} asks about {family}",
                    "task_id": family,
                    "agent": agent,
                    "score": score,
                    "reflect": False,
                    "steps": [{"action": {"name": "cancel_reservation", "arguments": {}}, "observation": ERROR}],
                }
                if family == "airline.cancel" and score < 0.6:
                    bad, correct = CARDS[number % 2]
                    card = {"mistake_type": "unchecked_precondition", "bad_decision": bad, "correct_decision": correct}
                    run |= {"mistakes": [NOTES[number % 2]], "mistake_cards": [card]}
                yield run


def _post(base_url: str, api_key: str, path: str, body: dict[str, Any]) -> None:
    headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
    with urlopen(Request(f"{base_url}/{path}", json.dumps(body).encode(), headers)) as response:
        response.read()
