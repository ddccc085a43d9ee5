"""Who can be named in a discussion: the people of its project."""

import re
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import Q, QuerySet

from memory.projects.models import ProjectMembership

MENTION = re.compile(r"(?<![\w@.+-])@([\w.+-]+(?:@[\w.+-]+)?)")  # as Django allows them in names of accounts


def find_people(project_id: UUID, *roles: str) -> QuerySet[Any]:
    """Return who works in a project, or has one of the roles there, by name."""
    members = ProjectMembership.objects.filter(Q(project=project_id) | Q(project__isnull=True))
    if roles:
        members = members.filter(role__in=roles)
    users = get_user_model()._default_manager.filter(is_active=True, is_staff=True)
    return users.filter(Q(is_superuser=True) | Q(pk__in=members.values("user"))).order_by("username")


def find_mentioned(text: str, project_id: UUID) -> list[Any]:
    """Return the people of the project whom a text names as @name. Marks after a name are no part of it."""
    # A name may end in a full stop, or a sentence may; both readings are looked up.
    names = {name for mention in MENTION.findall(text) for name in (mention, mention.rstrip(".+-"))}
    return list(find_people(project_id).filter(username__in=names)) if names else []
