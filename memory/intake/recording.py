"""Record a finished run, and how it ended."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.dispatch import Signal
from django.utils import timezone

from memory.effects.uses import refresh_uses_of_run
from memory.errors import DuplicateExternalId, RunIsOpen, UnknownParent, UnknownRetrieval
from memory.ids import uuid7
from memory.insert_once import insert_once
from memory.mistakes.sightings import sight_mistakes
from memory.projects.actors import Actor
from memory.projects.models import ApiKey, Project
from memory.redaction import redact
from memory.retrieval.models import Retrieval
from memory.runs.models import SystemPrompt, Trajectory
from memory.runs.step_formats import read_steps
from memory.runs.steps import read_long_text
from memory.runs.tools import read_tools
from memory.transcripts.lesson_blocks import cut_lesson_blocks, read_task

# Sent with sender=Trajectory and trajectory=…, reflect=bool, actor=Actor; receivers run inside the transaction.
trajectory_recorded = Signal()

_TEXTS = (
    "task",
    "task_id",
    "user_id",
    "steps",
    "agent",
    "model",
    "tags",
    "summary",
    "mistakes",
    "successes",
    "mistake_cards",
    "metadata",
    "external_id",
    "tools",
    "system_prompt",
)
_READ_LATER = ("tools", "system_prompt")  # what earlier versions did not read in logs
_OUTCOME = ("outcome", "score", "outcome_source")
_FIGURES = ("tokens", "cost_usd", "stated_step_count", "started_at", "ended_at", "is_open")


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSender:
    """Which client sent a run, with which key, in which request; empty where it came from a file."""

    client: str = ""
    api_key: ApiKey | None = None
    request_id: str = ""


UNKNOWN_SENDER = RunSender()


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordedRun:
    """A trajectory and whether this call made it."""

    trajectory: Trajectory
    created: bool


def record_trajectory(
    project: Project,
    *,
    data: dict[str, Any],
    by: Actor,
    reflect: bool | None = None,
    sender: RunSender = UNKNOWN_SENDER,
    id: UUID | None = None,
) -> RecordedRun:
    """Store one run and announce it.

    Secrets and personal data are redacted before anything is written. Recording the same run again, known by its
    `external_id`, changes nothing and returns the first.

    Args:
        data: the fields of a trajectory; `steps` in any form that `normalise_steps` reads; `retrieval_id` names the
            answer the run was given.
        reflect: queue a reflection; None leaves it to the project.
        id: the id it gets; None makes one.

    Raises:
        InvalidSteps: the steps are not in a known form.
        DuplicateExternalId: another run has this external id.
        UnknownRetrieval: `retrieval_id` is not an answer of this project.
    """
    texts = {name: data[name] for name in _TEXTS if name in data}
    if "task" in texts:
        texts["task"] = read_task(texts["task"])
    redacted = redact(texts)
    steps, left_out, told = read_steps(redacted.value.get("steps", []))
    system_prompt = redacted.value.pop("system_prompt", "") or told
    fields: dict[str, Any] = {
        **redacted.value,
        **{name: data[name] for name in (*_OUTCOME, *_FIGURES) if name in data},
        "steps": steps,
        "tools": read_tools(redacted.value.get("tools")),
        "parent": find_parent(project, data.get("parent_id", ""), started_at=data.get("started_at")),
    }
    if left_out:
        metadata = fields.get("metadata", {})
        fields["metadata"] = {**metadata, "left_out": [*metadata.get("left_out", ()), *left_out]}
    retrieval = _get_retrieval(project, data.get("retrieval_id"))
    with transaction.atomic(savepoint=False):
        fields["system_prompt"] = keep_system_prompt(project, system_prompt)
        trajectory = Trajectory(
            id=id or uuid7(),
            project=project,
            **fields,
            redactions=redacted.counts,
            retrieval=retrieval,
            client=sender.client,
            api_key=sender.api_key,
            request_id=sender.request_id,
        )
        created = insert_once(trajectory, made={"created_at": "statement_timestamp()"})
        if not created and trajectory.system_prompt:
            SystemPrompt.objects.filter(pk=trajectory.system_prompt.pk, runs=None).delete()
        if created and not trajectory.is_open:
            announce(trajectory, reflect=reflect, by=by)
    return RecordedRun(trajectory=trajectory if created else _get_recorded(trajectory, fields), created=created)


def keep_system_prompt(project: Project, text: str) -> SystemPrompt | None:
    """Return the row of what an agent was told, without the lessons in it; None where it was told nothing.

    The caller's transaction holds the row, so that it cannot go with another run before this one refers to it.
    """
    text = read_long_text(cut_lesson_blocks(text), where="system_prompt")
    if not text.strip():
        return None
    prompt = SystemPrompt(project=project, sha256=sha256(text.encode()).hexdigest(), text=text)
    held = "SELECT * FROM memory_systemprompt WHERE project_id = %s AND sha256 = %s FOR KEY SHARE"
    # Another process may make it, or delete it, between the two statements.
    while not (kept := list(SystemPrompt.objects.raw(held, [project.pk, prompt.sha256]))):
        if insert_once(prompt):
            return prompt
    return kept[0]


def announce(trajectory: Trajectory, *, reflect: bool | None, by: Actor) -> None:
    """Count the mistakes of a finished run and let it be reflected on."""
    if trajectory.mistake_cards:
        sight_mistakes(trajectory, by=by)
    wanted = trajectory.project.reflect_on_record if reflect is None else reflect
    trajectory_recorded.send(sender=Trajectory, trajectory=trajectory, reflect=wanted, actor=by)


def find_parent(project: Project, named: str, *, started_at: datetime | None = None) -> Trajectory | None:
    """Return the run that another run names as its parent, by id or external id; None where it names none.

    A session of a coding agent may be recorded as its tasks: then it is the last one that began before the run.

    Raises UnknownParent.
    """
    if not named:
        return None
    known = Trajectory.objects.for_project(project)
    with suppress(ValueError):
        if parent := known.filter(pk=UUID(named)).first():
            return parent
    if parent := known.filter(external_id=named).first():
        return parent
    tasks = find_tasks(project, named)
    if started_at is not None:
        tasks = tasks.filter(started_at__lte=started_at)
    if parent := tasks.order_by("-started_at").first():
        return parent
    raise UnknownParent(f"No run {named!r} exists in this project. Record the parent first; name it by either id.")


def find_tasks(project: Project, session: str) -> QuerySet[Trajectory]:
    """Return the tasks of a coding agent's session that hooks or `erl backfill` recorded one by one."""
    tasks = Trajectory.objects.for_project(project).filter(external_id__startswith=f"{session}/")
    return tasks.filter(metadata__session_id=session)


def _get_recorded(sent: Trajectory, fields: dict[str, Any]) -> Trajectory:
    """Return the run that was recorded before under this external id, which says the same."""
    known = Trajectory.objects.for_project(sent.project).filter(external_id=sent.external_id).first()
    if known is None:
        raise DuplicateExternalId("The run that had this external_id was erased at this moment. Send yours again.")
    # Neither an outcome reported later nor what became of an open run makes the repeated recording another run.
    changed: tuple[str, ...] = _OUTCOME if known.outcome_at is not None else ()
    if fields.get("is_open"):
        changed = (*_OUTCOME, "is_open", "steps", "ended_at", "tokens", "cost_usd", "summary", "mistakes", "successes")
    changed += tuple(name for name in _READ_LATER if not getattr(known, name))
    compared = {name: value for name, value in fields.items() if name not in changed}
    if any(getattr(known, name) != value for name, value in compared.items()):
        raise DuplicateExternalId(
            f"A different trajectory with external_id {sent.external_id!r} exists: {known.id}. Use another "
            "external_id, or leave it out."
        )
    return known


def _get_retrieval(project: Project, retrieval_id: UUID | None) -> Retrieval | None:
    if retrieval_id is None:
        return None
    try:
        return Retrieval.objects.get(project=project, id=retrieval_id)
    except Retrieval.DoesNotExist:
        raise UnknownRetrieval(
            f"No answer {retrieval_id} exists in this project. Send the retrieval_id that POST /retrieve returned."
        ) from None


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
    if trajectory.is_open:
        raise RunIsOpen(f"Send how this run ended to POST /api/v1/trajectories/{trajectory.pk}/finish.")
    if (trajectory.outcome, trajectory.score, trajectory.outcome_source) == (outcome, score, outcome_source):
        return trajectory
    trajectory.outcome, trajectory.score, trajectory.outcome_source = outcome, score, outcome_source
    trajectory.outcome_at = timezone.now()
    trajectory.save(update_fields=["outcome", "score", "outcome_source", "outcome_at"])
    refresh_uses_of_run(trajectory)
    wanted = trajectory.project.reflect_on_record if reflect is None else reflect
    trajectory_recorded.send(sender=Trajectory, trajectory=trajectory, reflect=wanted, actor=by)
    return trajectory
