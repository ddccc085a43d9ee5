"""How often a mistake was seen: distinct runs, up to a limit for each client, including those of merged cards."""

from django.db import connection

from memory.mistakes.models import MistakeCard

SIGHTINGS_PER_CLIENT = 20  # so that no agent can make a mistake look common
_COUNT = """
WITH RECURSIVE family AS (
    SELECT id, imported_count FROM memory_mistakecard WHERE id = %(card)s
    UNION
    SELECT c.id, c.imported_count FROM memory_mistakecard c JOIN family f ON c.merged_into_id = f.id
), runs AS (
    SELECT DISTINCT ON (s.trajectory_id) s.trajectory_id, s.client, s.created_at
    FROM memory_mistakesighting s JOIN family f ON s.card_id = f.id ORDER BY s.trajectory_id, s.created_at
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
    cap = SIGHTINGS_PER_CLIENT
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, {"card": card.pk, "cap": cap})
        row = cursor.fetchone()
    card.seen_count = int(row[0])
    card.first_seen_id, card.first_seen_at, card.last_seen_id, card.last_seen_at = row[1:]
    card.save(update_fields=["seen_count", "first_seen", "first_seen_at", "last_seen", "last_seen_at"])


def lock_root(card: MistakeCard) -> MistakeCard:
    """Return, locked, the card that counts this one's runs: itself, or the one it was finally merged into."""
    while card.merged_into_id is not None:
        card = MistakeCard.objects.select_for_update().get(pk=card.merged_into_id)
    return card
