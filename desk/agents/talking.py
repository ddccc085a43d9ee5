"""Who may send messages to agents on the pages, and what was sent."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import PermissionDenied

from desk.shell.requests import read_number
from memory.errors import MemoryAppError
from memory.limits import MAX_TASK_CHARS
from memory.projects.access import has_role
from memory.projects.models import ProjectMembership

Role = ProjectMembership.Role


def may_talk(user: Any, project_id: Any) -> bool:
    """Tell whether a person may send messages to a project's agents, and cancel and resume their runs."""
    return user.has_perm("agents.talk_to_agent") and has_role(user, project_id, Role.REVIEWER, Role.OPERATOR)


def check_talking(user: Any, project_id: Any) -> None:
    """Raise PermissionDenied for a person who may not talk to a project's agents."""
    if not may_talk(user, project_id):
        raise PermissionDenied(
            "You need the permission “send messages to agents” and the role of a reviewer or an operator in this "
            "project."
        )


def read_message(data: Mapping[str, Any]) -> str:
    """Return the message of a form.

    Raises:
        MemoryAppError: there is none, or it is too long.
    """
    text = str(data.get("message", "")).replace("\r\n", "\n").replace("\x00", "").strip()
    if not text:
        raise MemoryAppError("Write a message first.")
    if len(text) > MAX_TASK_CHARS:
        raise MemoryAppError(f"The message has {len(text):,} characters. Send at most {MAX_TASK_CHARS:,}.")
    return text


def read_message_number(data: Mapping[str, Any]) -> int:
    """Return the number of the message of a form.

    Raises:
        MemoryAppError: there is none.
    """
    number = read_number(data.get("number"))
    if number is None:
        raise MemoryAppError("Write the number of a message, as it stands beside it.")
    return number
