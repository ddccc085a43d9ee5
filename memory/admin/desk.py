"""What the review desk shows for one heuristic."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Max
from django.utils import timezone

from memory.admin.decision_form import DecisionForm
from memory.admin.neighbours import find_neighbours
from memory.admin.panels import draw_desk_panels
from memory.admin.queue import Queue, explain_priority
from memory.admin.timeline import collect_events
from memory.admin.word_diff import DiffPart, diff_heuristics
from memory.curation.priority import find_fitting_tasks
from memory.curation.reviewers import open_heuristic
from memory.effects.outcomes import OutcomeCount, count_by_heuristic
from memory.effects.usefulness import describe_usefulness
from memory.heuristics.extensions import can_reflect_again
from memory.heuristics.models import Evidence, Heuristic, HeuristicRevision, Review
from memory.projects.access import may_review
from memory.retrieval.context import count_tokens, write_line
from memory.runs.models import Trajectory

_RUNS = 5  # runs shown; the rest are counted
_NEIGHBOURS = 1  # steps kept, folded, on either side of a cited one


@dataclass(frozen=True, kw_only=True, slots=True)
class ShownStep:
    """A step of a run on the desk: cited with its quotes, or a neighbour to be folded."""

    step: dict[str, Any]
    cited: bool
    quotes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class CitedRun:
    """A run a heuristic is drawn from, cut to the cited steps and their neighbours."""

    trajectory: Trajectory
    steps: tuple[ShownStep, ...]
    quotes: tuple[str, ...]  # those of the run as a whole


@dataclass(frozen=True, kw_only=True, slots=True)
class Stale:
    """The wording a decision was about, and what the present one changed in it."""

    read: HeuristicRevision
    diff: list[DiffPart]


def desk_context(
    heuristic: Heuristic, *, queue: Queue, form: DecisionForm | None = None, stale: Stale | None = None
) -> dict[str, Any]:
    """Collect all that the desk's template needs, in a fixed number of queries.

    Opening a proposal claims it for a reviewer, unless another reviewer holds the claim.
    """
    revision = heuristic.current_revision
    assert revision is not None
    served = None if revision.served else HeuristicRevision.objects.filter(heuristic=heuristic, served=True).first()
    runs = _cited_runs(heuristic)
    outcome = count_by_heuristic([heuristic.project_id], heuristic_ids=[heuristic.pk]).get(heuristic.pk, OutcomeCount())
    line = _agent_line(revision)
    user = queue.user
    archived_at = heuristic.project.archived_at
    archived = archived_at is not None and archived_at <= timezone.now()
    waiting = heuristic.status == Heuristic.Status.PROPOSED and not archived
    reviews_here = may_review(user, heuristic.project_id)
    claim = open_heuristic(heuristic, revision, user_id=user.pk) if reviews_here and waiting else None
    first_approvals = _first_approvals(revision) if heuristic.project.four_eyes else []
    return {
        "heuristic": heuristic,
        "revision": revision,
        "served": served,
        "agent_line": line,
        "tokens": count_tokens(line + "\n"),
        "runs": runs,
        "runs_not_shown": max(0, heuristic.support - len(runs)),
        "fitting": find_fitting_tasks(heuristic),
        "neighbours": find_neighbours(revision),
        "panels": draw_desk_panels(heuristic),
        "effect": f"{outcome.describe()} {describe_usefulness(heuristic)}",
        "events": collect_events(heuristic, outcome.first_at),
        "form": form or DecisionForm.for_revision(heuristic, revision),
        "stale": stale,
        "may_review": reviews_here,
        "waiting": waiting,
        "archived": archived,
        "claim": claim,
        "claimed_by_other": claim is not None and claim.user_id != user.pk,
        "first_approvals": first_approvals,
        "approved_by_me": any(review.reviewer_user_id == user.pk for review in first_approvals),
        "why_here": explain_priority(heuristic),
        "can_reflect_again": can_reflect_again(),
        "queue_query": queue.query,
        "is_served": revision.served or served is not None,
        "place": queue.find_place(heuristic),
        "title": "Review" if waiting else "Lesson",
    }


def compare_with_read(heuristic: Heuristic, content_sha256: str) -> Stale | None:
    """Return the wording a person read, by its hash, against the present one; None where there was no such wording."""
    read = heuristic.revisions.filter(content_sha256=content_sha256).order_by("-number").first()
    present = heuristic.current_revision
    if read is None or present is None:
        return None
    return Stale(read=read, diff=diff_heuristics(read.as_text(), present.as_text()))


def _first_approvals(revision: HeuristicRevision) -> list[Review]:
    return list(Review.objects.filter(revision=revision, decision=Review.Decision.FIRST_APPROVAL))


def _agent_line(revision: HeuristicRevision) -> str:
    """Return the lesson as it stands in an agent's prompt."""
    words = {name: getattr(revision, name) for name in ("trigger", "guideline", "avoid", "not_when")}
    return write_line({"id": revision.heuristic_id, **words}, number=1)


def _cited_runs(heuristic: Heuristic) -> list[CitedRun]:
    """Return the newest runs, each once, with all that is cited of it."""
    newest = heuristic.evidence.values("trajectory").annotate(newest=Max("created_at")).order_by("-newest")[:_RUNS]
    evidence = heuristic.evidence.filter(trajectory__in=[row["trajectory"] for row in newest])
    by_run: dict[Trajectory, list[Evidence]] = {}
    for item in evidence.select_related("trajectory").order_by("-created_at", "first_step"):
        by_run.setdefault(item.trajectory, []).append(item)
    return [_cited_run(trajectory, citations) for trajectory, citations in by_run.items()]


def _cited_run(trajectory: Trajectory, citations: list[Evidence]) -> CitedRun:
    quotes: dict[int, list[str]] = {}
    for item in citations:
        if item.first_step is not None and item.last_step is not None:
            for index in range(item.first_step, item.last_step + 1):
                quotes.setdefault(index, [])
            if item.quote:
                quotes[item.first_step].append(item.quote)
    shown = {near for index in quotes for near in range(index - _NEIGHBOURS, index + _NEIGHBOURS + 1)}
    return CitedRun(
        trajectory=trajectory,
        steps=tuple(
            ShownStep(step=step, cited=step["index"] in quotes, quotes=tuple(quotes.get(step["index"], ())))
            for step in trajectory.steps
            if step["index"] in shown
        ),
        quotes=tuple(item.quote for item in citations if item.first_step is None and item.quote),
    )
