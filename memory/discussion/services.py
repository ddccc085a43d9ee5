"""Comment on an item of the inbox, give it to a person, or put it off."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import transaction
from django.utils import timezone

from memory.after_commit import after_commit
from memory.discussion.mail import send_notice
from memory.discussion.mentions import find_mentioned, find_people
from memory.discussion.models import MAX_COMMENT, Comment, ItemState
from memory.errors import MemoryAppError, NotAllowed
from memory.events import EventKind, ProjectEvent, announce
from memory.projects.access import has_role
from memory.projects.actors import Actor
from memory.projects.models import ProjectMembership

_Role = ProjectMembership.Role


@dataclass(frozen=True, kw_only=True, slots=True)
class Item:
    """What is worked on: a row of some table, by its kind. `noun` and `link` are for the people who are told of it."""

    kind: str
    id: UUID
    project_id: UUID
    noun: str
    link: str = ""


def may_discuss(user: Any, project_id: UUID) -> bool:
    """Tell whether a person who may see an item may also comment on it, assign it and snooze it."""
    return has_role(user, project_id, _Role.REVIEWER, _Role.OPERATOR)


@transaction.atomic
def write_comment(item: Item, *, text: str, by: Actor) -> Comment:
    """Add a comment, and tell those whom it names as @name.

    Raises:
        MemoryAppError: it is empty or too long.
        NotAllowed: see `may_discuss`.
    """
    _check(item, by=by)
    # Browsers send CRLF, which would count twice against the limit.
    text = text.replace("\r\n", "\n").strip()
    if not text:
        raise MemoryAppError("Write something first.")
    if len(text) > MAX_COMMENT:
        raise MemoryAppError(f"A comment has at most {MAX_COMMENT:,} characters; this one has {len(text):,}.")
    comment = Comment.objects.create(
        project_id=item.project_id, kind=item.kind, object_id=item.id, text=text, written_by=by.label
    )
    mentioned = [user for user in find_mentioned(text, item.project_id) if user.pk != by.user_id]
    details = {"mentioned": [user.get_username() for user in mentioned]}
    announce(_event(EventKind.COMMENT_WRITTEN, item, by=by, **details))
    after_commit(send_notice, [user.pk for user in mentioned], f"{_name(by)} mentioned you on a {item.noun}", item.link)
    return comment


@transaction.atomic
def assign_item(item: Item, *, to: int | None, by: Actor) -> ItemState:
    """Give an item to a reviewer of its project, who is told of it, or take it back from everyone.

    Raises:
        MemoryAppError: the person cannot review there.
        NotAllowed: see `may_discuss`.
    """
    _check(item, by=by)
    person = find_people(item.project_id, _Role.REVIEWER).filter(pk=to).first() if to is not None else None
    if to is not None and person is None:
        raise MemoryAppError("This person is not a reviewer of the project. Choose another.")
    state = _change(item, by=by, assignee=person)
    if person is not None:
        announce(_event(EventKind.ITEM_ASSIGNED, item, by=by, assignee=person.get_username()))
        if person.pk != by.user_id:
            after_commit(send_notice, [person.pk], f"{_name(by)} assigned a {item.noun} to you", item.link)
    return state


@transaction.atomic
def snooze_item(item: Item, *, until: datetime | None, by: Actor) -> ItemState:
    """Leave an item out of the list until a time, or with None put it back.

    Raises:
        MemoryAppError: the time is over.
        NotAllowed: see `may_discuss`.
    """
    _check(item, by=by)
    if until is not None and until <= timezone.now():
        raise MemoryAppError("Choose a day after today.")
    return _change(item, by=by, snoozed_until=until)


def _change(item: Item, *, by: Actor, **values: Any) -> ItemState:
    signed = {"changed_by": by.label, "changed_at": timezone.now()}
    # Only what is given changes, so that a snooze keeps the assignee.
    state, _ = ItemState.objects.update_or_create(
        project_id=item.project_id, kind=item.kind, object_id=item.id, defaults={**values, **signed}
    )
    return state


def _check(item: Item, *, by: Actor) -> None:
    if by.user_id is None:
        raise NotAllowed("Only people work on the inbox.")
    user = get_user_model()._default_manager.filter(pk=by.user_id, is_active=True).first()
    if user is None or not may_discuss(user, item.project_id):
        raise NotAllowed(
            "You need the role of a reviewer or operator in this project for that. Ask an administrator to add you "
            "under Settings, Members."
        )


def _event(kind: str, item: Item, *, by: Actor, **details: Any) -> ProjectEvent:
    lessons = (item.id,) if item.kind == "lesson" else ()
    about = {"item": str(item.id), "kind": item.kind, "by": _name(by)}
    return ProjectEvent(kind=kind, project_id=item.project_id, lesson_ids=lessons, details={**about, **details})


def _name(by: Actor) -> str:
    return by.label.removeprefix("user:")
