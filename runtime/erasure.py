"""What an erasure removes of a run: everything that was said, done and summarised in it."""

from django.db.models import Min, QuerySet

from memory.runs.models import Trajectory
from reflection.jobs.models import Job
from reflection.llm.models import ModelCall
from runtime.models.conversations import Compaction, Message
from runtime.models.runs import KIND, Run

REHEARSE = ("agent_change", "agent_sleep", "agent_evolution")  # jobs whose steps are named for recorded runs


def forget_agent_run(trajectory: Trajectory) -> None:
    """Delete the run that a trajectory is the record of, its messages, and the summaries and answers that quote it.

    The conversation stays with what was said in its other runs, and so do forks of it. Later prompts that held the
    summaries cannot be built again.
    """
    for run in Run.objects.filter(trajectory=trajectory):
        messages = Message.objects.filter(run=run)
        forget_summaries(messages)
        messages.delete()
        calls = ModelCall.objects.filter(project_id=run.project_id)
        calls.filter(subject=f"run:{run.pk}").delete()
        # Rehearsals quote the runs that they replay; their steps are named for them.
        calls.filter(job__kind__in=REHEARSE, step__contains=str(run.pk)).erase_words()
        Job.objects.filter(project_id=run.project_id, kind=KIND, subject=str(run.pk)).delete()
        run.delete()


def forget_summaries(messages: QuerySet[Message]) -> None:
    """Delete the summaries that quote these messages, in their conversation and in its forks."""
    # Forks hold copies of messages, and forks of forks copies of those.
    while first := list(messages.order_by().values_list("conversation").annotate(Min("seq"))):
        for conversation_id, seq in first:
            Compaction.objects.filter(conversation=conversation_id, summarised_through__gte=seq).delete()
        messages = Message.objects.filter(copied_from__in=messages.values("pk"))
