"""Take everything learnt from one source out of service, list the answers that carried it, and lift an order (D3)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import structlog
from django.db import connection, transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from memory.blocks.withdrawal import withdraw_source
from memory.curation.decisions import quarantine_heuristic, retire_heuristic
from memory.errors import MemoryAppError
from memory.failpoints import failpoint
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.mistakes.models import MistakeCard
from memory.passages.storage import lift_quarantine
from memory.passages.storage import quarantine_source as quarantine_passages
from memory.projects.actors import Actor, name_actor
from memory.projects.models import ApiKey, Project
from memory.runs.models import Trajectory
from memory.trust.carried import Carried, find_carried
from memory.trust.models import QuarantineLift, QuarantineOrder

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class QuarantinedSource:
    """An API key, or a client with all of its keys, since a time."""

    client: str
    api_key: ApiKey | None = None
    since: datetime

    def __str__(self) -> str:
        return f"key:{self.api_key.prefix}" if self.api_key else f"client:{self.client}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """What an order covers at a moment: lessons the source contributed to, and all wordings with its words.

    `contributed` are all wordings of those lessons, `covered` these and what descends from them or from the source's
    words.
    """

    heuristic_ids: frozenset[UUID]
    contributed: frozenset[UUID]
    covered: frozenset[UUID]


@dataclass(frozen=True, kw_only=True, slots=True)
class Quarantined:
    """What an order took out of service, and the answers that had carried the words."""

    order: QuarantineOrder
    heuristic_ids: tuple[UUID, ...]
    carried: tuple[Carried, ...]
    card_ids: tuple[UUID, ...] = field(default=())


@transaction.atomic
def quarantine_source(
    project: Project,
    *,
    api_key: ApiKey | None = None,
    client: str = "",
    since: datetime,
    by: Actor,
    reason: str = "",
) -> Quarantined:
    """Quarantine all that an API key or a client contributed to since a time, served or waiting for review.

    These are the lessons with evidence from runs it recorded, the lessons it proposed or reworded, and every lesson and
    mistake card that is served in words which descend from the source's: by an edit, a merge, an import or a copy. Its
    passages are no longer found, and its lines go out of blocks. A
    lesson is included even if it has other evidence, so that a person decides again. Until the order is lifted the
    database serves none of these words again, whatever tries it. Answers given after the commit carry none of them.

    Raises:
        ValueError: not exactly one of key and client is given, or the key belongs to another project.
    """
    source = _check_source(project, api_key=api_key, client=client, since=since)
    name_actor(by)
    _stop_serving(project)
    reach = find_reach(project, source)
    # Lock them all, in a fixed order, before changing the first.
    locked = list(Heuristic.objects.select_for_update().filter(pk__in=_find_live(reach)).order_by("pk"))
    words = f"Everything from {source} since {since:%Y-%m-%d %H:%M} UTC" + (f": {reason}" if reason else ".")
    for heuristic in locked:
        quarantine_heuristic(heuristic, by=by, reason=words)
    ids = tuple(heuristic.pk for heuristic in locked)
    served = HeuristicRevision.objects.of_mistakes().served().filter(pk__in=reach.covered)
    cards = list(MistakeCard.objects.select_for_update().filter(pk__in=served.values("heuristic")).order_by("pk"))
    for card in cards:
        retire_heuristic(card, by=by, reason=words)
    carried = find_carried(project, reach.covered)
    order = QuarantineOrder.objects.create(
        project_id=project.pk,
        source=str(source),
        client=source.client,
        api_key_id=api_key.pk if api_key else None,
        since=since,
        reason=reason,
        heuristic_ids=list(ids),
        wording_ids=sorted(reach.contributed),
        retrieval_count=len(carried),
        ordered_by=by.label,
    )
    withdraw_source(project, client=source.client, api_key=api_key, since=since, by=by)
    quarantine_passages(project, client=source.client, api_key=api_key, since=since, order_id=order.pk)
    log.warning("source_quarantined", source=str(source), heuristics=len(ids), retrievals=len(carried), by=by.label)
    failpoint("quarantine.before_commit")
    return Quarantined(order=order, heuristic_ids=ids, carried=carried, card_ids=tuple(card.pk for card in cards))


@transaction.atomic
def lift_order(
    order: QuarantineOrder, *, by: Actor, subject: Heuristic | None = None, reason: str = ""
) -> QuarantineLift:
    """End an order, for all it covers or for the words of one lesson or mistake card.

    Nothing is served by that: a review decides what is. Lifting twice changes nothing.

    Raises:
        MemoryAppError: the lesson or card belongs to another project.
    """
    if subject is not None and subject.project_id != order.project_id:
        raise MemoryAppError("This order belongs to another project than the lesson. Choose one of its own project.")
    name_actor(by)
    lineages: Iterable[list[UUID]] = subject.revisions.values_list("lineage", flat=True) if subject else ()
    lift, _ = QuarantineLift.objects.get_or_create(
        order=order,
        subject_id=subject.pk if subject else None,
        defaults={
            "project_id": order.project_id,
            "wording_ids": sorted({id for lineage in lineages for id in lineage}),
            "reason": reason,
            "lifted_by": by.label,
        },
    )
    if subject is None:
        lift_quarantine(order.pk)
    log.warning("quarantine_lifted", order_id=str(order.pk), subject_id=str(lift.subject_id or ""), by=by.label)
    return lift


def find_reach(project: Project, source: QuarantinedSource) -> Reach:
    """Return what an order on a source covers now."""
    suspects = find_suspects(project, source)
    revisions = HeuristicRevision.objects.filter(heuristic__in=suspects)
    contributed = frozenset(revisions.values_list("pk", flat=True))
    key_id = source.api_key.pk if source.api_key else None
    with connection.cursor() as cursor:
        cursor.execute("SELECT memory_wordings_of(%s, %s, %s, %s)", [project.pk, source.client, key_id, source.since])
        wordings = {id for (id,) in cursor.fetchall()}
    covered = _find_descendants(project, contributed | wordings)
    return Reach(heuristic_ids=frozenset(suspects), contributed=contributed, covered=covered)


def find_covered_by(order: QuarantineOrder) -> frozenset[UUID]:
    """Return all wordings of lessons and cards that an order covers, or covered before it was lifted."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT memory_wordings_of(%s, %s, %s, %s)", [order.project_id, order.client, order.api_key_id, order.since]
        )
        wordings = {id for (id,) in cursor.fetchall()}
    return _find_descendants(Project.objects.get(pk=order.project_id), wordings.union(order.wording_ids))


def leave_out_quarantined(runs: QuerySet[Trajectory]) -> QuerySet[Trajectory]:
    """Leave out the runs that a source recorded since the time of an order on it, while the order is in force."""
    lifted = QuarantineLift.objects.filter(order=OuterRef("pk"), subject_id__isnull=True)
    orders = QuarantineOrder.objects.filter(
        ~Exists(lifted),
        Q(api_key_id__isnull=True) | Q(api_key_id=OuterRef("api_key_id")),
        # A run that is recorded in parts may begin before the time and say its words after it.
        Q(since__lte=OuterRef("created_at")) | Q(since__lte=OuterRef("appended_at")),
        project_id=OuterRef("project_id"),
        client=OuterRef("client"),
    )
    return runs.filter(~Exists(orders))


def find_suspects(project: Project, source: QuarantinedSource) -> set[UUID]:
    """Return the lessons a source contributed to. Proposals record only the client, not which of its keys was used."""
    # A run that is recorded in parts may begin before the time and say its words after it.
    recorded = Q(evidence__trajectory__created_at__gte=source.since) | Q(
        evidence__trajectory__appended_at__gte=source.since
    )
    if source.api_key:
        recorded &= Q(evidence__trajectory__api_key=source.api_key)
    else:
        recorded &= Q(evidence__trajectory__client=source.client)
    # With evidence, the time of the run counts.
    proposed = Q(client=source.client, created_at__gte=source.since, evidence__isnull=True)
    reworded = Q(revisions__created_by=f"key:{source.client}", revisions__created_at__gte=source.since)
    suspects = Heuristic.objects.for_project(project).filter(recorded | proposed | reworded)
    return set(suspects.order_by().values_list("pk", flat=True))


def _check_source(project: Project, *, api_key: ApiKey | None, client: str, since: datetime) -> QuarantinedSource:
    if (api_key is None) == (not client) or (api_key is not None and api_key.project_id != project.pk):
        raise ValueError("Name either an API key of this project or a client.")
    return QuarantinedSource(client=api_key.client if api_key else client, api_key=api_key, since=since)


def _stop_serving(project: Project) -> None:
    """Wait for transactions that serve something in this project, and refuse others until this one ends."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = 0")  # an order is not to fail because something is being served
        cursor.execute("SELECT pg_advisory_xact_lock(memory_quarantine_lock(%s))", [project.pk])
        # The locks on rows that follow are short, and wait no longer than usual.
        cursor.execute("SET LOCAL lock_timeout TO DEFAULT")


def _find_descendants(project: Project, wording_ids: set[UUID] | frozenset[UUID]) -> frozenset[UUID]:
    ids = list(wording_ids)
    wordings = HeuristicRevision.objects.filter(project=project, lineage__overlap=ids)
    return frozenset(wordings.values_list("pk", flat=True))


def _find_live(reach: Reach) -> set[UUID]:
    """Return the lessons to quarantine: those served in the words, and those of the source that wait for a review."""
    served = HeuristicRevision.objects.of_lessons().filter(Q(served=True) | Q(live=True))
    suspects = Heuristic.objects.filter(pk__in=reach.heuristic_ids)
    waiting = Heuristic.objects.proposed().filter(current_revision__in=reach.covered).exclude(revisions__served=True)
    return {
        *served.filter(pk__in=reach.covered).values_list("heuristic", flat=True),
        *served.filter(heuristic__in=suspects).values_list("heuristic", flat=True),
        *suspects.proposed().values_list("pk", flat=True),
        *waiting.values_list("pk", flat=True),
    }
