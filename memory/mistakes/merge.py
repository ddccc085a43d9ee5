"""Make one of two cards that say the same, by hand or by their likeness; and take that back."""

import hashlib
from collections.abc import Collection, Iterable
from uuid import UUID

import structlog
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone
from pgvector import HalfVector

from memory.curation.deciders import check_card_decider
from memory.embeddings.composite import embed_composites
from memory.embeddings.registry import find_embedder
from memory.errors import AlreadyDecided, CannotMerge, EmbedderError, NotAllowed, ProjectArchived
from memory.index.heuristic_vectors import get_active_model
from memory.mistakes.counts import recount
from memory.mistakes.decisions import approve_card, record_card_review
from memory.mistakes.models import MistakeCard, MistakeCardReview, MistakeCardRevision, MistakeEmbedding, MistakeMerge
from memory.projects.actors import Actor
from memory.projects.models import Project

log = structlog.get_logger(__name__)

BY_LIKENESS = Actor.policy("mistake-likeness")
CORROBORATED_RUNS, CORROBORATED_CLIENTS = 3, 2
_IN_USE = (MistakeCard.Status.PROPOSED, MistakeCard.Status.APPROVED)
_Policy = Project.MistakeCardPolicy
_Decision = MistakeCardReview.Decision

# Of one family and worker, standing and in use, and never of a pair that somebody has taken apart.
_LIKEST = """
SELECT e.card_id, -(e.vector <#> own.vector) AS similarity
FROM memory_mistakeembedding own
JOIN memory_mistakecard mine ON mine.id = own.card_id
JOIN memory_mistakecard c ON c.project_id = mine.project_id AND c.task_id = mine.task_id
    AND c.worker_id = mine.worker_id AND c.id <> mine.id AND c.merged_into_id IS NULL
    AND c.status IN ('proposed', 'approved')
JOIN memory_mistakeembedding e ON e.card_id = c.id AND e.embedding_model_id = own.embedding_model_id
WHERE own.card_id = %(card)s AND own.embedding_model_id = %(model)s
    AND NOT EXISTS (SELECT FROM memory_mistakemerge m WHERE m.undone_at IS NOT NULL
                    AND (m.card_id, m.into_id) IN ((mine.id, c.id), (c.id, mine.id)))
ORDER BY similarity DESC, c.id LIMIT 1
"""


@transaction.atomic
def merge_cards(
    card: MistakeCard,
    *,
    into: MistakeCard,
    by: Actor,
    similarity: float | None = None,
    reason: str = "",
    request_id: str = "",
) -> MistakeMerge:
    """Count one card's runs with another's from now on. Agents are given the other's words only.

    Raises:
        CannotMerge: the two are the same or of two projects.
        AlreadyDecided: one of them was merged before, or the other is not in use.
        NotAllowed, ProjectArchived: see `check_card_decider`; counting by likeness is no decision on words.
    """
    if card.pk == into.pk or card.project_id != into.project_id:
        raise CannotMerge("Choose another card of the same project to merge this one into.")
    if by != BY_LIKENESS:
        check_card_decider(card, by=by)
    rows = MistakeCard.objects.select_for_update().filter(pk__in=[card.pk, into.pk]).order_by("pk")
    locked = {row.pk: row for row in rows}
    card, into = locked[card.pk], locked[into.pk]
    for each in (card, into):
        if each.merged_into_id is not None:
            raise AlreadyDecided(f"The card {each} was merged into another before.")
    if into.status not in _IN_USE:
        raise AlreadyDecided(f"The card {into} is {into.status}: merge into one that is proposed or approved.")
    served = card.revisions.filter(served=True).first()
    if served is not None:
        MistakeCardRevision.objects.filter(pk=served.pk).update(served=False)
    merge = MistakeMerge.objects.create(
        project_id=card.project_id,
        card=card,
        into=into,
        similarity=similarity,
        served_before=served,
        merged_by=by.label,
    )
    card.merged_into = into
    card.updated_at = timezone.now()
    card.save(update_fields=["merged_into", "updated_at"])
    recount(into)
    if card.current_revision is not None:
        record_card_review(card, card.current_revision, _Decision.MERGE, by, reason, request_id)
    return merge


@transaction.atomic
def undo_merge(merge: MistakeMerge, *, by: Actor, reason: str = "", request_id: str = "") -> MistakeCard:
    """Take a merge back: both cards count for themselves, and what was served before is served again.

    The two are not merged again by likeness.

    Raises:
        AlreadyDecided: it was undone before.
        NotAllowed, ProjectArchived: see `check_card_decider`.
    """
    check_card_decider(merge.card, by=by)
    rows = MistakeCard.objects.select_for_update().filter(pk__in=[merge.card_id, merge.into_id]).order_by("pk")
    locked = {row.pk: row for row in rows}
    undone = MistakeMerge.objects.filter(pk=merge.pk, undone_at__isnull=True).update(
        undone_at=timezone.now(), undone_by=by.label
    )
    if not undone:
        raise AlreadyDecided("This merge was undone before.")
    card, into = locked[merge.card_id], locked[merge.into_id]
    card.merged_into = None
    card.updated_at = timezone.now()
    card.save(update_fields=["merged_into", "updated_at"])
    if merge.served_before_id is not None:
        MistakeCardRevision.objects.filter(pk=merge.served_before_id).update(served=True)
    recount(card)
    recount(into)
    if card.current_revision is not None:
        record_card_review(card, card.current_revision, _Decision.UNMERGE, by, reason, request_id)
    return card


def settle_cards(card_ids: Iterable[UUID], *, new_ids: Collection[UUID] = ()) -> None:
    """Merge new cards into what they resemble, then let the project's policy decide on all of them.

    Safe to repeat. Where the embedder does not answer, `find_unsettled_cards` names the cards for later.
    """
    for card_id in new_ids:
        try:
            merge_by_likeness(card_id)
        except EmbedderError as error:
            log.warning("mistake_card_not_embedded", reason=str(error))
    for card in MistakeCard.objects.proposed().filter(pk__in=list(card_ids)).select_related("project"):
        _apply_policy(card)


def merge_by_likeness(card_id: UUID) -> MistakeMerge | None:
    """Merge a card with the one it resembles most, if they are alike enough; the younger goes into the older.

    A card that agents are given is not merged away by a machine; the other one is merged into it.

    Raises:
        EmbedderError: there is no vector for its words now.
    """
    if not _embed(card_id):
        return None
    with connection.cursor() as cursor:
        cursor.execute(_LIKEST, {"card": card_id, "model": get_active_model().pk})
        row = cursor.fetchone()
    if row is None or row[1] < settings.ERL_MISTAKE_MERGE_SIMILARITY:
        return None
    with transaction.atomic():
        rows = MistakeCard.objects.select_for_update().filter(pk__in=[card_id, row[0]]).order_by("pk")
        pair = [each for each in rows if each.merged_into_id is None]
        if len(pair) < 2:
            return None
        served = [each.revisions.filter(served=True).exists() for each in pair]
        if all(served):
            return None  # two approved cards are for people to merge
        older, younger = pair if not served[1] else pair[::-1]
        if older.status not in _IN_USE:
            return None
        merge = merge_cards(younger, into=older, by=BY_LIKENESS, similarity=round(row[1], 4))
    log.info("mistake_cards_merged", card_id=str(younger.pk), into_id=str(older.pk), similarity=merge.similarity)
    return merge


def find_unsettled_cards(*, limit: int = 100) -> list[UUID]:
    """Return proposed cards whose words have no vector of the active model, oldest first."""
    model = get_active_model()
    if find_embedder(model.pk) is None:
        return []
    embedded = MistakeEmbedding.objects.filter(card=OuterRef("pk"), embedding_model=model)
    waiting = MistakeCard.objects.proposed().filter(~Exists(embedded)).order_by("created_at")
    return list(waiting.values_list("pk", flat=True)[:limit])


def sections_of(revision: MistakeCardRevision) -> tuple[str, ...]:
    """Return the texts of a card that its meaning is made of."""
    texts = (revision.mistake_type, revision.bad_decision, revision.correct_decision, revision.lesson)
    return tuple(text for text in texts if text)


def _embed(card_id: UUID) -> bool:
    revision = MistakeCardRevision.objects.filter(card=card_id).order_by("-number").first()
    model = get_active_model()
    embedder = find_embedder(model.pk)
    if revision is None or embedder is None:
        return False
    sections = sections_of(revision)
    sha256 = hashlib.sha256("\0".join(sections).encode()).hexdigest()
    if MistakeEmbedding.objects.filter(card=card_id, embedding_model=model, text_sha256=sha256).exists():
        return True
    vector = HalfVector(embed_composites(embedder, [sections])[0])
    MistakeEmbedding.objects.update_or_create(
        card_id=card_id,
        embedding_model=model,
        defaults={"project_id": revision.project_id, "text_sha256": sha256, "vector": vector},
    )
    return True


def _apply_policy(card: MistakeCard) -> None:
    """Decide in the name of the project's policy, where it has one that applies."""
    policy = card.project.mistake_card_policy
    if policy == _Policy.CORROBORATED and not _is_corroborated(card):
        return
    if policy == _Policy.PEOPLE or card.project.four_eyes:
        return  # two people's eyes are asked for, and a policy is nobody's
    try:
        approve_card(card, by=Actor.policy(policy))
    except (AlreadyDecided, NotAllowed, ProjectArchived):
        return  # somebody was faster, or the project is as of now for people alone, or for nobody


def _is_corroborated(card: MistakeCard) -> bool:
    """Several runs of several clients report it, and its first words are still those that wait."""
    clients = card.sightings.values("client").distinct().count()
    first_words = card.current_revision is not None and card.current_revision.number == 1
    return first_words and card.seen_count >= CORROBORATED_RUNS and clients >= CORROBORATED_CLIENTS
