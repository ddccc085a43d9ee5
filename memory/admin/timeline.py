"""The life of a heuristic, from the proposal to its last use."""

from dataclasses import dataclass
from datetime import datetime

from memory.admin.word_diff import DiffPart, diff_heuristics
from memory.heuristics.models import Heuristic, HeuristicRevision, Review

_REVIEWS = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One thing that happened to a heuristic."""

    at: datetime
    kind: str
    title: str
    by: str = ""
    reason: str = ""
    seconds: float | None = None
    revision: HeuristicRevision | None = None
    diff: tuple[DiffPart, ...] = ()
    into: Heuristic | None = None


def collect_events(heuristic: Heuristic, first_given_at: datetime | None) -> list[Event]:
    """Return what happened to a heuristic, newest first. Two queries."""
    revisions = list(HeuristicRevision.objects.filter(heuristic=heuristic).order_by("number"))
    events = []
    for before, revision in zip([None, *revisions], revisions, strict=False):
        diff = diff_heuristics(before.as_text(), revision.as_text()) if before else []
        events.append(
            Event(
                at=revision.created_at,
                kind="written",
                title="Proposed" if before is None else f"Revision {revision.number} written",
                by=revision.created_by,
                revision=revision,
                diff=tuple(diff),
            )
        )
    events.extend(
        Event(
            at=review.created_at,
            kind=review.decision,
            title=_TITLES[review.decision],
            by=review.reviewer,
            reason=review.reason,
            seconds=review.seconds_on_screen,
            into=heuristic.superseded_by if review.decision == Review.Decision.MERGE else None,
        )
        for review in Review.objects.filter(heuristic=heuristic)[:_REVIEWS]
    )
    if first_given_at is not None:
        events.append(Event(at=first_given_at, kind="served", title="First given to an agent"))
    return sorted(events, key=lambda event: event.at, reverse=True)


_TITLES: dict[str, str] = {
    Review.Decision.APPROVE: "Approved",
    Review.Decision.FIRST_APPROVAL: "First of two approvals",
    Review.Decision.EDIT: "Edited",
    Review.Decision.REJECT: "Rejected",
    Review.Decision.RETIRE: "Retired",
    Review.Decision.QUARANTINE: "Quarantined",
    Review.Decision.MERGE: "Merged",
    Review.Decision.UNDO: "Decision undone",
    Review.Decision.REFLECT_AGAIN: "Another reflection requested",
}
