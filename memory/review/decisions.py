"""What every decision has in common, whatever is decided on: who may, on which text, and the record that it leaves.

A decision is one transaction: lock the subject, check who decides and what was read, change what the kind changes, and
record the review. Each kind says what an approval changes: `memory/curation` for lessons, `memory/mistakes` for
mistake cards, `memory/blocks` for blocks, `runtime` for tools and agents.
"""

from collections.abc import Collection
from datetime import timedelta
from typing import Any, TypeVar

from django.utils import timezone

from memory.errors import ChangedMeanwhile, NotAllowed, ProjectArchived, TooLateToUndo
from memory.events import EventKind, ProjectEvent, announce
from memory.projects.access import Right, check_right
from memory.projects.actors import Actor
from memory.projects.models import ApiKey, Project, ProjectMembership
from memory.review.models import AbstractRevision, Review, ReviewDecision, ReviewKind, ReviewSubject

UNDO_SECONDS = 10  # as shown to the reviewer
UNDO_WITHIN = timedelta(seconds=UNDO_SECONDS + 5)  # for the request to arrive
_Role = ProjectMembership.Role
_Subject = TypeVar("_Subject", bound=ReviewSubject)
_RIGHTS = {
    ReviewKind.LESSON: ("review lessons", "memory.review_heuristic"),
    ReviewKind.MISTAKE: ("review mistake cards", "memory.review_mistakecard"),
    ReviewKind.BLOCK: ("review blocks", "memory.review_block"),
    ReviewKind.TOOL: ("decide on tools of agents", "agents.review_tool"),
    ReviewKind.AGENT: ("decide about changes of agents", "agents.decide_change"),
}
# An edit comes with its approval; the others leave a lesson as it was.
_DECIDES_NOTHING = (
    ReviewDecision.EDIT,
    ReviewDecision.REFLECT_AGAIN,
    ReviewDecision.CONFIRM_EVIDENCE,
    ReviewDecision.SPLIT,
)


def check_reviewer(kind: str, project: Project, *, by: Actor, withdraws: bool = False) -> Project:
    """Return the project if this actor may decide on texts of a kind there now.

    A person needs the permission and the role of a reviewer in the project; a key needs the scope in its own project,
    and an owner who may. An actor without an id is part of this installation, such as a policy.

    Args:
        withdraws: the decision takes something out of service. Operators may do that too, even where the project is
            archived.

    Raises:
        NotAllowed: the permission, the role, the scope or the account is missing.
        ProjectArchived: no more decisions are taken there.
    """
    to, permission = _RIGHTS[ReviewKind(kind)]
    permissions: dict[str, str] = {_Role.REVIEWER: permission}
    if withdraws:
        # Operators answer for the running system and must be able to stop it without a reviewer.
        permissions[_Role.OPERATOR] = "memory.change_apikey"
    check_right(Right(to=to, scope=ApiKey.Scope.REVIEW, permissions=permissions), project, by=by)
    if not withdraws:
        refuse_archived(project)
    return project


def check_rights(subject: ReviewSubject, *, by: Actor, withdraws: bool = False) -> Project:
    """Return the project of a subject if this actor may decide on it now.

    Raises:
        NotAllowed, ProjectArchived: see `check_reviewer`.
    """
    project = Project.objects.get(pk=subject.project_id)
    return check_reviewer(subject.review_kind, project, by=by, withdraws=withdraws)


def refuse_archived(project: Project) -> None:
    """Raise ProjectArchived where no more decisions are taken in a project."""
    if project.archived_at is not None and project.archived_at <= timezone.now():
        raise ProjectArchived(
            f"The project {project} was archived on {project.archived_at:%Y-%m-%d}, so no decisions are taken in it. "
            "Ask an operator to open it again if that is a mistake."
        )


def find_owners(by: Actor) -> set[int]:
    """Return the accounts an approval counts for: the person's, or those that own the client's keys.

    Keys of one client count together, as in the records, where they have one name.

    Raises:
        NotAllowed: it belongs to no account: a policy, other code of the installation, or a key without an owner.
    """
    if by.user_id is not None:
        return {by.user_id}
    if by.api_key_id is None:
        raise NotAllowed(
            "This project requires two reviewers, and a policy does not count as one. Two people have to approve a "
            "lesson, and one a mistake card."
        )
    key = ApiKey.objects.filter(pk=by.api_key_id, created_by__isnull=False).first()
    if key is None:
        raise NotAllowed(
            "This project requires two reviewers, and this API key has no owner. Approve in the admin, or ask the "
            "operator for a key with an owner: manage.py create_api_key --by USERNAME."
        )
    keys = ApiKey.objects.filter(project=key.project_id, client=key.client, created_by__isnull=False)
    return {owner for owner in keys.values_list("created_by_id", flat=True) if owner is not None}


def lock_subject(subject: _Subject, *related: str) -> _Subject:
    """Read a subject again, with related rows, and hold it until the transaction ends."""
    # `of`: rows that are read along, such as the current revision, are not held.
    rows: Any = type(subject)._default_manager.select_for_update(of=("self",))
    locked: _Subject = (rows.select_related(*related) if related else rows).get(pk=subject.pk)
    return locked


def check_read(revision: AbstractRevision, content_sha256: str | None) -> None:
    """Refuse a decision on another text than the one that was read. None takes the one that is there.

    Raises:
        ChangedMeanwhile: it is another.
    """
    if content_sha256 is not None and content_sha256 != revision.content_sha256:
        raise ChangedMeanwhile(
            "The text changed after you read it. Read the current text and decide again; its content_sha256 is "
            f"{revision.content_sha256}."
        )


def add_revision(subject: ReviewSubject, *, by: Actor, **columns: Any) -> Any:
    """Write the next revision of a locked subject."""
    # Its lock makes this safe: no other writer can take the same number.
    newest = subject.revisions.order_by("-number").values_list("number", flat=True).first() or 0
    return subject.revisions.create(project_id=subject.project_id, number=newest + 1, created_by=by.label, **columns)


def record_review(
    subject: ReviewSubject, revision: AbstractRevision, decision: str, *, by: Actor, **columns: Any
) -> Review:
    """Append one decision on one exact text. `columns` are the rest, such as the reason."""
    review = Review.objects.create(
        project_id=subject.project_id,
        kind=subject.review_kind,
        subject_id=subject.pk,
        revision_id=revision.pk,
        decision=decision,
        content_sha256=revision.content_sha256,
        reviewer=by.label,
        reviewer_user_id=by.user_id,
        reviewer_key_id=by.api_key_id,
        **columns,
    )
    if subject.review_kind == ReviewKind.LESSON and decision not in _DECIDES_NOTHING:
        details = {"decision": str(decision)}
        kind = EventKind.DECISION_MADE
        announce(ProjectEvent(kind=kind, project_id=subject.project_id, lesson_ids=(subject.pk,), details=details))
    return review


def check_undoable(
    subject: ReviewSubject, review: Review, *, by: Actor, of: Collection[str], besides: Collection[str] = ()
) -> None:
    """Refuse to undo a decision on a locked subject that is not the last one, another person's, or too old.

    Args:
        of: the decisions that can be undone.
        besides: decisions that may have been made since.

    Raises:
        TooLateToUndo: it cannot be undone.
    """
    noun = subject._meta.verbose_name
    latest = subject.reviews.exclude(decision__in=besides).first()
    if timezone.now() - review.created_at > UNDO_WITHIN:
        raise TooLateToUndo(
            f"A decision can be undone for {UNDO_SECONDS} seconds. Revise or retire the {noun} instead."
        )
    if review.reviewer != by.label:
        raise TooLateToUndo("Only the person who decided can undo the decision.")
    if latest is None or latest.pk != review.pk or review.decision not in of:
        raise TooLateToUndo(
            f"Another decision was made since then. Look at the history of this {noun} and decide again."
        )
