"""Where words come from, and whether a quarantine order covers them (reliability D3).

A wording's lineage names the wordings that its words come from: an edit descends from what it changed, a copy from what
it copied, however it was made. Origins name the clients and runs that said the words first. Triggers keep both and
serve nothing that an order covers; see memory/sql/quarantine.sql.
"""

from dataclasses import dataclass
from uuid import UUID

from django.db import connection, models

from memory.errors import CoveredByOrder, OrderUnderWay
from memory.heuristics.models import HeuristicRevision
from memory.ids import uuid7
from memory.runs.models import LAST_WORDS_AT, Trajectory


class WordOrigin(models.Model):
    """Who said the words of a wording: a client, or a run that they were written from.

    It has no foreign keys, because it outlives the wording and the run, and holds no text.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project_id = models.UUIDField()
    wording_id = models.UUIDField(help_text="A revision of a lesson or a mistake card.")
    client = models.TextField(blank=True, default="")
    api_key_id = models.UUIDField(null=True)
    trajectory_id = models.UUIDField(null=True)
    said_at = models.DateTimeField(help_text="When the run was recorded or the words were sent.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["project_id", "wording_id", "client", "trajectory_id"],
                # Words without a run are written down once for a client too.
                nulls_distinct=False,
                name="memory_wordorigin_once",
            ),
        ]
        indexes = [models.Index(fields=["project_id", "client", "said_at"], name="memory_wordorigin_of_client")]

    def __str__(self) -> str:
        return f"{self.client} said {self.wording_id}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """What new words were written from: wordings of other lessons, runs, or what a client sent."""

    wordings: tuple[UUID, ...] = ()
    runs: tuple[UUID, ...] = ()
    client: str = ""


OWN_WORDS = Sources()


def record_origins(revision: HeuristicRevision, sources: Sources) -> None:
    """Write down who said the words of a new wording. What an API key sent itself a trigger writes down."""
    shared = {"project_id": revision.project_id, "wording_id": revision.pk}
    runs = Trajectory.objects.filter(project=revision.project_id, pk__in=sources.runs)
    origins = [
        WordOrigin(**shared, client=client, api_key_id=key, trajectory_id=run, said_at=recorded_at)
        for run, client, key, recorded_at in runs.values_list("pk", "client", "api_key_id", LAST_WORDS_AT)
    ]
    # A run names its client, so a client of its own is written down only where there is no run.
    if not origins and sources.client:
        origins = [WordOrigin(**shared, client=sources.client, said_at=revision.created_at)]
    WordOrigin.objects.bulk_create(origins, ignore_conflicts=True)


def check_servable(project_id: UUID, lineages: list[list[UUID]]) -> None:
    """Refuse to serve words that a quarantine order covers. The database refuses too; this says it in a sentence.

    Raises:
        CoveredByOrder: an order covers some of them.
        OrderUnderWay: an order is being placed in the project.
    """
    with connection.cursor() as cursor:
        # A shared lock: decisions do not exclude each other, only an order that is being placed.
        cursor.execute("SELECT pg_try_advisory_xact_lock_shared(memory_quarantine_lock(%s))", [project_id])
        if cursor.fetchone() != (True,):
            raise OrderUnderWay(
                "A quarantine order is being placed in this project right now, so nothing was changed. Try again in a "
                "few seconds."
            )
    order_id = find_covering_order(project_id, lineages)
    if order_id is not None:
        raise CoveredByOrder(order_id)


def find_covering_order(project_id: UUID, lineages: list[list[UUID]]) -> UUID | None:
    """Return the first order in force that covers any wording with one of these lineages."""
    ids = sorted({id for lineage in lineages for id in lineage})
    with connection.cursor() as cursor:
        cursor.execute("SELECT memory_covering_order(%s, %s)", [project_id, ids])
        row = cursor.fetchone()
    return row[0] if row else None
