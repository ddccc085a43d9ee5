"""Periodic work on mistake cards: merges that could not be made earlier, and the retention a project asks for."""

from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from memory.errors import NotServable
from memory.mistakes.decisions import retire_card
from memory.mistakes.models import MistakeCard
from memory.mistakes.similarity import find_unsettled_cards, settle_cards
from memory.projects.actors import Actor
from memory.projects.models import Project

RETENTION = Actor.policy("mistake-card-retention")


def keep_cards() -> None:
    """Merge cards that could not be embedded when they were reported, and retire those not seen for long."""
    if unsettled := find_unsettled_cards():
        settle_cards(unsettled, new_ids=unsettled)
    for project in Project.objects.filter(mistake_card_retention_days__isnull=False):
        retire_unseen_cards(project)


def retire_unseen_cards(project: Project) -> int:
    """Retire a project's served cards that no run reported within its retention days; return how many.

    They stay in the admin with their counts, where a reviewer can propose them again.
    """
    if project.mistake_card_retention_days is None:
        return 0
    since = timezone.now() - timedelta(days=project.mistake_card_retention_days)
    unseen = Q(last_seen_at__lt=since) | Q(last_seen_at__isnull=True, created_at__lt=since)
    retired = 0
    for card in MistakeCard.objects.filter(unseen, project=project, revisions__served=True).distinct():
        try:
            retire_card(card, by=RETENTION, reason=f"Not seen for {project.mistake_card_retention_days} days.")
            retired += 1
        except NotServable:
            continue  # it was retired in the meantime
    return retired
