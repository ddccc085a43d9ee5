"""A person who worked here leaves: the account is closed and renamed, and so is the name in what they did."""

import secrets
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.apps import apps
from django.contrib.admin.models import LogEntry
from django.contrib.sessions.models import Session
from django.db import DatabaseError, transaction
from django.db.models import Model, TextField

from memory.projects.actors import Actor, name_actor
from memory.projects.models import ApiKey, ProjectMembership
from memory.trust.erasure import set_erasing
from memory.trust.models import AuditEntry

log = structlog.get_logger(__name__)

# The chain compares the rows of these as a whole with what it recorded.
_COMPARED = frozenset({"agents_approval", "agents_toolrevision", "agents_agentrevision"})


@dataclass(frozen=True, kw_only=True, slots=True)
class RenamedLeaver:
    """What stands for the name now, in how many rows of which columns, and where the name has to stay."""

    pseudonym: str
    renamed: dict[str, int] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)


@transaction.atomic
def rename_leaver(user: Any, *, by: Actor) -> RenamedLeaver:
    """Close an account and let a pseudonym stand for its name.

    Decisions stay decisions of one and the same person. The name stays where it proves who decided: in the audit chain,
    whose entries no one can change, and in rows that the chain records as a whole.
    """
    old, pseudonym = Actor.person(user).label, f"former-{secrets.token_hex(4)}"
    new = f"user:{pseudonym}"
    name_actor(by)
    _close(user, pseudonym)
    set_erasing("on")
    leaver = RenamedLeaver(pseudonym=pseudonym)
    for model in apps.get_models():
        for name in _labels(model):
            rows = model._base_manager.filter(**{name: old})
            if not (count := rows.count()):
                continue
            column = f"{model._meta.db_table}.{name}"
            if model._meta.db_table not in _COMPARED and _rename(rows, name, new):
                leaver.renamed[column] = count
            else:
                leaver.kept[column] = count
    set_erasing("off")
    if in_chain := AuditEntry.objects.filter(content__contains=f'"{old}"').count():
        leaver.kept["memory_auditentry.content"] = in_chain
    log.info("leaver_renamed", pseudonym=pseudonym)
    return leaver


def _close(user: Any, pseudonym: str) -> None:
    """Take all rights from an account, and everything that says whose it was."""
    ProjectMembership.objects.filter(user=user).delete()
    for key in ApiKey.objects.filter(created_by=user):
        # A trigger takes the scopes of a person from a key that no longer has one.
        ApiKey.objects.filter(pk=key.pk).update(created_by=None)
    user.groups.clear()
    user.user_permissions.clear()
    for session in Session.objects.iterator():
        if session.get_decoded().get("_auth_user_id") == str(user.pk):
            session.delete()
    LogEntry.objects.filter(object_repr=user.get_username()).update(object_repr=pseudonym)
    user.username, user.first_name, user.last_name, user.email = pseudonym, "", "", ""
    user.is_active = user.is_staff = user.is_superuser = False
    user.set_unusable_password()
    user.save()


def _labels(model: type[Model]) -> list[str]:
    """Return the columns of a model that say who did something."""
    if model._meta.proxy or model is AuditEntry:
        return []
    fields = model._meta.local_concrete_fields
    return [
        field.name
        for field in fields
        if isinstance(field, TextField) and (field.name.endswith("_by") or field.name == "reviewer")
    ]


def _rename(rows: Any, name: str, new: str) -> bool:
    """Change the label in these rows, unless the database keeps them as they were written."""
    try:
        with transaction.atomic():
            rows.update(**{name: new})
    except DatabaseError as error:
        log.info("label_kept", column=f"{rows.model._meta.db_table}.{name}", reason=type(error).__name__)
        return False
    return True
