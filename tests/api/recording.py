"""One run as a client records it."""

from typing import Any

from rest_framework.test import APIClient

URL = "/api/v1/trajectories"
RUN = {
    "task": "Cancel reservation EHGLP3",
    "task_id": "airline.cancel",
    "steps": [
        {
            "thought": "Look first.",
            "action": {"name": "get_reservation_details", "arguments": {"reservation_id": "EHGLP3"}},
            "observation": "basic_economy",
        },
        {"action": 'cancel_reservation({"reservation_id": "EHGLP3"})', "error": "Error: not allowed"},
    ],
    "outcome": "failure",
    "score": 0.0,
    "outcome_source": "environment",
    "agent": "travel",
    "model": "gpt-4o",
    "tags": ["airline"],
    "summary": "Cancelled too late.",
    "mistakes": ["Did not check the fare class."],
    "successes": ["Found the reservation."],
    "mistake_cards": [
        {
            "mistake_type": "policy",
            "task_id": "airline.cancel",
            "worker_id": "w1",
            "bad_decision": "cancel at once",
            "correct_decision": "check the fare class",
            "evidence": "step 2",
            "lesson": "Basic economy cannot be cancelled.",
        }
    ],
    "tokens": 4096,
    "cost_usd": 0.0123,
    "external_id": "run-1",
    "metadata": {"trial": 3},
}


def post(client: APIClient, **changes: Any) -> Any:
    return client.post(URL, RUN | changes)
