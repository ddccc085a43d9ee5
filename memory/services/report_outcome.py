"""Record how a run ended, when that is known only later."""

from django.db import transaction
from django.utils import timezone

from memory.models import Trajectory
from memory.services.refresh_usefulness import refresh_usefulness_of_run
from memory.signals import trajectory_recorded
from memory.values import Actor


@transaction.atomic
def report_outcome(
    trajectory: Trajectory,
    *,
    outcome: str,
    score: float | None = None,
    outcome_source: str,
    by: Actor,
    reflect: bool | None = None,
) -> Trajectory:
    """Set the outcome of a run; a changed outcome queues a new reflection. Repeating it changes nothing."""
    trajectory = Trajectory.objects.select_for_update(of=("self",)).select_related("project").get(pk=trajectory.pk)
    if (trajectory.outcome, trajectory.score, trajectory.outcome_source) == (outcome, score, outcome_source):
        return trajectory
    trajectory.outcome, trajectory.score, trajectory.outcome_source = outcome, score, outcome_source
    trajectory.outcome_at = timezone.now()
    trajectory.save(update_fields=["outcome", "score", "outcome_source", "outcome_at"])
    refresh_usefulness_of_run(trajectory)
    wanted = trajectory.project.reflect_on_record if reflect is None else reflect
    trajectory_recorded.send(sender=Trajectory, trajectory=trajectory, reflect=wanted, actor=by)
    return trajectory
