"""Record which runs a mistake was seen in: one card for a mistake, one sighting for a run."""

from uuid import UUID

from django.conf import settings
from django.db import transaction

from memory.after_commit import after_commit
from memory.heuristics.models import Evidence, Heuristic
from memory.mistakes.counts import SIGHTINGS_PER_CLIENT, lock_root, recount
from memory.mistakes.decisions import note_words
from memory.mistakes.models import MistakeCard
from memory.mistakes.policy import settle_cards
from memory.mistakes.reports import MistakeText, identify_mistake, read_mistake
from memory.projects.actors import Actor
from memory.runs.models import Trajectory


@transaction.atomic
def sight_mistakes(trajectory: Trajectory, *, by: Actor) -> None:
    """Count each mistake that a run reports on its card, and make the cards that do not exist yet.

    A new card waits for a reviewer. While too many cards of the run's client wait, no new ones are made (reliability
    D5). After the commit, new cards are merged into older ones that say the same in other words, and the project's
    policy, if it has one, decides.
    """
    reports = _read_reports(trajectory)
    if reports and not _has_room(trajectory.project_id, trajectory.client):
        # Mistakes that have a card are still counted; only new cards need room.
        existing = MistakeCard.objects.filter(project_id=trajectory.project_id, identity_sha256__in=list(reports))
        reports = {identity: reports[identity] for identity in existing.values_list("identity_sha256", flat=True)}
    if not reports:
        return
    made = MistakeCard.objects.bulk_create(
        [
            MistakeCard(
                kind=Heuristic.Kind.MISTAKE,
                project_id=trajectory.project_id,
                identity_sha256=identity,
                client=trajectory.client,
            )
            for identity in reports
        ],
        ignore_conflicts=True,
    )
    # Locked in one order, so that two runs with the same mistakes cannot deadlock.
    cards = list(
        MistakeCard.objects.select_for_update()
        .filter(project_id=trajectory.project_id, identity_sha256__in=list(reports))
        .order_by("pk")
    )
    # bulk_create gives an id to every row, also to those that were there; only a stored one is new.
    new = {card.pk for card in made} & {card.pk for card in cards}
    for card in cards:
        text = reports[card.identity_sha256]
        if _count_run(card, text, trajectory):
            note_words(card, text, trajectory=trajectory, by=by)
    after_commit(settle_cards, [card.pk for card in cards], new_ids=new)


def _read_reports(trajectory: Trajectory) -> dict[str, MistakeText]:
    """Return what a run reports, by the identity of the mistake; the last of several reports of one counts."""
    texts = [
        read_mistake(raw, task_id=trajectory.task_id, worker_id=trajectory.agent) for raw in trajectory.mistake_cards
    ]
    return {identify_mistake(text): text for text in texts if text is not None}


def _has_room(project_id: UUID, client: str) -> bool:
    """Tell whether a client may propose another card; there is no limit for cards that came from no client."""
    limit = settings.ERL_PENDING_PROPOSALS_PER_CLIENT
    if not limit or not client:
        return True
    waiting = MistakeCard.objects.proposed().filter(project_id=project_id, client=client).order_by("pk")
    # One row at the limit tells enough; a count would read all that wait.
    return not waiting.values_list("pk")[limit - 1 : limit]


def _count_run(card: MistakeCard, text: MistakeText, trajectory: Trajectory) -> bool:
    """Count a run on a locked card; return whether it was not counted before."""
    sighting, created = Evidence.objects.get_or_create(
        heuristic=card,
        trajectory=trajectory,
        defaults={
            "project_id": card.project_id,
            "client": trajectory.client,
            "created_at": trajectory.created_at,
            "quote": text.evidence,
            "words": {name: getattr(text, name) for name in ("bad_decision", "correct_decision", "lesson")},
        },
    )
    if not created:
        return False
    root = lock_root(card)
    cap = SIGHTINGS_PER_CLIENT
    of_client = Evidence.objects.filter(heuristic=card, client=sighting.client, words__isnull=False).order_by()
    if len(of_client.values_list("pk")[: cap + 1]) > cap:
        # No more runs of this client count, so there is nothing to recount; only the last run is another.
        root.last_seen_at = sighting.created_at
        root.details["last_seen"] = str(trajectory.pk)
        root.save(update_fields=["last_seen_at", "details"])
    else:
        recount(root)
    if root.pk == card.pk:
        card.support, card.last_seen_at, card.details = root.support, root.last_seen_at, root.details
    return True
