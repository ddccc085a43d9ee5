"""Groups of proposals that give the same advice: one stands in the queue, the others are further wordings below it.

`Heuristic.leader` names the proposal that stands for another; it is empty for one that stands for itself. The leader is
the wording that most runs show, then the shortest, then the oldest. It stays while a reviewer has it open, or has
approved it as the first of two. A decision on the leader is a decision on its group, see `memory.curation.decisions`.
"""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Count, DateTimeField, F, Q, QuerySet, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Greatest, Length
from django.utils import timezone

from memory.heuristics.models import Evidence, Heuristic
from memory.review.models import Review

_PROPOSED = Heuristic.Status.PROPOSED


def lock_groups(*heuristics: Heuristic) -> dict[UUID, Heuristic]:
    """Read these lessons and their groups again and hold them until the transaction ends.

    They are locked in the order of their ids, so that two decisions on one group do not deadlock.
    """
    ids = {id for heuristic in heuristics for id in (heuristic.pk, heuristic.leader_id) if id is not None}
    rows = Heuristic.objects.select_for_update().filter(Q(pk__in=ids) | Q(leader__in=ids)).order_by("pk")
    return {row.pk: row for row in rows}


def find_members(heuristic: Heuristic, *, read_at: datetime | None = None) -> list[Heuristic]:
    """Return the other wordings that a proposal stands for, oldest first: those that were there when it was read."""
    members = Heuristic.objects.filter(leader=heuristic.pk).with_text().order_by("created_at", "pk")
    return list(members.filter(grouped_at__lte=read_at) if read_at else members)


def find_others(heuristic: Heuristic) -> list[Heuristic]:
    """Return the other wordings of a proposal's group, the one that stands for it first."""
    if heuristic.leader_id is None:
        return find_members(heuristic)
    of_group = Q(pk=heuristic.leader_id) | Q(leader=heuristic.leader_id)
    others = Heuristic.objects.filter(of_group).exclude(pk=heuristic.pk).with_text()
    return list(others.order_by(F("leader").asc(nulls_first=True), "created_at", "pk"))


def count_wordings(heuristic: Heuristic) -> int:
    """Return how many wordings a lesson's group has, its own included."""
    leader_id = heuristic.leader_id or heuristic.pk
    return Heuristic.objects.filter(Q(pk=leader_id) | Q(leader=leader_id)).count()


def find_group_evidence(heuristic: Heuristic) -> QuerySet[Evidence]:
    """Return the evidence of a lesson and of the other wordings of its group."""
    leader_id = heuristic.leader_id or heuristic.pk
    return Evidence.objects.filter(Q(heuristic=leader_id) | Q(heuristic__leader=leader_id))


@transaction.atomic
def join_group(heuristic: Heuristic, *, leader: Heuristic) -> bool:
    """Put a proposal and its group behind one that says the same.

    Return False where one of the two no longer waits for itself, or a person is deciding on the first.
    """
    rows = lock_groups(leader, heuristic)
    leader, joining = rows[leader.pk], rows[heuristic.pk]
    if leader.pk == joining.pk or leader.project_id != joining.project_id or _is_being_decided(joining.pk):
        return False
    if any(proposal.status != _PROPOSED or proposal.leader_id is not None for proposal in (leader, joining)):
        return False
    _follow([joining.pk, *(row.pk for row in rows.values() if row.leader_id == joining.pk)], leader.pk)
    heuristic.leader = leader
    choose_leader(leader)
    return True


def lead_group(heuristic: Heuristic) -> None:
    """Let a locked proposal stand for its group, because a person chose its wording."""
    former = heuristic.leader
    if former is None:
        return
    siblings = Heuristic.objects.filter(leader=former).exclude(pk=heuristic.pk)
    # Read now: once the leader changes, the queryset would no longer find them.
    ids = list(siblings.values_list("pk", flat=True))
    joined_at = Value(heuristic.grouped_at, DateTimeField())  # since when its reader could see the others
    Heuristic.objects.filter(pk=heuristic.pk).update(leader=None)
    heuristic.leader = None
    # A reader saw a wording only from when both were in the group, so the later of the two times counts.
    _follow(ids, heuristic.pk, since=Greatest(F("grouped_at"), joined_at))
    _follow([former.pk], heuristic.pk, since=joined_at)
    count_support(former)
    count_support(heuristic)


def leave_group(heuristic: Heuristic) -> None:
    """Let a locked proposal stand for itself. The others of its group stay together behind the best of them."""
    former, members = heuristic.leader, list(heuristic.members.values_list("pk", flat=True))
    if former is not None:
        Heuristic.objects.filter(pk=heuristic.pk).update(leader=None)
        heuristic.leader = None
        count_support(former)
    if members:
        # A group must have a leader, so the best of those left takes over.
        first, *rest = _rank(members)
        Heuristic.objects.filter(pk__in=members).update(leader=None)
        _follow(rest, first, since=F("grouped_at"))
        count_support(Heuristic.objects.get(pk=first))
        count_support(heuristic)


def choose_leader(heuristic: Heuristic) -> None:
    """Let the best wording of the group stand for it, unless a person is deciding on the present one."""
    leader_id = heuristic.leader_id or heuristic.pk
    ids = list(Heuristic.objects.filter(Q(pk=leader_id) | Q(leader=leader_id)).values_list("pk", flat=True))
    if len(ids) == 1:
        return
    best = _rank(ids)[0]
    if best != leader_id and not _is_being_decided(leader_id):
        Heuristic.objects.filter(pk=best).update(leader=None)
        _follow((id for id in ids if id != best), best)
    # Also where the leader stays: the runs of a wording that joined count for it.
    count_support(Heuristic.objects.get(pk=leader_id))
    if best != leader_id:
        count_support(Heuristic.objects.get(pk=best))


def count_support(heuristic: Heuristic) -> Heuristic:
    """Recount the distinct runs a lesson and its group are drawn from, and those that were approved with it."""
    runs = Count("trajectory", distinct=True)
    approved = Count("trajectory", distinct=True, filter=Q(approved_at__isnull=False, heuristic=heuristic.pk))
    drawn_from = Evidence.objects.filter(Q(heuristic=heuristic.pk) | Q(heuristic__leader=heuristic.pk))
    counted = drawn_from.aggregate(support=runs, approved_support=approved)
    heuristic.support, heuristic.approved_support = counted["support"], counted["approved_support"]
    # Only these: the instance may be older than the row in the rest.
    heuristic.save(update_fields=["support", "approved_support"])
    return heuristic


def _follow(ids: Iterable[UUID], leader_id: UUID, *, since: Combinable | None = None) -> None:
    rows = Heuristic.objects.filter(pk__in=list(ids))
    rows.update(leader=leader_id, grouped_at=since or timezone.now())
    Heuristic.objects.filter(pk=leader_id).update(prioritised_at=None)  # its priority is worked out again


def _rank(ids: list[UUID]) -> list[UUID]:
    """Return proposals in the order in which they may stand for their group."""
    length = Length("current_revision__trigger") + Length("current_revision__guideline")
    rows = Heuristic.objects.filter(pk__in=ids).annotate(runs=Count("evidence__trajectory", distinct=True))
    return list(rows.order_by("-runs", length, "created_at", "pk").values_list("pk", flat=True))


def _is_being_decided(heuristic_id: UUID) -> bool:
    """Tell whether a reviewer has a proposal open, or has approved it as the first of two."""
    claimed = Heuristic.objects.claimed().filter(pk=heuristic_id)
    first = Review.objects.filter(
        subject_id=heuristic_id,
        decision=Review.Decision.FIRST_APPROVAL,
        revision_id=F("heuristic__current_revision"),
    )
    return claimed.exists() or first.exists()
