"""What the review desk shows for one heuristic."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Max

from memory.admin.decision_form import DecisionForm
from memory.models import Evidence, Heuristic, HeuristicRevision, Review, Trajectory

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


def desk_context(heuristic: Heuristic, *, form: DecisionForm | None, may_review: bool) -> dict[str, Any]:
    """Collect all that the desk's template needs, in a fixed number of queries."""
    revision = heuristic.current_revision
    assert revision is not None
    served = None if revision.served else HeuristicRevision.objects.filter(heuristic=heuristic, served=True).first()
    runs = _cited_runs(heuristic)
    return {
        "heuristic": heuristic,
        "revision": revision,
        "served": served,
        "runs": runs,
        "runs_not_shown": max(0, heuristic.support - len(runs)),
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
