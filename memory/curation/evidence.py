"""The runs that lessons come from. Every way by which a run comes to a lesson leads through `link_evidence`."""

from collections.abc import Iterable, Sequence

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from memory.after_commit import after_commit
from memory.curation.proposal_groups import choose_leader, count_support, lock_groups
from memory.heuristics.models import Evidence, Heuristic
from memory.heuristics.text import Citation
from memory.index.heuristic_vectors import count_terms, embed_heuristics
from memory.redaction import redact
from memory.runs.models import Trajectory


@transaction.atomic
def add_evidence(heuristic: Heuristic, trajectory: Trajectory, *, citations: Iterable[Citation]) -> Heuristic:
    """Link a heuristic to the run it is seen in. Support becomes the number of distinct runs.

    The run changes nothing in what agents are given until a reviewer approves the heuristic or confirms the evidence.
    """
    heuristic = lock_groups(heuristic)[heuristic.pk]
    heuristic = link_evidence(heuristic, [cite(heuristic, trajectory, citation) for citation in citations])
    choose_leader(heuristic)
    return heuristic


def cite(heuristic: Heuristic, trajectory: Trajectory, citation: Citation) -> Evidence:
    """Return a piece of evidence that is not stored yet, its quote without secrets."""
    return Evidence(
        project_id=heuristic.project_id,
        heuristic=heuristic,
        trajectory=trajectory,
        first_step=citation.first_step,
        last_step=citation.last_step,
        quote=redact(citation.quote).value,
    )


def link_evidence(heuristic: Heuristic, pieces: Sequence[Evidence]) -> Heuristic:
    """Store evidence of a heuristic; what is there already changes nothing.

    The tasks of approved evidence are searched from now on. Those of the rest are, once a reviewer approves it.
    """
    # Agents send the same run again after a lost answer; the unique constraint decides what is new.
    Evidence.objects.bulk_create(pieces, ignore_conflicts=True)
    if any(piece.approved_at is not None for piece in pieces):
        after_commit(embed_heuristics, [heuristic.pk])
        after_commit(count_terms, heuristic.project_id)
    if heuristic.leader is not None:
        count_support(heuristic.leader)
    return count_support(heuristic)


def copy_evidence(heuristic: Heuristic, *, into: Heuristic, seen: bool = False) -> Heuristic:
    """Give a heuristic the evidence of another that was merged into it; a run that counted still counts.

    Args:
        seen: a reviewer saw it on the page of the heuristic, so that it keeps the time when it was linked.
    """
    pieces = list(heuristic.evidence.all())
    for piece in pieces:
        if piece.approved_at is not None:
            same = into.evidence.filter(
                trajectory=piece.trajectory_id, first_step=piece.first_step, last_step=piece.last_step
            )
            waiting = same.filter(approved_at__isnull=True)
            # bulk_create passes over what is there, so its approval is carried over first.
            waiting.update(approved_at=piece.approved_at, approved_by=piece.approved_by)
    copies = [
        Evidence(
            project_id=into.project_id,
            heuristic=into,
            trajectory_id=piece.trajectory_id,
            first_step=piece.first_step,
            last_step=piece.last_step,
            quote=piece.quote,
            approved_by=piece.approved_by,
            approved_at=piece.approved_at,
            merged_from_id=piece.merged_from_id or heuristic.pk,
            created_at=piece.created_at if seen else timezone.now(),
        )
        for piece in pieces
    ]
    return link_evidence(into, copies)


def take_back_evidence(heuristic: Heuristic) -> None:
    """Take back what a merge gave to another heuristic, now that this one stands by itself again."""
    merged = Q(merged_from=heuristic) | Q(merged_from__in=heuristic.evidence.order_by().values("merged_from"))
    # Pieces carry the lesson they first came from, also over several merges.
    given = Evidence.objects.filter(merged, project=heuristic.project_id).exclude(heuristic=heuristic)
    holders = set(given.values_list("heuristic", flat=True))
    if not holders:
        return
    given.delete()
    # In one order, so that two decisions that touch the same rows cannot deadlock.
    for holder in Heuristic.objects.select_for_update().filter(pk__in=holders).order_by("pk"):
        count_support(holder)
