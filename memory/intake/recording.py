"""Record a finished run, and how it ended."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.dispatch import Signal
from django.utils import timezone

from memory.effects.usefulness import refresh_usefulness_of_run
from memory.errors import DuplicateExternalId, UnknownRetrieval
from memory.mistakes.sightings import sight_mistakes
from memory.projects.actors import Actor
from memory.projects.models import ApiKey, Project
from memory.redaction import redact
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory
from memory.runs.step_formats import normalise_steps
from memory.runs.tools import read_tools

# Sent with sender=Trajectory and trajectory=…, reflect=bool, actor=Actor; receivers run inside the transaction.
trajectory_recorded = Signal()

_TEXTS = (
    "task",
    "task_id",
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
)
_OUTCOME = ("outcome", "score", "outcome_source")
_FIGURES = ("tokens", "cost_usd", "stated_step_count", "started_at", "ended_at")


@dataclass(frozen=True, kw_only=True, slots=True)
class Sender:
    """Which client sent a run, with which key, in which request; empty where it came from a file."""

    client: str = ""
    api_key: ApiKey | None = None
    request_id: str = ""


UNKNOWN_SENDER = Sender()


@dataclass(frozen=True, kw_only=True, slots=True)
class Recorded:
    """A trajectory and whether this call made it."""

    trajectory: Trajectory
    created: bool


@transaction.atomic
def record_trajectory(
    project: Project,
    *,
    data: dict[str, Any],
    by: Actor,
    reflect: bool | None = None,
    sender: Sender = UNKNOWN_SENDER,
) -> Recorded:
    """Store one run and announce it.

    Secrets and personal data are redacted before anything is written. Recording the same run again, known by its
    `external_id`, changes nothing and returns the first.

    Args:
        data: the fields of a trajectory; `steps` in any form that `normalise_steps` reads; `retrieval_id` names the
            answer the run was given.
        reflect: queue a reflection; None leaves it to the project.

    Raises:
        InvalidSteps: the steps are not in a known form.
        DuplicateExternalId: another run has this external id.
        UnknownRetrieval: `retrieval_id` is not an answer of this project.
    """
    redacted = redact({name: data[name] for name in _TEXTS if name in data})
    fields: dict[str, Any] = {
        **redacted.value,
        **{name: data[name] for name in (*_OUTCOME, *_FIGURES) if name in data},
        "steps": normalise_steps(redacted.value.get("steps", [])),
        "tools": read_tools(redacted.value.get("tools")),
    }
    external_id = fields.get("external_id", "")
    if external_id and (known := _find_recorded(project, external_id, fields)):
        return Recorded(trajectory=known, created=False)
    trajectory = Trajectory(
        project=project,
        **fields,
        redactions=redacted.counts,
        retrieval=_get_retrieval(project, data.get("retrieval_id")),
        client=sender.client,
        api_key=sender.api_key,
        request_id=sender.request_id,
    )
    try:
        with transaction.atomic():
            trajectory.save(force_insert=True)
    except IntegrityError:
        # Another request recorded the same run between our look and our insert.
        if external_id and (known := _find_recorded(project, external_id, fields)):
            return Recorded(trajectory=known, created=False)
        raise
    sight_mistakes(trajectory, by=by)
    wanted = project.reflect_on_record if reflect is None else reflect
    trajectory_recorded.send(sender=Trajectory, trajectory=trajectory, reflect=wanted, actor=by)
    return Recorded(trajectory=trajectory, created=True)


def _find_recorded(project: Project, external_id: str, fields: dict[str, Any]) -> Trajectory | None:
    known = Trajectory.objects.for_project(project).filter(external_id=external_id).first()
    if known is None:
        return None
    # An outcome reported later does not make the repeated recording another run.
    compared = fields if known.outcome_at is None else {k: v for k, v in fields.items() if k not in _OUTCOME}
    if any(getattr(known, name) != value for name, value in compared.items()):
        raise DuplicateExternalId(
            f"A different trajectory with external_id {external_id!r} exists: {known.id}. Use another external_id, "
            "or leave it out."
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
    if (trajectory.outcome, trajectory.score, trajectory.outcome_source) == (outcome, score, outcome_source):
        return trajectory
    trajectory.outcome, trajectory.score, trajectory.outcome_source = outcome, score, outcome_source
    trajectory.outcome_at = timezone.now()
    trajectory.save(update_fields=["outcome", "score", "outcome_source", "outcome_at"])
    refresh_usefulness_of_run(trajectory)
    wanted = trajectory.project.reflect_on_record if reflect is None else reflect
    trajectory_recorded.send(sender=Trajectory, trajectory=trajectory, reflect=wanted, actor=by)
    return trajectory
