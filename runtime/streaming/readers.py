"""Who follows a run, and whether they still may: an API key, or a person by their session."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest

from memory.projects.access import visible_projects
from memory.projects.models import ApiKey


class StreamReader(Protocol):
    """Someone who follows a run. Equal readers are asked about once."""

    @property
    def holders(self) -> tuple[str, ...]:
        """Whose share of the streams one counts against: the reader's own, then the one it is part of."""

    def may_follow(self) -> bool:
        """Tell whether they may still read what happens in the project."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyReader:
    """An API key, while it is usable and has the scope."""

    key_id: UUID
    project_id: UUID

    @property
    def holders(self) -> tuple[str, ...]:
        return f"key:{self.key_id}", f"project:{self.project_id}"

    def may_follow(self) -> bool:
        usable = ApiKey.objects.usable().filter(pk=self.key_id, project=self.project_id)
        return usable.filter(scopes__contains=[ApiKey.Scope.RUN]).exists()


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonReader:
    """A person, while the session lasts and the account sees runs of the project."""

    user_id: int
    session_key: str
    project_id: UUID

    @property
    def holders(self) -> tuple[str, ...]:
        return (f"user:{self.user_id}",)

    def may_follow(self) -> bool:
        request: Any = HttpRequest()
        request.session = import_module(settings.SESSION_ENGINE).SessionStore(self.session_key)
        # There is none after a sign-out, or where the password or the account has changed.
        user = get_user(request)
        may = user.pk == self.user_id and user.has_perm("agents.view_run")
        return may and visible_projects(user).filter(pk=self.project_id).exists()
