"""What an erasure removes of a run: everything that was said, done and summarised in it."""

from django.db.models import Q

from agents.models.conversations import Compaction, Message
from agents.models.runs import KIND, Run
from memory.runs.models import Trajectory
from reflection.jobs.models import Job
from reflection.llm.models import ModelCall

REHEARSE = ("agent_change", "agent_sleep", "agent_evolution")  # jobs whose steps are named for recorded runs


def forget_agent_run(trajectory: Trajectory) -> None:
    """Delete the run that a trajectory is the record of, its messages, and the summaries and answers that quote it.

    The conversation stays with what was said in its other runs. Later prompts of it that held the summaries cannot be
    built again.
    """
    for run in Run.objects.filter(trajectory=trajectory):
        first = run.messages.order_by("seq").values_list("seq", flat=True).first() or 0
        quoting = Q(conversation_id=run.conversation_id, summarised_through__gte=first)
        Compaction.objects.filter(quoting).delete()
        Message.objects.filter(run=run).delete()
        calls = ModelCall.objects.filter(project_id=run.project_id)
        calls.filter(subject=f"run:{run.pk}").delete()
        calls.filter(job__kind__in=REHEARSE, step__contains=str(run.pk)).delete()
        Job.objects.filter(project_id=run.project_id, kind=KIND, subject=str(run.pk)).delete()
        run.delete()
