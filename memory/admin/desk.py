"""What the review desk shows for one heuristic."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, Max, Q

from memory.admin.decision_form import DecisionForm
from memory.admin.neighbours import find_neighbours
from memory.admin.panels import draw_desk_panels
from memory.admin.timeline import collect_events, count_use
from memory.models import Evidence, Heuristic, HeuristicRevision, Trajectory
from memory.retrieval.context import count_tokens, write_line

_RUNS = 5  # runs shown; the rest are counted
_FAMILY_RUNS = 20
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
class Place:
    """Where in its project's queue a proposal stands, and what is before and after it."""

    number: int
    waiting: int
    following: UUID | None
    preceding: UUID | None


def desk_context(heuristic: Heuristic, *, form: DecisionForm | None, may_review: bool) -> dict[str, Any]:
    """Collect all that the desk's template needs, in a fixed number of queries."""
    revision = heuristic.current_revision
    assert revision is not None
    served = None if revision.served else HeuristicRevision.objects.filter(heuristic=heuristic, served=True).first()
    runs = _cited_runs(heuristic)
    use, first_served_at = count_use(heuristic)
    line = _agent_line(revision)
    waiting = heuristic.status == Heuristic.Status.PROPOSED
    return {
        "heuristic": heuristic,
        "revision": revision,
        "served": served,
        "agent_line": line,
        "tokens": count_tokens(line + "\n"),
        "runs": runs,
        "runs_not_shown": max(0, heuristic.support - len(runs)),
        "family": _recent_outcomes(heuristic, revision),
        "neighbours": find_neighbours(revision),
        "panels": draw_desk_panels(heuristic),
        "use": use,
        "events": collect_events(heuristic, first_served_at),
        "form": form or DecisionForm.for_revision(heuristic, revision),
        "may_review": may_review,
        "waiting": waiting,
        "is_served": revision.served or served is not None,
        "place": _find_place(heuristic),
        "title": "Review" if waiting else "Heuristic",
    }


def next_proposed(heuristic: Heuristic) -> Heuristic | None:
    """Find the proposal that follows in the queue: the next older one, then the newest of the rest."""
    queue = Heuristic.objects.proposed().filter(project=heuristic.project_id).exclude(pk=heuristic.pk)
    older = queue.filter(created_at__lte=heuristic.created_at).order_by("-created_at", "-id").first()
    return older or queue.order_by("-created_at", "-id").first()


def _find_place(heuristic: Heuristic) -> Place:
    queue = Heuristic.objects.proposed().filter(project=heuristic.project_id)
    newer = Q(created_at__gt=heuristic.created_at)
    counted = queue.aggregate(waiting=Count("id"), newer=Count("id", filter=newer))
    others = queue.exclude(pk=heuristic.pk).values_list("pk", flat=True)
    return Place(
        number=counted["newer"] + 1,
        waiting=counted["waiting"],
        following=others.filter(created_at__lte=heuristic.created_at).order_by("-created_at", "-id").first(),
        preceding=others.filter(newer).order_by("created_at", "id").first(),
    )


def _agent_line(revision: HeuristicRevision) -> str:
    """Return the lesson as it stands in an agent's prompt."""
    words = {name: getattr(revision, name) for name in ("trigger", "guideline", "avoid", "not_when")}
    return write_line({"id": revision.heuristic_id, **words}, number=1)


def _recent_outcomes(heuristic: Heuristic, revision: HeuristicRevision) -> list[Any]:
    """Return how the newest runs that it is meant for ended: those of its task family, or all of the project."""
    runs = Trajectory.objects.filter(project=heuristic.project_id)
    if revision.task_id:
        runs = runs.filter(task_id=revision.task_id)
    return list(runs.values("pk", "outcome", "task", "created_at")[:_FAMILY_RUNS])


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
