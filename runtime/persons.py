"""What was said between a person and agents, the prompts with words about a person, and how long that is kept."""

from datetime import datetime
from typing import Any

from django.db.models import Exists, Model, OuterRef, Q, QuerySet

from memory.persons.query import Person
from memory.persons.sources import PersonSource
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.trust.periods import RetentionPeriod
from reflection.jobs.models import Job
from reflection.llm.models import ModelCall
from runtime.conversations import delete_conversation
from runtime.models.conversations import Compaction, Conversation, Message
from runtime.models.effects import Approval, Effect
from runtime.models.runs import KIND, Event, Run, Step

_OF_RUNS: tuple[type[Model], ...] = (Effect, Approval, Event)


def _find_conversations(project: Project, person: Person) -> QuerySet[Conversation]:
    said = person.of_user()
    here: dict[str, Any] = {"conversation": OuterRef("pk")}
    said |= Q(Exists(Message.objects.filter(person.in_columns(Message), **here)))
    said |= Q(Exists(Compaction.objects.filter(person.in_columns(Compaction), **here)))
    said |= Q(Exists(Run.objects.filter(person.in_columns(Run, "task", "error"), **here)))
    here = {"run__conversation": OuterRef("pk")}
    for model in _OF_RUNS:
        said |= Q(Exists(model._default_manager.filter(person.in_columns(model), **here)))
    return Conversation.objects.for_project(project).filter(said).select_related("agent").order_by("pk")


def _erase_conversation(conversation: Conversation, person: Person, by: Actor) -> None:
    runs = [str(id) for id in conversation.runs.values_list("pk", flat=True)]
    delete_conversation(conversation, by=by)
    # Those of runs that were never recorded, such as one that failed before its first step.
    ModelCall.objects.filter(project=conversation.project_id, subject__in=[f"run:{id}" for id in runs]).delete()
    Job.objects.filter(project=conversation.project_id, kind=KIND, subject__in=runs).delete()


def _show_conversation(conversation: Conversation) -> str:
    first = conversation.messages.filter(role=Message.Role.USER).order_by("seq").first()
    said = f": {first.content}" if first is not None else ""
    return f"{conversation.created_at:%Y-%m-%d} {conversation.agent.name}{said}"


def _find_prompts(project: Project, person: Person) -> QuerySet[Run]:
    """Return the ended runs whose prompts held words about a person, as from a memory block."""
    of_steps = Step.objects.filter(person.in_columns(Step), run=OuterRef("pk"))
    said = person.in_columns(Run, "head", "tools") | Q(Exists(of_steps))
    ended = Run.objects.for_project(project).exclude(status__in=Run.LIVE)
    return ended.filter(said).select_related("agent").order_by("pk")


def _erase_prompts(run: Run, person: Person, by: Actor) -> None:
    # Such a prompt can no longer be built again; its hash stays.
    Run.objects.filter(pk=run.pk).update(head="")
    Run.objects.filter(person.in_columns(Run, "tools"), pk=run.pk).update(tools=[])
    Step.objects.filter(person.in_columns(Step), run=run).update(head="")


def _find_old(project: Project, until: datetime) -> QuerySet[Conversation]:
    """Return the conversations in which nothing was said since, without those in which a run goes on."""
    rows = Conversation.objects.for_project(project).filter(created_at__lt=until)
    later = Message.objects.filter(conversation=OuterRef("pk"), created_at__gte=until)
    live = Run.objects.live().filter(conversation=OuterRef("pk"))
    return rows.filter(~Exists(later), ~Exists(live)).order_by("created_at", "pk")


CONVERSATIONS_PERIOD = RetentionPeriod(
    column="conversation_retention_days",
    label="conversations",
    since="the last message",
    does="erased, with their runs",
    find=_find_old,
    erase=lambda conversation, by: delete_conversation(conversation, by=by),
)
SOURCES = (
    PersonSource(
        kind="conversations",
        label="conversations, with their runs",
        find=_find_conversations,
        erase=_erase_conversation,
        show=_show_conversation,
        first=True,
    ),
    PersonSource(
        kind="prompts",
        label="beginnings of prompts of other runs",
        find=_find_prompts,
        erase=_erase_prompts,
        show=lambda run: f"{run.created_at:%Y-%m-%d} {run.agent.name}: {run.task}",
    ),
)
