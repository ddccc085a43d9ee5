"""Rows for tests: `make_<model>(**overrides)`, straight into the database, valid unless told otherwise."""

import hashlib
import itertools
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from memory.api.models import IdempotencyRecord
from memory.curation.decisions import approve_heuristic
from memory.heuristics.models import Evidence, Heuristic, HeuristicRevision
from memory.heuristics.provenance import Sources, record_origins
from memory.heuristics.text import get_rule_trigger
from memory.mistakes.decisions import approve_card
from memory.mistakes.models import MistakeCard
from memory.projects.actors import Actor
from memory.projects.api_keys import NewApiKey, create_api_key
from memory.projects.models import ApiKey, Project, ProjectMembership
from memory.retrieval.models import Retrieval
from memory.runs.models import Trajectory
from reflection.reflectors.models import Reflection

_numbers = itertools.count(1)

STEPS: list[dict[str, Any]] = [
    {
        "index": 1,
        "thought": "I need the reservation first.",
        "action": {"name": "get_reservation_details", "arguments": {"reservation_id": "EHGLP3"}},
        "observation": "basic_economy, booked two days ago",
        "error": "",
    },
    {
        "index": 2,
        "thought": "",
        "action": {"name": "cancel_reservation", "arguments": {"reservation_id": "EHGLP3"}},
        "observation": "",
        "error": "Error: policy refuses to cancel basic economy after 24 hours",
    },
]


def make_project(**overrides: Any) -> Project:
    number = next(_numbers)
    return Project.objects.create(**{"slug": f"project-{number}", "name": f"Project {number}"} | overrides)


def require_two(project: Project) -> None:
    """Require two reviewers from now on: who may review without a second person's word is there by then."""
    Project.objects.filter(pk=project.pk).update(four_eyes=True)


def make_api_key(
    *, project: Project | None = None, scopes: list[str] | None = None, client: str = "agent", **overrides: Any
) -> NewApiKey:
    """Return `.api_key` (the row) and `.token` (what goes into the header). Every scope unless told otherwise."""
    return create_api_key(
        project or make_project(),
        client=client,
        scopes=ApiKey.Scope.values if scopes is None else scopes,
        **overrides,
    )


def bearer(token: str) -> dict[str, str]:
    """The header that authenticates, for `client.get(…, headers=bearer(token))`."""
    return {"Authorization": f"Bearer {token}"}


def make_member(
    username: str = "ana",
    *,
    project: Project | None = None,
    role: str = "reviewer",
    permissions: Iterable[str] = ("review_heuristic", "view_heuristic"),
    **overrides: Any,
) -> Any:
    """Make a person with a role in a project, or in every project, who may do what the permissions' code names say."""
    user = get_user_model().objects.create_user(username, is_staff=True, **overrides)
    user.user_permissions.set(Permission.objects.filter(codename__in=list(permissions)))
    ProjectMembership.objects.create(user=user, project=project, role=role)
    return user


def make_trajectory(*, project: Project | None = None, **overrides: Any) -> Trajectory:
    number = next(_numbers)
    fields = {
        "task": f"Cancel reservation {number}",
        "task_id": "airline.cancel",
        "steps": STEPS,
        "outcome": Trajectory.Outcome.FAILURE,
        "score": 0.0,
        "outcome_source": Trajectory.OutcomeSource.ENVIRONMENT,
        "agent": "agent",
    }
    return Trajectory.objects.create(project=project or make_project(), **fields | overrides)


@transaction.atomic
def make_heuristic(
    *,
    project: Project | None = None,
    status: str = Heuristic.Status.PROPOSED,
    served: bool | None = None,
    trajectory: Trajectory | None = None,
    reflector: str = "rules",
    client: str = "",
    created_by: str = "test",
    **text: Any,
) -> Heuristic:
    """Make a heuristic with one revision; `text` goes to the revision (trigger, guideline, task_id, …).

    It is served if it is approved, unless `served` says otherwise. `trajectory` becomes its evidence, and what its
    words were written from.
    """
    number = next(_numbers)
    project = project or (trajectory.project if trajectory else make_project())
    heuristic = Heuristic.objects.create(project=project, status=status, reflector=reflector, client=client)
    words = {"trigger": f"A cancellation is asked for ({number})", "guideline": "Check the fare class first."}
    revision = HeuristicRevision.objects.create(
        project=project, heuristic=heuristic, number=1, created_by=created_by, **words | text
    )
    Heuristic.objects.filter(pk=heuristic.pk).update(current_revision=revision)
    if status == Heuristic.Status.APPROVED if served is None else served:
        revision.refresh_from_db(fields=["content_sha256"])
        HeuristicRevision.objects.filter(pk=revision.pk).update(
            approved_sha256=revision.content_sha256,
            approved_by="user:reviewer",
            approved_at=timezone.now(),
            served=True,
        )
    if trajectory:
        record_origins(revision, Sources(runs=(trajectory.pk,)))
        make_evidence(heuristic=heuristic, trajectory=trajectory)
        Heuristic.objects.filter(pk=heuristic.pk).update(support=1)
    return Heuristic.objects.select_related("current_revision", "project").get(pk=heuristic.pk)


def make_rule(*, project: Project, task_id: str, guideline: str) -> Heuristic:
    """Make an approved rule for every task of a family, which the record gives and the search may find."""
    trigger = get_rule_trigger(task_id)
    return make_heuristic(
        project=project, status="approved", trigger=trigger, guideline=guideline, task_id=task_id, tags=["rule"]
    )


def make_evidence(*, heuristic: Heuristic, trajectory: Trajectory, **overrides: Any) -> Evidence:
    """Make evidence; of a heuristic in use it is as if it had been there when that was approved."""
    fields: dict[str, Any] = {"first_step": 1, "last_step": 2, "quote": "policy refuses"}
    if heuristic.revisions.filter(served=True).exists():
        fields |= {"approved_by": "user:reviewer", "approved_at": timezone.now()}
        Heuristic.objects.filter(pk=heuristic.pk).update(approved_support=1)
    return Evidence.objects.create(
        project=heuristic.project, heuristic=heuristic, trajectory=trajectory, **fields | overrides
    )


def read(heuristic: Heuristic) -> str:
    """Return the hash of the present wording."""
    return HeuristicRevision.objects.get(heuristic=heuristic, pk=F("heuristic__current_revision")).content_sha256


def approve_as_read(heuristic: Heuristic, *, by: Actor, **options: Any) -> Heuristic:
    """Approve the present wording, as someone who has just read it."""
    return approve_heuristic(heuristic, by=by, content_sha256=read(heuristic), **options)


def approve_card_as_read(card: MistakeCard, *, by: Actor, **options: Any) -> MistakeCard:
    """Approve the present words of a card, as someone who has just read them."""
    sha256 = MistakeCard.objects.with_text().get(pk=card.pk).current_revision.content_sha256  # type: ignore[union-attr]
    return approve_card(card, by=by, content_sha256=sha256, **options)


def make_reflection(*, trajectory: Trajectory | None = None, **overrides: Any) -> Reflection:
    trajectory = trajectory or make_trajectory()
    if overrides.get("status") in (Reflection.Status.DONE, Reflection.Status.DEAD):
        overrides.setdefault("finished_at", timezone.now())
    fields: dict[str, Any] = {"project": trajectory.project, "subject": str(trajectory.pk), "trajectory": trajectory}
    members = ("reflector", "reflector_version", "prompt_version", "heuristics_proposed", "skip_reason")
    fields["result"] = {name: overrides.pop(name) for name in members if name in overrides}
    if overrides.get("status") == Reflection.Status.RUNNING:
        overrides.setdefault("lease_until", timezone.now() + timedelta(seconds=30))
    return Reflection.objects.create(**fields | overrides)  # type: ignore[misc]  # of fields in any order


def make_retrieval(*, project: Project | None = None, **overrides: Any) -> Retrieval:
    """An answer that injected what it listed, unless `injected_ids` says otherwise."""
    fields = {"task": "Cancel a reservation", "mode": Retrieval.Mode.HYBRID, "top_k": 5, "budget_tokens": 1000}
    fields["injected_ids"] = overrides.get("heuristic_ids", [])
    return Retrieval.objects.create(project=project or make_project(), **fields | overrides)


def make_idempotency_record(*, project: Project | None = None, **overrides: Any) -> IdempotencyRecord:
    number = next(_numbers)
    fields = {
        "client": "agent",
        "key": f"key-{number}",
        "fingerprint": hashlib.sha256(str(number).encode()).digest(),
        "method": "POST",
        "route": "api/v1/trajectories",
        "status_code": 201,
        "headers": {"Content-Type": "application/json"},
        "body": b'{"id":1}',
        "expires_at": timezone.now() + timedelta(hours=72),
    }
    return IdempotencyRecord.objects.create(project=project or make_project(), **fields | overrides)
