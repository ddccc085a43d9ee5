"""Who decides in a project: its settings, its reviewers and the keys that may review, and how these are changed.

Changing them needs the permission to review. Where two reviewers are required, a change is a request until another
reviewer confirms it; a trigger holds that rule too (memory/sql/projects.sql). Every change is in the audit chain.
"""

from collections.abc import Mapping
from typing import Any

import structlog
from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone

from memory.errors import AlreadyDecided, NotAllowed, SecondReviewerNeeded
from memory.projects.access import may_review
from memory.projects.actors import Actor, name_actor
from memory.projects.models import ApiKey, Project, ProjectMembership, RuleChange

log = structlog.get_logger(__name__)

RULE_SETTINGS = ("four_eyes", "mistake_card_policy")
_Kind, _Status = RuleChange.Kind, RuleChange.Status


def change_settings(project: Project, *, values: Mapping[str, Any], by: Actor) -> RuleChange | None:
    """Change who decides in a project; return the request, if another person has to confirm it first.

    Args:
        values: new values of some of RULE_SETTINGS.

    Raises:
        NotAllowed: the actor is no known person, or one who may not review in the project.
    """
    return _change(_Kind.SETTINGS, project=project, values=values, by=by)


def add_reviewer(user: Any, *, project: Project | None, by: Actor) -> RuleChange | None:
    """Let a person decide in a project, or in all; return the request, if another person has to confirm it first.

    Raises:
        NotAllowed: as for `change_settings`.
    """
    return _change(_Kind.REVIEWER, project=project, values={"user": user.pk, "name": user.get_username()}, by=by)


def let_key_review(api_key: ApiKey, *, by: Actor) -> RuleChange | None:
    """Let a key decide, as its owner; return the request, if another person has to confirm it first.

    Raises:
        NotAllowed: as for `change_settings`.
    """
    values = {"api_key": str(api_key.pk), "name": str(api_key)}
    return _change(_Kind.API_KEY, project=api_key.project, values=values, by=by)


@transaction.atomic
def confirm_change(change: RuleChange, *, by: Actor) -> RuleChange:
    """Confirm a change that another person requested, and carry it out.

    Raises:
        AlreadyDecided: it was confirmed or refused before.
        SecondReviewerNeeded: the same person requested it.
        NotAllowed: this person may not review in the project.
    """
    change = _lock(change)
    _check_person(by, change.project)
    # None is a closed account, which may have been this person's.
    if change.requested_user_id in (None, by.user_id):
        raise SecondReviewerNeeded("You requested this change, so another reviewer has to confirm it.")
    # First: a trigger lets the change through only with a confirmed request.
    _decide(change, status=_Status.CONFIRMED, by=by)
    _apply(change.kind, project=change.project, values=change.values, by=by)
    return change


@transaction.atomic
def refuse_change(change: RuleChange, *, by: Actor) -> RuleChange:
    """Leave things as they are. The person who requested a change may withdraw it in the same way.

    Raises:
        AlreadyDecided, NotAllowed: as for `confirm_change`.
    """
    change = _lock(change)
    _check_person(by, change.project)
    return _decide(change, status=_Status.REFUSED, by=by)


def requires_two(project: Project | None) -> bool:
    """Tell whether two people are required to change who decides in a project, or in every one."""
    projects = Project.objects.filter(four_eyes=True)
    return (projects.filter(pk=project.pk) if project is not None else projects).exists()


def may_change(user: Any, project: Project | None) -> bool:
    """Tell whether a person may change who decides in a project; None stands for every project."""
    if project is not None:
        return may_review(user, project.pk)
    everywhere = ProjectMembership.objects.filter(
        user=user.pk, project__isnull=True, role=ProjectMembership.Role.REVIEWER
    )
    return user.is_superuser or (user.has_perm("memory.review_heuristic") and everywhere.exists())


@transaction.atomic
def _change(kind: str, *, project: Project | None, values: Mapping[str, Any], by: Actor) -> RuleChange | None:
    if project is not None:
        project = Project.objects.select_for_update().get(pk=project.pk)  # the rule itself may be changing
    _check_person(by, project)
    if not requires_two(project):
        _apply(kind, project=project, values=values, by=by)
        return None
    name_actor(by)
    change = RuleChange.objects.create(
        project=project, kind=kind, values=dict(values), requested_by=by.label, requested_user_id=by.user_id
    )
    log.info("rule_change_requested", change_id=str(change.pk), kind=kind, by=by.label)
    return change


def _check_person(by: Actor, project: Project | None) -> None:
    user = get_user_model()._default_manager.filter(pk=by.user_id, is_active=True).first() if by.user_id else None
    if user is None or not may_change(user, project):
        raise NotAllowed(
            f"Only people who may review in {'every project' if project is None else f'the project {project}'} can "
            "change who decides there, so nothing was changed. Ask one of its reviewers."
        )


def _lock(change: RuleChange) -> RuleChange:
    change = RuleChange.objects.select_for_update(of=("self",)).select_related("project").get(pk=change.pk)
    if change.status != _Status.REQUESTED:
        raise AlreadyDecided(f"This change was already {change.get_status_display().lower()} by {change.decided_by}.")
    return change


def _decide(change: RuleChange, *, status: str, by: Actor) -> RuleChange:
    name_actor(by)
    change.status, change.decided_by, change.decided_user_id = status, by.label, by.user_id
    change.decided_at = timezone.now()
    change.save(update_fields=["status", "decided_by", "decided_user", "decided_at"])
    log.info("rule_change_decided", change_id=str(change.pk), status=status, by=by.label)
    return change


def _apply(kind: str, *, project: Project | None, values: Mapping[str, Any], by: Actor) -> None:
    name_actor(by)
    match kind:
        case _Kind.SETTINGS:
            assert project is not None
            Project.objects.filter(pk=project.pk).update(**{name: values[name] for name in values})
        case _Kind.REVIEWER:
            role = ProjectMembership.Role.REVIEWER
            # The person may have become a reviewer some other way while this waited.
            ProjectMembership.objects.get_or_create(user_id=values["user"], project=project, role=role)
        case _Kind.API_KEY:
            # Scopes are read and written back, and another change must not come between.
            key = ApiKey.objects.select_for_update().get(pk=values["api_key"], project=project)
            key.scopes = sorted({*key.scopes, ApiKey.Scope.REVIEW})
            key.save(update_fields=["scopes"])
