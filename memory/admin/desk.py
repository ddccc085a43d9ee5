"""What the review desk shows for one heuristic."""

from dataclasses import dataclass
from typing import Any

from memory.admin.decision_form import DecisionForm
from memory.models import Evidence, Heuristic, HeuristicRevision, Review

_NEIGHBOURS = 1  # steps shown folded before and after the cited ones


@dataclass(frozen=True, kw_only=True, slots=True)
class CitedRun:
    """A run a heuristic is drawn from, cut to the cited steps and their neighbours."""

    evidence: Evidence
    before: list[dict[str, Any]]
    cited: list[dict[str, Any]]
    after: list[dict[str, Any]]


def desk_context(heuristic: Heuristic, *, form: DecisionForm | None, may_review: bool) -> dict[str, Any]:
    """Collect all that the desk's template needs, in a fixed number of queries."""
    revision = heuristic.current_revision
    assert revision is not None
    served = None if revision.served else HeuristicRevision.objects.filter(heuristic=heuristic, served=True).first()
    evidence = heuristic.evidence.select_related("trajectory").order_by("created_at")[:5]
    return {
        "heuristic": heuristic,
        "revision": revision,
        "served": served,
        "runs": [_cited_run(item) for item in evidence],
        "reviews": list(Review.objects.filter(heuristic=heuristic)[:20]),
        "form": form or DecisionForm.for_revision(heuristic, revision),
        "may_review": may_review,
        "waiting": heuristic.status == Heuristic.Status.PROPOSED,
        "is_served": revision.served or served is not None,
        "title": "Review" if heuristic.status == Heuristic.Status.PROPOSED else "Heuristic",
    }


def next_proposed(heuristic: Heuristic) -> Heuristic | None:
    """Find the proposal that follows in the queue: the next older one, then the newest of the rest."""
    queue = Heuristic.objects.proposed().filter(project=heuristic.project_id).exclude(pk=heuristic.pk)
    older = queue.filter(created_at__lte=heuristic.created_at).order_by("-created_at", "-id").first()
    return older or queue.order_by("-created_at", "-id").first()


def _cited_run(evidence: Evidence) -> CitedRun:
    steps = evidence.trajectory.steps
    if evidence.first_step is None or evidence.last_step is None:
        return CitedRun(evidence=evidence, before=[], cited=[], after=[])
    first, last = evidence.first_step - 1, evidence.last_step
    return CitedRun(
        evidence=evidence,
        before=steps[max(0, first - _NEIGHBOURS) : first],
        cited=steps[first:last],
        after=steps[last : last + _NEIGHBOURS],
    )
