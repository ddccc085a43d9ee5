"""Keep one API client from filling the reviewers' queue (reliability D5)."""

from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import Q

from memory.errors import TooManyProposals
from memory.heuristics.models import Heuristic


def has_room(project_id: UUID, client: str) -> bool:
    """Tell whether a client may bring another lesson before the reviewers. What no client brought always has room."""
    limit = settings.ERL_PENDING_PROPOSALS_PER_CLIENT
    if not limit or not client:
        return True
    of_client = Q(client=client) | Q(current_revision__created_by=f"key:{client}")
    waiting = Heuristic.objects.proposed().filter(of_client, project_id=project_id).order_by("pk")
    return not waiting.values_list("pk")[limit - 1 : limit]


def take_room(project_id: UUID, client: str) -> None:
    """Let one at a time propose for a client until the transaction ends, while there is room.

    Raises:
        TooManyProposals: as many lessons of the client wait as may.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"memory.proposals:{project_id}:{client}"]
        )
    if not has_room(project_id, client):
        raise TooManyProposals(
            f"{settings.ERL_PENDING_PROPOSALS_PER_CLIENT} lessons of this client wait for a reviewer already, so "
            "nothing was stored. Send it again when some of them are decided."
        )
