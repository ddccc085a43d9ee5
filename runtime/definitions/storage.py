"""Store tools and decide on them. The same content is the same revision, however often it is stored."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F

from memory.errors import AlreadyDecided, TooLateToUndo
from memory.projects.actors import Actor, name_actor
from memory.projects.models import Project
from memory.review.decisions import (
    add_revision,
    check_read,
    check_rights,
    check_undoable,
    lock_subject,
    record_review,
)
from memory.review.models import Review, ReviewDecision
from runtime.definitions.checks import check_tool, find_form_faults
from runtime.definitions.values import Example, ToolDefinition
from runtime.errors import InvalidDefinition
from runtime.models.agents import AgentRevision
from runtime.models.tools import Tool, ToolRevision, ToolStatus
from runtime.tools.catalogue import core_tools


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """A revision, and whether this call made it."""

    revision: ToolRevision
    created: bool


def save_tool(
    project: Project,
    definition: ToolDefinition,
    *,
    by: Actor,
    approve: bool = False,
    others: Mapping[str, Any] | None = None,
) -> Stored:
    """Check a tool and store it as a revision, proposed or approved.

    Args:
        others: the schemas of tools that come with it and are not stored yet, by name.

    Raises:
        InvalidDefinition: it is not as it should be.
    """
    check_tool(definition, known={**find_schemas(project, definition.uses), **(others or {})})
    return _store(project, definition, by=by, approve=approve)


def propose_tool(project: Project, definition: ToolDefinition, *, by: Actor) -> ToolRevision:
    """Store a tool that is checked later, as a proposed revision.

    Raises:
        InvalidDefinition: it cannot be stored.
    """
    if faults := find_form_faults(definition):
        raise InvalidDefinition(faults)
    return _store(project, definition, by=by, approve=False).revision


@transaction.atomic
def let_run(revision: ToolRevision, *, by: Actor) -> None:
    """Approve a revision for the agents that pin it, without putting it in force for others.

    Raises:
        AlreadyDecided: it was rejected.
    """
    revision = lock_subject(revision.tool).revisions.get(pk=revision.pk)
    if revision.status in (ToolStatus.REJECTED, ToolStatus.RETIRED):
        raise AlreadyDecided(f"{revision.tool.name} {revision} was {revision.status}. Propose it with a change.")
    if revision.status == ToolStatus.PROPOSED:
        _decide(revision, ReviewDecision.APPROVE, by=by)


@transaction.atomic
def _store(project: Project, definition: ToolDefinition, *, by: Actor, approve: bool) -> Stored:
    # Two requests may bring the same new name: one inserts the row, and both lock it.
    Tool.objects.bulk_create([Tool(project=project, name=definition.name, created_by=by.label)], ignore_conflicts=True)
    tool = Tool.objects.select_for_update().get(project=project, name=definition.name)
    sha256 = definition.sha256
    revision = tool.revisions.filter(content_sha256=sha256).first()
    created = revision is None
    if revision is None:
        content = definition.content()
        # The name belongs to the tool and not to a revision.
        del content["name"]
        revision = add_revision(tool, by=by, content_sha256=sha256, **content)
    if approve and tool.current_id != revision.pk:
        _put_in_force(tool, revision, by=by)
    return Stored(revision=revision, created=created)


@transaction.atomic
def approve_tool(revision: ToolRevision, *, by: Actor, sha256: str) -> ToolRevision:
    """Put a revision in force. New agents get it; the one before it stays as it is, for those that pin it.

    Args:
        sha256: the hash of the content that the person read.

    Raises:
        ChangedMeanwhile: that is another content.
        AlreadyDecided: it was rejected.
        NotAllowed, ProjectArchived: see `check_rights`.
    """
    tool, revision = _lock_to_decide(revision, by=by, sha256=sha256)
    if revision.status == ToolStatus.REJECTED:
        raise AlreadyDecided("This revision was rejected. Store it with a change to propose it again.")
    if tool.current_id != revision.pk:
        _put_in_force(tool, revision, by=by)
    return revision


@transaction.atomic
def reject_tool(revision: ToolRevision, *, by: Actor, sha256: str) -> ToolRevision:
    """Decide that a proposed revision is not put in force. The same content is not proposed again.

    Args:
        sha256: the hash of the content that the person read.

    Raises:
        ChangedMeanwhile: that is another content.
        AlreadyDecided: it was approved.
        NotAllowed, ProjectArchived: see `check_rights`.
    """
    _, revision = _lock_to_decide(revision, by=by, sha256=sha256)
    if revision.status not in (ToolStatus.PROPOSED, ToolStatus.REJECTED):
        raise AlreadyDecided("This revision was approved, and agents may have it. Only a proposed one can be rejected.")
    if revision.status == ToolStatus.PROPOSED:
        _decide(revision, ReviewDecision.REJECT, by=by)
    return revision


@transaction.atomic
def undo_tool_review(review: Review, *, by: Actor) -> ToolRevision:
    """Take back a decision made by mistake: what was in force before is in force again, and the revision waits.

    A revision that was approved earlier, too, stays approved.

    Raises:
        TooLateToUndo: it is too old, another person's, not the latest decision, or an agent has the revision already.
        NotAllowed, ProjectArchived: see `check_rights`.
    """
    tool = Tool.objects.select_for_update().get(pk=review.subject_id)
    check_rights(tool, by=by)
    check_undoable(tool, review, by=by, of=(ReviewDecision.APPROVE, ReviewDecision.REJECT))
    revision = tool.revisions.get(pk=review.revision_id)
    # Other approvals that have not been undone.
    earlier = [
        approval
        for approval in revision.reviews.filter(decision=ReviewDecision.APPROVE).exclude(pk=review.pk)
        if not revision.reviews.filter(undoes=approval.pk).exists()
    ]
    if review.decision == ReviewDecision.APPROVE:
        pinned = AgentRevision.objects.filter(project=tool.project_id, tools__contains=[{"revision": str(revision.pk)}])
        if tool.current_id != revision.pk or (not earlier and pinned.exists()):
            raise TooLateToUndo("An agent has this revision already. Put another one in force instead.")
        Tool.objects.filter(pk=tool.pk).update(current=tool.previous_id, previous=None)
    name_actor(by)
    record_review(tool, revision, ReviewDecision.UNDO, by=by, reason=f"Undid: {review.decision}.", undoes=review.pk)
    revision.status = ToolStatus.APPROVED if earlier else ToolStatus.PROPOSED
    revision.save(update_fields=["status"])
    return revision


def _lock_to_decide(revision: ToolRevision, *, by: Actor, sha256: str) -> tuple[Tool, ToolRevision]:
    tool = lock_subject(revision.tool)
    check_rights(tool, by=by)
    revision = tool.revisions.get(pk=revision.pk)
    check_read(revision, sha256)
    return tool, revision


def _put_in_force(tool: Tool, revision: ToolRevision, *, by: Actor) -> None:
    _decide(revision, ReviewDecision.APPROVE, by=by)
    Tool.objects.filter(pk=tool.pk).update(current=revision, previous=tool.current_id)


def _decide(revision: ToolRevision, decision: str, *, by: Actor) -> None:
    """Record a decision on a revision of a locked tool, and what it makes of it."""
    name_actor(by)
    record_review(revision.tool, revision, decision, by=by)
    revision.status = ToolStatus.APPROVED if decision == ReviewDecision.APPROVE else ToolStatus.REJECTED
    revision.save(update_fields=["status"])


def find_schemas(project: Project, names: Collection[str]) -> dict[str, Any]:
    """Return the schemas of those of these tools that are part of ERL, or that the project has in force."""
    own = {name: tool.parameters for name, tool in core_tools().items() if name in names}
    rows = ToolRevision.objects.filter(tool__project=project, tool__name__in=set(names), tool__current=F("pk"))
    return own | dict(rows.values_list("tool__name", "parameters"))


def as_definition(revision: ToolRevision) -> ToolDefinition:
    """Return a stored tool as it was defined."""
    return ToolDefinition(
        name=revision.tool.name,
        description=revision.description,
        parameters=revision.parameters,
        source=revision.source,
        uses=tuple(revision.uses),
        kind=revision.kind,
        runtime=revision.runtime,
        examples=tuple(Example(**example) for example in revision.examples),
        limits=revision.limits,
        request=revision.request,
        requires_approval=revision.requires_approval,
    )
