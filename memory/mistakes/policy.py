"""What happens to mistake cards without a person: automatic merges, the project's policy, retention."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import structlog
from django.utils import timezone

from memory.curation.decisions import retire_heuristic
from memory.errors import (
    AlreadyDecided,
    ChangedMeanwhile,
    CoveredByOrder,
    EmbedderError,
    NotAllowed,
    NotServable,
    OrderUnderWay,
    ProjectArchived,
)
from memory.heuristics.models import HeuristicRevision
from memory.limits import MAX_RETENTION_DAYS
from memory.mistakes.decisions import approve_card
from memory.mistakes.models import MistakeCard
from memory.mistakes.reports import MistakeText
from memory.mistakes.similarity import find_unsettled_cards, merge_similar
from memory.projects.actors import Actor
from memory.projects.models import Project

log = structlog.get_logger(__name__)

RETENTION = Actor.policy("mistake-card-retention")
CORROBORATED_RUNS, CORROBORATED_CLIENTS = 3, 2
_Policy = Project.MistakeCardPolicy


def settle_cards(card_ids: Iterable[UUID], *, new_ids: Collection[UUID] = ()) -> None:
    """Merge new cards into similar ones, then let the project's policy decide on all of them.

    Safe to repeat. Where the embedder does not answer, `find_unsettled_cards` names the cards for later.
    """
    for card_id in new_ids:
        try:
            merge_similar(card_id)
        except EmbedderError as error:
            log.warning("mistake_card_not_embedded", reason=str(error))
    for card in MistakeCard.objects.proposed().filter(pk__in=list(card_ids)).select_related("project"):
        _apply_policy(card)


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
    if not project.mistake_card_retention_days:
        return 0
    since = timezone.now() - timedelta(days=min(project.mistake_card_retention_days, MAX_RETENTION_DAYS))
    retired = 0
    for card in MistakeCard.objects.unseen_since(since).filter(project=project):
        try:
            retire_heuristic(card, by=RETENTION, reason=f"Not seen for {project.mistake_card_retention_days} days.")
            retired += 1
        except NotServable:
            continue  # it was retired in the meantime
    return retired


def _apply_policy(card: MistakeCard) -> None:
    """Approve a card in the name of its project's policy, if it has one that applies."""
    policy, judged = card.project.mistake_card_policy, card.current_revision
    if policy == _Policy.PEOPLE or card.project.four_eyes or judged is None:
        return  # where two reviewers are required, a person has to approve cards too
    if policy == _Policy.CORROBORATED and not _is_corroborated(card, judged):
        return
    try:
        approve_card(card, by=Actor.policy(policy), content_sha256=judged.content_sha256)
    except (AlreadyDecided, ChangedMeanwhile, NotAllowed, ProjectArchived):
        return  # other words came, it was decided, or the project was archived or asked for two, in the meantime
    except (CoveredByOrder, OrderUnderWay) as error:
        log.info("mistake_card_covered", card_id=str(card.pk), reason=type(error).__name__)


def _is_corroborated(card: MistakeCard, judged: HeuristicRevision) -> bool:
    """Tell whether several runs of several clients reported exactly these words, the first ones of the card.

    Runs that report the same mistake in other words corroborate that it is made, but not what would be served.
    """
    if judged.number != 1:
        return False
    words = MistakeText.of(judged)
    sightings = card.evidence.order_by().values_list("client", "words")
    clients = [
        client
        for client, reported in sightings.iterator()
        if words.says_the_same_as(replace(words, **(reported or {})))
    ]
    return len(clients) >= CORROBORATED_RUNS and len(set(clients)) >= CORROBORATED_CLIENTS
