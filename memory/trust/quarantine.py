"""Take everything learnt from one source out of service, and list the answers that carried it (reliability D3)."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Q

from memory.curation.decisions import quarantine_heuristic
from memory.failpoints import failpoint
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.mistakes.decisions import retire_card
from memory.mistakes.models import MistakeCard, MistakeCardRevision
from memory.projects.actors import Actor, name_actor
from memory.projects.models import ApiKey, Project
from memory.retrieval.models import Retrieval
from memory.trust.models import QuarantineOrder

log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Carried:
    """An answer that carried a lesson that is now quarantined."""

    retrieval_id: UUID
    answered_at: datetime
    request_id: str
    client: str
    agent: str
    heuristic_ids: tuple[UUID, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Quarantined:
    """What an order took out of service, and the answers that had carried it."""

    order: QuarantineOrder
    heuristic_ids: tuple[UUID, ...]
    carried: tuple[Carried, ...]
    card_ids: tuple[UUID, ...] = ()


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
    """Quarantine all lessons that an API key or a client contributed to since a time, served or waiting for review.

    These are the lessons with evidence from runs it recorded, and the lessons it proposed or reworded. A lesson is
    included even if it has other evidence, so that a person decides again. Answers given after the commit carry none of
    them, and only a review brings one back. Mistake cards with the source's wording are retired.

    Raises:
        ValueError: not exactly one of key and client is given, or the key belongs to another project.
    """
    if (api_key is None) == (not client) or (api_key is not None and api_key.project_id != project.pk):
        raise ValueError("Name either an API key of this project or a client.")
    name_actor(by)
    source = f"key:{api_key.prefix}" if api_key else f"client:{client}"
    suspects = find_suspects(project, api_key=api_key, client=client, since=since)
    # Lock them all, in a fixed order, before changing the first.
    locked = list(Heuristic.objects.select_for_update().filter(pk__in=suspects).order_by("pk"))
    live = [heuristic for heuristic in locked if _is_live(heuristic)]
    words = f"Everything from {source} since {since:%Y-%m-%d %H:%M} UTC" + (f": {reason}" if reason else ".")
    for heuristic in live:
        quarantine_heuristic(heuristic, by=by, reason=words)
    ids = tuple(heuristic.pk for heuristic in live)
    cards = _find_cards(project, api_key=api_key, client=client, since=since)
    for card in cards:
        retire_card(card, by=by, reason=words)
    carried = find_carried(project, heuristic_ids=ids)
    order = QuarantineOrder.objects.create(
        project_id=project.pk,
        source=source,
        since=since,
        reason=reason,
        heuristic_ids=list(ids),
        retrieval_count=len(carried),
        ordered_by=by.label,
    )
    log.warning("source_quarantined", source=source, heuristics=len(ids), retrievals=len(carried), by=by.label)
    failpoint("quarantine.before_commit")
    return Quarantined(order=order, heuristic_ids=ids, carried=carried, card_ids=tuple(card.pk for card in cards))


def _find_cards(project: Project, *, api_key: ApiKey | None, client: str, since: datetime) -> list[MistakeCard]:
    """Return the served cards whose wording comes from a run that the source recorded."""
    source = {"trajectory__api_key": api_key} if api_key else {"trajectory__client": client}
    words = MistakeCardRevision.objects.served().filter(**source, project=project, trajectory__created_at__gte=since)
    return list(MistakeCard.objects.select_for_update().filter(pk__in=words.values("card")).order_by("pk"))


def find_suspects(project: Project, *, api_key: ApiKey | None = None, client: str = "", since: datetime) -> list[UUID]:
    """Return the lessons a source contributed to. Proposals record only the client, not which of its keys was used."""
    name = api_key.client if api_key else client
    recorded = Q(evidence__trajectory__created_at__gte=since)
    recorded &= Q(evidence__trajectory__api_key=api_key) if api_key else Q(evidence__trajectory__client=client)
    proposed = Q(client=name, created_at__gte=since, evidence__isnull=True)  # with evidence, the time of the run counts
    reworded = Q(revisions__created_by=f"key:{name}", revisions__created_at__gte=since)
    found = Heuristic.objects.for_project(project).filter(recorded | proposed | reworded)
    return list(found.order_by().values_list("pk", flat=True).distinct())


def find_carried(project: Project, *, heuristic_ids: tuple[UUID, ...]) -> tuple[Carried, ...]:
    """Return the answers whose block contained any of these lessons, oldest first."""
    if not heuristic_ids:
        return ()
    wanted = set(heuristic_ids)
    rows = (
        Retrieval.objects.filter(project=project)
        .injecting(heuristic_ids)
        .order_by("created_at", "pk")
        .values_list("pk", "created_at", "request_id", "client", "agent", "injected_ids")
    )
    return tuple(
        Carried(
            retrieval_id=pk,
            answered_at=created_at,
            request_id=request_id,
            client=client,
            agent=agent,
            heuristic_ids=tuple(id for id in ids if id in wanted),
        )
        for pk, created_at, request_id, client, agent, ids in rows
    )


def _is_live(heuristic: Heuristic) -> bool:
    waits = heuristic.status == Heuristic.Status.PROPOSED
    return waits or HeuristicRevision.objects.filter(heuristic=heuristic, served=True).exists()
