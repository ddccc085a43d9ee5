"""How reviewers decide: how fast, how often they agree, and what was withdrawn later."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations
from typing import Any

from django.db.models import Aggregate, Count, Exists, F, FloatField, OuterRef, Q, QuerySet
from django.db.models.functions import TruncWeek

from memory.heuristics.models import Heuristic
from memory.review.models import Review

_Decision = Review.Decision
APPROVALS = (_Decision.APPROVE, _Decision.FIRST_APPROVAL)
WITHDRAWALS = (_Decision.RETIRE, _Decision.QUARANTINE)
# An edit comes with its approval.
_NO_DECISION = (_Decision.EDIT, _Decision.UNDO, _Decision.REFLECT_AGAIN, _Decision.CONFIRM_EVIDENCE, _Decision.KEEP)
_UNDONE_WITHIN = timedelta(seconds=16)
_LISTED = 20


class Median(Aggregate):
    """The middle value, computed by the database."""

    name = "median"
    template = "percentile_cont(0.5) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()
    # PostgreSQL refuses DISTINCT in an ordered-set aggregate.
    allow_distinct = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ReviewerRow:
    """One reviewer's decisions. `compared` are those on a wording that another decided on too."""

    reviewer: str
    decisions: int
    approved: int
    regretted: int
    median_seconds: float | None
    agreed: int
    compared: int

    @property
    def approval_percent(self) -> float:
        return 100 * self.approved / self.decisions

    @property
    def regret_percent(self) -> float | None:
        return 100 * self.regretted / self.approved if self.approved else None

    @property
    def agreement_percent(self) -> float | None:
        return 100 * self.agreed / self.compared if self.compared else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Disagreement:
    """Words that two people decided on differently."""

    heuristic: Heuristic
    approved_by: str
    refused_by: str
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class Regret:
    """A lesson that was approved and taken out of service later."""

    heuristic: Heuristic
    approved_by: str
    approved_at: datetime
    withdrawn_by: str
    withdrawn_at: datetime
    decision: str
    reason: str


def decisions(reviews: QuerySet[Review]) -> QuerySet[Review]:
    """Leave what counts as a decision on a lesson: no edits, which come with approvals, and nothing that was undone."""
    undone = Review.objects.filter(undoes=OuterRef("pk"))
    of_lessons = reviews.filter(kind=Review.Kind.LESSON)
    return of_lessons.exclude(decision__in=_NO_DECISION).filter(~Exists(undone))


def regretted(reviews: QuerySet[Review]) -> QuerySet[Review]:
    """Leave the approvals of what was later retired or quarantined."""
    withdrawals = Review.objects.filter(decision__in=WITHDRAWALS)
    later = decisions(withdrawals).filter(subject_id=OuterRef("subject_id"), created_at__gt=OuterRef("created_at"))
    return decisions(reviews).filter(Exists(later), decision=_Decision.APPROVE)


def count_reviewers(reviews: QuerySet[Review]) -> list[ReviewerRow]:
    """Return one row a reviewer, the busiest first. Three queries."""
    counted: Any = (
        decisions(reviews)
        .values("reviewer")
        .annotate(
            decided=Count("id"),
            approved=Count("id", filter=Q(decision__in=APPROVALS)),
            seconds=Median(F("seconds_on_screen")),
        )
        .order_by("-decided", "reviewer")
    )
    taken_back: Any = regretted(reviews).values_list("reviewer").annotate(count=Count("id")).order_by()
    regrets = dict(taken_back)
    agreement = _count_agreement(_compared(reviews))
    return [
        ReviewerRow(
            reviewer=row["reviewer"],
            decisions=row["decided"],
            approved=row["approved"],
            regretted=regrets.get(row["reviewer"], 0),
            median_seconds=row["seconds"],
            agreed=agreement[row["reviewer"]][0],
            compared=agreement[row["reviewer"]][1],
        )
        for row in counted
    ]


def count_weeks(reviews: QuerySet[Review], *, start: datetime) -> dict[datetime, tuple[int, int]]:
    """Return approvals and other decisions by week. One query."""
    rows: Any = (
        decisions(reviews.filter(created_at__gte=start))
        .annotate(week=TruncWeek("created_at"))
        .values_list("week")
        .annotate(approved=Count("id", filter=Q(decision__in=APPROVALS)), all=Count("id"))
        .order_by("week")
    )
    return {week: (approved, total - approved) for week, approved, total in rows}


def median_seconds(reviews: QuerySet[Review]) -> float | None:
    """Return the median time on screen. One query."""
    value: float | None = decisions(reviews).aggregate(median=Median(F("seconds_on_screen")))["median"]
    return value


def find_regrets(reviews: QuerySet[Review]) -> list[Regret]:
    """Return the newest approvals that were taken back, each with its withdrawal. Two queries."""
    approvals = list(regretted(reviews).select_related("heuristic__current_revision")[:_LISTED])
    of_these = Review.objects.filter(subject_id__in=[review.subject_id for review in approvals])
    withdrawals = decisions(of_these.filter(decision__in=WITHDRAWALS)).order_by("created_at")
    by_heuristic: dict[Any, list[Review]] = defaultdict(list)
    for withdrawal in withdrawals:
        by_heuristic[withdrawal.subject_id].append(withdrawal)
    regrets = []
    for review in approvals:
        withdrawal = next(later for later in by_heuristic[review.subject_id] if later.created_at > review.created_at)
        regrets.append(
            Regret(
                heuristic=review.heuristic,
                approved_by=review.reviewer,
                approved_at=review.created_at,
                withdrawn_by=withdrawal.reviewer,
                withdrawn_at=withdrawal.created_at,
                decision="quarantined" if withdrawal.decision == _Decision.QUARANTINE else "retired",
                reason=withdrawal.reason,
            )
        )
    return regrets


def find_disagreements(reviews: QuerySet[Review]) -> list[Disagreement]:
    """Return the words that were approved by one person and refused by another, newest first. Two queries."""
    disagreements = []
    for first, second in _pairs(_compared(reviews)):
        if _approves(first) != _approves(second):
            yes, no = (first, second) if _approves(first) else (second, first)
            disagreements.append((max(first.created_at, second.created_at), yes, no))
    newest = sorted(disagreements, key=lambda item: item[0], reverse=True)[:_LISTED]
    rows = Heuristic.objects.select_related("current_revision").in_bulk([no.subject_id for _, _, no in newest])
    return [
        Disagreement(heuristic=rows[no.subject_id], approved_by=yes.reviewer, refused_by=no.reviewer, at=at)
        for at, yes, no in newest
    ]


def _compared(reviews: QuerySet[Review]) -> list[Review]:
    """Return everybody's last word on texts that more than one person decided on."""
    judged = decisions(reviews).filter(decision__in=[*APPROVALS, _Decision.REJECT, _Decision.QUARANTINE])
    # By text, not by lesson: two people may have read different wordings of one lesson.
    twice: Any = (
        judged.values("subject_id", "content_sha256")
        .annotate(people=Count("reviewer", distinct=True))
        .filter(people__gt=1)
        .values("content_sha256")
    )
    rows = judged.filter(content_sha256__in=twice).order_by("created_at", "id")
    # Rows come oldest first, so the last one of a reviewer stays.
    latest = {(row.subject_id, row.content_sha256, row.reviewer): row for row in rows}
    return list(latest.values())


def _count_agreement(compared: Iterable[Review]) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for first, second in _pairs(compared):
        agrees = int(_approves(first) == _approves(second))
        for review in (first, second):
            agreed, total = counts[review.reviewer]
            counts[review.reviewer] = (agreed + agrees, total + 1)
    return counts


def _pairs(compared: Iterable[Review]) -> Iterable[tuple[Review, Review]]:
    by_text: dict[Any, list[Review]] = defaultdict(list)
    for review in compared:
        by_text[review.subject_id, review.content_sha256].append(review)
    for same in by_text.values():
        yield from combinations(same, 2)


def _approves(review: Review) -> bool:
    return review.decision in APPROVALS
