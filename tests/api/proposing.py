"""One lesson as a client proposes it."""

URL = "/api/v1/heuristics"
LESSON = {
    "trigger": "A customer asks to cancel a basic economy ticket",
    "guideline": "Check the fare class and the time of booking before calling cancel_reservation.",
    "avoid": "Calling cancel_reservation at once.",
    "not_when": "The airline cancelled the flight.",
    "rationale": "The policy refuses it after 24 hours.",
    "polarity": "avoid",
    "scope": "task_family",
    "task_id": "airline.cancel",
    "tags": ["airline", "refund"],
    "source_task": "Cancel reservation EHGLP3",
}
