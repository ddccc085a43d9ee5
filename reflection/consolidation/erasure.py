"""What reflections and consolidations made of a run goes with it (reliability C10)."""

from django.db.models import Q

from memory.runs.models import Trajectory
from reflection.consolidation.models import ConsolidationRun, Suggestion
from reflection.llm.models import ModelCall


def forget_run(trajectory: Trajectory) -> None:
    """Delete the suggestions that rest on the run, and the model's answers in consolidations that read it.

    The answers of its reflections go with the reflections. A consolidation that is under way asks again.
    """
    Suggestion.objects.filter(evidence__trajectory=trajectory).delete()
    read_it = ConsolidationRun.objects.filter(
        Q(since__isnull=True) | Q(since__lte=trajectory.created_at),
        project_id=trajectory.project_id,
        until__gte=trajectory.created_at,
    )
    ModelCall.objects.filter(job__in=read_it.values("pk")).delete()
