"""What is shown of one lesson: its words, evidence, similar lessons, effect and history."""

from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import Exists, F, Max, OuterRef, Q
from django.utils import timezone
from pgvector.django import MaxInnerProduct

from desk.effects.uplift import describe_lesson_effect
from desk.lessons.queue import explain_priority
from desk.lessons.release_facts import describe_releases
from desk.lessons.serving_facts import describe_serving
from desk.reflections.suggestions import find_suggestions
from desk.shell.word_diff import DiffPart, diff_heuristics
from memory.curation.priority import find_fitting_tasks
from memory.curation.proposal_groups import count_wordings, find_group_evidence, find_others
from memory.effects.outcomes import OutcomeCount, count_by_heuristic, describe_effect
from memory.heuristics.extensions import find_tallies
from memory.heuristics.models import Evidence, Heuristic, HeuristicRevision
from memory.heuristics.sameness import compare_heuristics
from memory.meaning.comparison import MeaningVerdict, compare_texts
from memory.projects.access import may_review
from memory.retrieval.context import count_tokens, write_line
from memory.retrieval.models import HeuristicEmbedding, Retrieval
from memory.review.models import Review
from memory.rows import find_row
from memory.runs.models import Trajectory
from reflection.reflectors.models import Proposal

_RUNS = 5  # runs shown; the rest are counted
_NEIGHBOURS = 1  # steps kept, folded, on either side of a cited one
_REVIEWS = 100
_SIMILAR = 3
_MIN_SIMILARITY = 0.5  # below it two lessons merely share a subject
_OPPOSED = {HeuristicRevision.Polarity.WORKS, HeuristicRevision.Polarity.AVOID}
_SOON = timedelta(minutes=2)  # within which workers rank a new proposal
_IN_USE = (Heuristic.Status.PROPOSED, Heuristic.Status.APPROVED)
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
    Review.Decision.CONFIRM_EVIDENCE: "Evidence confirmed",
    Review.Decision.SPLIT: "Taken out of its group",
    Review.Decision.KEEP: "Kept in use",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownStep:
    """A step of a run on the desk: cited with its quotes, or a neighbour to be folded."""

    step: dict[str, Any]
    cited: bool
    quotes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownRun:
    """A run a heuristic is drawn from, cut to the cited steps and their neighbours."""

    trajectory: Trajectory
    steps: tuple[ShownStep, ...]
    quotes: tuple[str, ...]  # those of the run as a whole
    had_lessons: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class SimilarHeuristic:
    """An existing lesson, how similar it is, and the changes from its wording to the one on the desk."""

    revision: HeuristicRevision
    percent: int
    diff: list[DiffPart]
    contradiction: str  # a sentence; empty if nothing suggests one


@dataclass(frozen=True, kw_only=True, slots=True)
class OtherWording:
    """Another wording of the advice on the desk, and the changes to it from the one shown."""

    heuristic: Heuristic
    revision: HeuristicRevision
    diff: list[DiffPart]


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryEntry:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Stale:
    """The wording a decision was about, and what the present one changed in it."""

    read: HeuristicRevision
    diff: list[DiffPart]


@dataclass(frozen=True, kw_only=True, slots=True)
class LessonStanding:
    """What a person may do about a lesson now, and who has claimed it."""

    heuristic: Heuristic
    revision: HeuristicRevision
    served: HeuristicRevision | None  # another wording that is served meanwhile
    is_served: bool
    may_review: bool
    archived: bool
    waiting: bool
    held_by: str  # who has claimed it, and until when
    held_until: datetime | None
    claimed_by_other: bool

    def as_context(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def find_standing(heuristic: Heuristic, *, user: Any) -> LessonStanding:
    """Tell what a person may do about a lesson. Three queries at most; none claims it."""
    revision = heuristic.current_revision
    assert revision is not None
    served = None if revision.served else find_row(heuristic.revisions.filter(served=True))
    now = timezone.now()
    archived_at = heuristic.project.archived_at
    archived = archived_at is not None and archived_at <= now
    waiting = heuristic.status == Heuristic.Status.PROPOSED and not archived
    # Asked for anew: the lesson may have been read before someone took it over.
    claims = Heuristic.objects.claimed().filter(pk=heuristic.pk).select_related("claimed_by")
    claimed = find_row(claims) if waiting else None
    return LessonStanding(
        heuristic=heuristic,
        revision=revision,
        served=served,
        is_served=revision.served or served is not None,
        may_review=may_review(user, heuristic.project_id),
        archived=archived,
        waiting=waiting,
        held_by=str(claimed.claimed_by) if claimed else "",
        held_until=claimed.claimed_until if claimed else None,
        claimed_by_other=claimed is not None and claimed.claimed_by_id != user.pk,
    )


def words_context(standing: LessonStanding, *, user: Any) -> dict[str, Any]:
    """Collect what stands beside the words that are decided on, in a fixed number of queries."""
    heuristic, revision = standing.heuristic, standing.revision
    first_approvals = _first_approvals(revision) if heuristic.project.four_eyes else []
    return {
        "serving": describe_serving(heuristic, revision),
        **describe_releases(heuristic),
        "first_approvals": first_approvals,
        "approved_by_me": any(review.reviewer_user_id == user.pk for review in first_approvals),
        "why_here": explain_priority(heuristic),
        "wording_count": count_wordings(heuristic) if standing.waiting else 1,
        "tokens": count_tokens(_write_for_agents(revision) + "\n"),
    }


def evidence_context(heuristic: Heuristic) -> dict[str, Any]:
    """Collect the runs that a lesson comes from and what the checks found. The best cited step is in `best`."""
    runs = _cited_runs(heuristic)
    return {
        "runs": runs,
        "best": _find_best_step(runs),
        "runs_not_shown": max(0, heuristic.support - len(runs)),
        "tally": find_tallies([heuristic.pk]).get(heuristic.pk),
        "checks": describe_checks(heuristic),
    }


def similar_context(heuristic: Heuristic, revision: HeuristicRevision) -> dict[str, Any]:
    """Collect the lessons that say nearly the same, and what a consolidation suggests about them."""
    return {
        "similar": find_similar(revision, leader_id=heuristic.leader_id),
        "suggestions": find_suggestions(heuristic),
    }


def count_outcome(heuristic: Heuristic) -> OutcomeCount | None:
    """Count the answers that had a lesson and how their runs ended; None where none had it. One query."""
    return count_by_heuristic([heuristic.project_id], heuristic_ids=[heuristic.pk]).get(heuristic.pk)


def effect_context(heuristic: Heuristic, revision: HeuristicRevision, outcome: OutcomeCount | None) -> dict[str, Any]:
    """Collect what a lesson does or would do: the tasks it fits, and how the runs that were given it ended."""
    return {
        "fitting": find_fitting_tasks(heuristic),
        "is_being_compared": _is_being_compared(heuristic),
        "effect": describe_effect(heuristic, outcome),
        "lesson_effect": describe_lesson_effect(heuristic),
        "agent_line": _write_for_agents(revision),
    }


def history_context(heuristic: Heuristic, outcome: OutcomeCount | None) -> dict[str, Any]:
    """Collect what happened to a lesson."""
    return {"events": collect_events(heuristic, outcome.first_at if outcome else None)}


def _write_for_agents(revision: HeuristicRevision) -> str:
    """Return the line of a lesson as it stands in an agent's prompt."""
    words = {name: getattr(revision, name) for name in ("trigger", "guideline", "avoid", "not_when")}
    return write_line({"id": revision.heuristic_id, **words}, number=1)


def _is_being_compared(heuristic: Heuristic) -> bool:
    """Tell whether a worker can be expected to compare a new proposal with the recorded tasks within seconds."""
    age = timezone.now() - heuristic.created_at
    return heuristic.status == Heuristic.Status.PROPOSED and heuristic.prioritised_at is None and age < _SOON


def compare_with_read(heuristic: Heuristic, content_sha256: str) -> Stale | None:
    """Return the wording a person read, by its hash, against the present one; None where there was no such wording."""
    read = heuristic.revisions.filter(content_sha256=content_sha256).order_by("-number").first()
    present = heuristic.current_revision
    if read is None or present is None:
        return None
    return Stale(read=read, diff=diff_heuristics(read.as_text(), present.as_text()))


def _first_approvals(revision: HeuristicRevision) -> list[Review]:
    return list(revision.reviews.filter(decision=Review.Decision.FIRST_APPROVAL))


def _cited_runs(heuristic: Heuristic) -> list[ShownRun]:
    """Return the newest runs of a lesson and its group, each once, with all that is cited of it."""
    evidence = find_group_evidence(heuristic)
    newest = evidence.values("trajectory").annotate(newest=Max("created_at")).order_by("-newest")
    evidence = evidence.filter(trajectory__in=newest.values("trajectory")[:_RUNS]).annotate(
        had_lessons=Exists(Retrieval.objects.filter(pk=OuterRef("trajectory__retrieval")).exclude(injected_ids=[]))
    )
    by_run: dict[Trajectory, list[Evidence]] = {}
    for item in evidence.select_related("trajectory").order_by("-created_at", "first_step"):
        by_run.setdefault(item.trajectory, []).append(item)
    return [_cited_run(trajectory, citations) for trajectory, citations in by_run.items()]


def _cited_run(trajectory: Trajectory, citations: list[Evidence]) -> ShownRun:
    quotes: dict[int, list[str]] = {}
    for item in citations:
        if item.first_step is not None and item.last_step is not None:
            for index in range(item.first_step, item.last_step + 1):
                quotes.setdefault(index, [])
            if item.quote:
                quotes[item.first_step].append(item.quote)
    shown = {near for index in quotes for near in range(index - _NEIGHBOURS, index + _NEIGHBOURS + 1)}
    return ShownRun(
        trajectory=trajectory,
        steps=tuple(
            ShownStep(step=step, cited=step["index"] in quotes, quotes=tuple(quotes.get(step["index"], ())))
            for step in trajectory.steps
            if step["index"] in shown
        ),
        quotes=tuple(item.quote for item in citations if item.first_step is None and item.quote),
        had_lessons=any(item.had_lessons for item in citations),  # type: ignore[attr-defined]
    )


def _find_best_step(runs: list[ShownRun]) -> tuple[ShownRun, ShownStep] | None:
    """Return the cited step that shows most: of the newest run that has one, a step with a quote or an error first."""
    for run in runs:
        cited = [step for step in run.steps if step.cited]
        if cited:
            return run, max(cited, key=lambda shown: (bool(shown.quotes), bool(shown.step.get("error"))))
    return None


def collect_events(heuristic: Heuristic, first_given_at: datetime | None) -> list[HistoryEntry]:
    """Return what happened to a heuristic, newest first. Two queries."""
    revisions = list(HeuristicRevision.objects.filter(heuristic=heuristic).order_by("number"))
    events = []
    for before, revision in zip([None, *revisions], revisions, strict=False):
        diff = diff_heuristics(before.as_text(), revision.as_text()) if before else []
        events.append(
            HistoryEntry(
                at=revision.created_at,
                kind="written",
                title="Proposed" if before is None else f"Revision {revision.number} written",
                by=revision.created_by,
                revision=revision,
                diff=tuple(diff),
            )
        )
    events.extend(
        HistoryEntry(
            at=review.created_at,
            kind=review.decision,
            title=_TITLES[review.decision],
            by=review.reviewer,
            reason=review.reason,
            seconds=review.seconds_on_screen,
            into=heuristic.superseded_by if review.decision == Review.Decision.MERGE else None,
        )
        for review in heuristic.reviews[:_REVIEWS]
    )
    if first_given_at is not None:
        events.append(HistoryEntry(at=first_given_at, kind="served", title="First given to an agent"))
    return sorted(events, key=lambda event: event.at, reverse=True)


def find_wordings(heuristic: Heuristic, revision: HeuristicRevision) -> list[OtherWording]:
    """Return the other wordings of a proposal's group, the one that stands for it first."""
    if heuristic.status != Heuristic.Status.PROPOSED:
        return []
    return [
        OtherWording(
            heuristic=other,
            revision=other.current_revision,
            diff=diff_heuristics(revision.as_text(), other.current_revision.as_text()),
        )
        for other in find_others(heuristic)
        if other.current_revision is not None
    ]


def find_similar(revision: HeuristicRevision, *, leader_id: UUID | None = None) -> list[SimilarHeuristic]:
    """Return the lessons in use that are most similar in meaning; none without an embedder. Two queries."""
    own: Any = (
        HeuristicEmbedding.objects.filter(revision=revision, kind=HeuristicEmbedding.Kind.LESSON, vector__isnull=False)
        .order_by("-embedding_model__active")
        .first()
    )
    if own is None:
        return []
    # Unit vectors: the inner product is the cosine. The operator gives its negative.
    nearest: Any = (
        HeuristicEmbedding.objects.filter(
            Q(heuristic__current_revision=F("revision")),
            heuristic__leader__isnull=True,  # the others are below the one that stands for their group
            project=own.project_id,
            embedding_model=own.embedding_model_id,
            kind=HeuristicEmbedding.Kind.LESSON,
            heuristic__status__in=_IN_USE,
        )
        .exclude(heuristic__in=[own.heuristic_id, *([leader_id] if leader_id else [])])
        .annotate(distance=MaxInnerProduct("vector", own.vector))
        .filter(distance__lte=-_MIN_SIMILARITY)
        .select_related("revision__heuristic")
        .order_by("distance")[:_SIMILAR]
    )
    return [
        SimilarHeuristic(
            revision=found.revision,
            percent=round(-100 * found.distance),
            diff=diff_heuristics(found.revision.as_text(), revision.as_text()),
            contradiction=find_contradiction(found.revision, revision),
        )
        for found in nearest
    ]


def find_contradiction(one: HeuristicRevision, other: HeuristicRevision) -> str:
    """Say why two similar lessons may contradict each other; "" if nothing suggests it."""
    said = compare_heuristics(one.as_text(), other.as_text())
    if said.is_opposite:
        return f"Only one of them can hold: {said.reason}."
    for forbidden, advised in ((one.avoid, other.guideline), (other.avoid, one.guideline)):
        if forbidden and compare_texts(forbidden, advised).verdict is MeaningVerdict.SAME:
            return "One says to do what the other says to avoid."
    if {one.polarity, other.polarity} == _OPPOSED:
        return "One says what works, the other what to avoid."
    return ""


def describe_checks(heuristic: Heuristic) -> dict[str, Any]:
    """Return what the checks found when a heuristic was proposed, and what proposing it cost. One query."""
    proposals = list(
        Proposal.objects.filter(heuristic=heuristic).select_related("reflection").order_by("created_at", "id")[:20]
    )
    findings = {finding["code"]: finding["message"] for proposal in proposals for finding in proposal.findings}
    first = proposals[0].reflection if proposals else None
    return {"findings": findings, "reflection": first}
