"""Runs that fill the pages which the sample runs of a quickstart leave empty: mistakes, scores, an experiment."""

import json
import random
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

FAMILIES = {"airline.cancel": 0.4, "airline.book": 0.6, "retail.exchange": 0.5}
AGENTS = ("travel-bot", "planner")
RUNS = 12  # of each agent in each family
UNITS = 320
SUCCESS = {"stable": 0.5, "candidate": 0.66, "holdout": 0.42, "pinned": 0.5}
REPORTED = 0.95  # of the runs; the others never end
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


def try_release(base_url: str, api_key: str) -> None:
    """Try a release with one lesson more on half of the units, and look at the experiment as their outcomes come in."""
    chance = random.Random("pictures")
    _call(base_url, api_key, "PATCH", "deployment", {"mode": "releases", "holdout_percent": 10})
    waiting = _call(base_url, api_key, "GET", "heuristics?status=proposed&limit=1")["results"][0]
    read = {"content_sha256": waiting["content_sha256"]}
    _post(base_url, api_key, f"heuristics/{waiting['id']}/approve", read)
    _post(base_url, api_key, "releases", {"note": "Check the fare class before anything else."})
    _post(base_url, api_key, "deployment/canary", {"release": 2, "percent": 50})
    _post(base_url, api_key, "experiments", {"release": 2, "steps": [], "max_units": 800})
    for number in range(UNITS):
        task = {"task": f"Customer {number + 1} asks to cancel a flight", "task_id": "airline.cancel"}
        answer = _post(base_url, api_key, "retrieve", task | {"session": f"customer-{number + 1}"})
        succeeds = chance.random() < SUCCESS[answer["arm"]]
        ended = {"outcome": "success" if succeeds else "failure", "outcome_source": "environment", "reflect": False}
        steps = [{"thought": "Look up the booking.", "observation": "The fare class is economy."}]
        if chance.random() < REPORTED:
            run = {**task, **ended, "steps": steps, "retrieval_id": answer["retrieval_id"]}
            _post(base_url, api_key, "trajectories", run)
        if number % 15 == 0:
            _post(base_url, api_key, "experiments/1/looks", {})


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


def _post(base_url: str, api_key: str, path: str, body: dict[str, Any]) -> Any:
    return _call(base_url, api_key, "POST", path, body)


def _call(base_url: str, api_key: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body is not None else None
    with urlopen(Request(f"{base_url}/{path}", data, headers, method=method)) as response:
        return json.load(response)
