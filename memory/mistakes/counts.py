"""How often a mistake was seen: distinct runs, up to a limit for each client, including those of merged cards."""

from django.db import connection

from memory.mistakes.models import MistakeCard

SIGHTINGS_PER_CLIENT = 20  # so that no agent can make a mistake look common
_COUNT = """
WITH RECURSIVE family AS (
    SELECT id, coalesce((details ->> 'imported_count')::integer, 0) AS imported_count
    FROM memory_heuristic WHERE id = %(card)s
    UNION
    SELECT c.id, coalesce((c.details ->> 'imported_count')::integer, 0)
    FROM memory_heuristic c JOIN family f ON c.superseded_by_id = f.id
), runs AS (
    SELECT DISTINCT ON (s.trajectory_id) s.trajectory_id, s.client, s.created_at
    FROM memory_evidence s JOIN family f ON s.heuristic_id = f.id ORDER BY s.trajectory_id, s.created_at
), clients AS (
    SELECT least(count(*), %(cap)s) AS counted FROM runs GROUP BY client
)
SELECT (SELECT coalesce(sum(counted), 0) FROM clients) + (SELECT sum(imported_count) FROM family),
    (SELECT trajectory_id FROM runs ORDER BY created_at, trajectory_id LIMIT 1),
    (SELECT min(created_at) FROM runs),
    (SELECT trajectory_id FROM runs ORDER BY created_at DESC, trajectory_id DESC LIMIT 1),
    (SELECT max(created_at) FROM runs)
"""


def recount(card: MistakeCard) -> None:
    """Count the runs of a locked card again, including those of the cards merged into it."""
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, {"card": card.pk, "cap": SIGHTINGS_PER_CLIENT})
        count, first_seen, first_seen_at, last_seen, card.last_seen_at = cursor.fetchone()
    card.support = int(count)
    card.details |= {
        "first_seen": str(first_seen) if first_seen else None,
        "first_seen_at": first_seen_at.isoformat() if first_seen_at else None,
        "last_seen": str(last_seen) if last_seen else None,
    }
    card.save(update_fields=["support", "last_seen_at", "details"])


def lock_root(card: MistakeCard) -> MistakeCard:
    """Return, locked, the card that counts this one's runs: itself, or the one it was finally merged into."""
    # A merged card may itself be merged into another one later.
    while card.superseded_by_id is not None:
        card = MistakeCard.objects.select_for_update().get(pk=card.superseded_by_id)
    return card
