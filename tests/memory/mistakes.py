"""Runs that report mistakes, and their cards."""

from typing import Any

from memory.intake.recording import RunSender, record_trajectory
from memory.mistakes.models import MistakeCard
from memory.mistakes.policy import settle_cards
from memory.projects.actors import Actor
from memory.projects.models import Project

ANA = Actor(label="user:ana")
CARD = {
    "mistake_type": "wrong_fare",
    "bad_decision": "Cancelled a basic economy ticket without looking at the time of booking.",
    "correct_decision": "Check the time of booking before cancelling.",
    "evidence": "Step 4: cancel_reservation answered with an error.",
    "lesson": "Basic economy can be cancelled within 24 hours only.",
}
PARAPHRASE = CARD | {"correct_decision": "Check when the ticket was booked before cancelling it."}
OTHER = {
    "mistake_type": "gift_card_balance",
    "bad_decision": "Offered a refund to a gift card that had been used up.",
    "correct_decision": "Ask for another means of payment.",
    "lesson": "Gift cards cannot take refunds above their first value.",
}


def record(project: Project, *cards: dict[str, Any], client: str = "agent", **data: Any) -> Any:
    """Record a run that reports mistakes, and do what follows the commit."""
    fields = {"task": "Cancel my flight", "task_id": "airline", "agent": "bot", "mistake_cards": list(cards)} | data
    trajectory = record_trajectory(
        project, data=fields, by=Actor(label=f"key:{client}"), sender=RunSender(client=client), reflect=False
    ).trajectory
    ids = list(trajectory.evidence.values_list("heuristic_id", flat=True))
    new = [card.pk for card in MistakeCard.objects.filter(pk__in=ids) if card.evidence.count() == 1]
    settle_cards(ids, new_ids=new)
    return trajectory


def only_card() -> MistakeCard:
    return MistakeCard.objects.with_text().get()


def served_words(card: MistakeCard) -> list[str]:
    return list(card.revisions.filter(served=True).values_list("rationale", flat=True))


def merged_card() -> MistakeCard:
    return MistakeCard.objects.with_text().get(status=MistakeCard.Status.SUPERSEDED)
