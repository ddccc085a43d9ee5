"""Count the mistakes a run reports: the same mistake is one card, a run counts once, a client so often and no more."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from django.db import transaction
from django.utils import timezone

from memory.curation.deciders import check_card_decider
from memory.curation.proposal_limit import has_room_for_card
from memory.errors import AlreadyDecided
from memory.mistakes.counts import SIGHTINGS_PER_CLIENT, lock_root, recount
from memory.mistakes.merge import settle_cards
from memory.mistakes.models import MistakeCard, MistakeCardRevision, MistakeSighting
from memory.mistakes.text import MistakeText
from memory.projects.actors import Actor
from memory.runs.models import Trajectory

_WORDS = ("mistake_type", "task_id", "worker_id", "bad_decision", "correct_decision", "lesson")
_SPACE = re.compile(r"\s+")
_NAMES = tuple(field.name for field in fields(MistakeText))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Report:
    """A mistake as one run reports it, and what makes it the same as another."""

    text: MistakeText
    identity: str


@transaction.atomic
def sight_mistakes(trajectory: Trajectory, *, by: Actor) -> list[MistakeCard]:
    """Count each mistake that a run reports on its card, and make the cards that do not exist yet.

    A new card waits for a reviewer; none is made while as many cards of the client wait as may (reliability D5). Once
    the run is stored, cards that say in other words what an older one says are merged into it, and the project's
    policy, if it has one, decides.
    """
    reports = _read_reports(trajectory)
    if reports and not has_room_for_card(trajectory.project_id, trajectory.client):
        known = MistakeCard.objects.filter(project_id=trajectory.project_id, identity_sha256__in=list(reports))
        reports = {identity: reports[identity] for identity in known.values_list("identity_sha256", flat=True)}
    if not reports:
        return []
    made = MistakeCard.objects.bulk_create(
        [_make_card(trajectory, report) for report in reports.values()], ignore_conflicts=True
    )
    # In one order, so that two runs with the same mistakes do not wait for each other for ever.
    cards = list(
        MistakeCard.objects.select_for_update()
        .filter(project_id=trajectory.project_id, identity_sha256__in=list(reports))
        .order_by("pk")
    )
    new = {card.pk for card in made} & {card.pk for card in cards}
    for card in cards:
        text = reports[card.identity_sha256].text
        if _sight(card, text, trajectory):
            note_words(card, text, trajectory=trajectory, by=by, is_new=card.pk in new)
    transaction.on_commit(partial(settle_cards, [card.pk for card in cards], new_ids=new), robust=True)
    return cards


def note_words(card: MistakeCard, text: MistakeText, *, trajectory: Trajectory | None, by: Actor, is_new: bool) -> None:
    """Keep the newest words of a locked card. What was approved stays served; newer words wait beside it."""
    current = None if is_new else card.current_revision
    if current is None:
        add_card_revision(card, text, number=1, trajectory=trajectory, by=by)
        return
    words = {name: getattr(text, name) or getattr(current, name) for name in _WORDS}
    if _fold_words(words) == _fold_words({name: getattr(current, name) for name in _WORDS}):
        return
    if not current.approved_sha256 and not current.reviews.exists():
        MistakeCardRevision.objects.filter(pk=current.pk).update(**words, trajectory=trajectory, created_by=by.label)
        return
    if card.status in (MistakeCard.Status.REJECTED, MistakeCard.Status.RETIRED):
        return  # saying it in other words does not bring it back; its count goes on
    decided = [_fold_words(row) for row in card.revisions.values(*_WORDS)]
    if _fold_words(words) not in decided:
        newest = card.revisions.order_by("-number").values_list("number", flat=True)[0]
        add_card_revision(card, MistakeText(**words), number=newest + 1, trajectory=trajectory, by=by)


@transaction.atomic
def reopen_card(card: MistakeCard, *, by: Actor) -> MistakeCard:
    """Put a rejected or retired card before the reviewers again, as a revision of its own: approvals are never reused.

    Raises:
        AlreadyDecided: it is neither.
        NotAllowed, ProjectArchived: see `check_card_decider`.
    """
    card = MistakeCard.objects.select_for_update().get(pk=card.pk)
    check_card_decider(card, by=by)
    if card.status not in (MistakeCard.Status.REJECTED, MistakeCard.Status.RETIRED) or card.merged_into_id is not None:
        raise AlreadyDecided(f"This card is {card.status}: only rejected and retired cards are proposed again.")
    newest = card.revisions.order_by("-number")[0]
    text = MistakeText(**{name: getattr(newest, name) for name in _WORDS})
    add_card_revision(card, text, number=newest.number + 1, trajectory=newest.trajectory, by=by)
    return card


def add_card_revision(
    card: MistakeCard, text: MistakeText, *, number: int, trajectory: Trajectory | None, by: Actor
) -> None:
    """Put words of a card before the reviewers."""
    revision = MistakeCardRevision.objects.create(
        project_id=card.project_id,
        card=card,
        number=number,
        trajectory=trajectory,
        created_by=by.label,
        **{name: getattr(text, name) for name in _WORDS},
    )
    revision.refresh_from_db(fields=["content_sha256"])  # a trigger computes it
    card.current_revision = revision
    card.status = MistakeCard.Status.PROPOSED
    card.updated_at = timezone.now()
    card.save(update_fields=["current_revision", "status", "updated_at"])


def identify_mistake(text: MistakeText) -> str:
    """Return the hash of what makes two reports the same mistake: type, task family, worker, correct decision.

    Where no correct decision is given the lesson, or else the bad decision, stands for it.
    """
    decision = text.correct_decision or text.lesson or text.bad_decision
    parts = [fold(part) for part in (text.mistake_type, text.task_id, text.worker_id, decision)]
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()


def fold(text: str) -> str:
    """Leave out what does not make another text of it: case, spaces, a full stop."""
    return _SPACE.sub(" ", text).strip(" .!;,").casefold()


def read_mistake(raw: Mapping[str, Any], *, task_id: str = "", worker_id: str = "") -> MistakeText | None:
    """Read a card as agents send it; the run's family and agent stand in. None where it says nothing."""
    values = {name: str(raw.get(name) or "").strip() for name in _NAMES}
    values["task_id"] = values["task_id"] or task_id
    values["worker_id"] = values["worker_id"] or worker_id
    values["mistake_type"] = values["mistake_type"] or "mistake"
    if not (values["bad_decision"] or values["correct_decision"] or values["lesson"]):
        return None
    return MistakeText(**values)


def _read_reports(trajectory: Trajectory) -> dict[str, _Report]:
    reports: dict[str, _Report] = {}
    for raw in trajectory.mistake_cards:
        text = read_mistake(raw, task_id=trajectory.task_id, worker_id=trajectory.agent)
        if text is not None:
            identity = identify_mistake(text)
            reports[identity] = _Report(text=text, identity=identity)
    return reports


def _make_card(trajectory: Trajectory, report: _Report) -> MistakeCard:
    return MistakeCard(
        project_id=trajectory.project_id,
        identity_sha256=report.identity,
        mistake_type=report.text.mistake_type,
        task_id=report.text.task_id,
        worker_id=report.text.worker_id,
        client=trajectory.client,
    )


def _sight(card: MistakeCard, text: MistakeText, trajectory: Trajectory) -> bool:
    """Count a run on a locked card; return whether it was not counted before."""
    sighting, created = MistakeSighting.objects.get_or_create(
        card=card,
        trajectory=trajectory,
        defaults={
            "project_id": card.project_id,
            "client": trajectory.client,
            "created_at": trajectory.created_at,
            **{name: getattr(text, name) for name in ("bad_decision", "correct_decision", "evidence", "lesson")},
        },
    )
    if not created:
        return False
    root = lock_root(card)
    cap = SIGHTINGS_PER_CLIENT
    of_client = MistakeSighting.objects.filter(card=card, client=sighting.client).values_list("pk")[: cap + 1]
    if len(of_client) > cap:
        # The client has had its say: no more of its runs are counted, but the last one is known.
        root.last_seen, root.last_seen_at = trajectory, sighting.created_at
        root.save(update_fields=["last_seen", "last_seen_at"])
    else:
        recount(root)
    if root.pk == card.pk:
        card.seen_count = root.seen_count
    return True


def _fold_words(words: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(fold(words[name]) for name in _WORDS)
