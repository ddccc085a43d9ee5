"""Who acts: a person, an API key or a named policy, and how the database is told."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self
from uuid import UUID

from django.db import connection

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

    from memory.projects.models import ApiKey


@dataclass(frozen=True, kw_only=True, slots=True)
class Actor:
    """Who does something: a person, an API key or a named policy.

    `label` is what stays in the records when the person or key is gone, for example "user:ana" or "key:ci".
    """

    label: str
    user_id: int | None = None
    api_key_id: UUID | None = None

    @classmethod
    def person(cls, user: "AbstractBaseUser") -> Self:
        """The actor for a logged-in person."""
        return cls(label=f"user:{user.get_username()}", user_id=user.pk)

    @classmethod
    def key(cls, api_key: "ApiKey") -> Self:
        """The actor for an authenticated API client."""
        return cls(label=f"key:{api_key.client}", api_key_id=api_key.pk)

    @classmethod
    def policy(cls, name: str) -> Self:
        """The actor for a named rule that decides without a person, such as the quickstart's."""
        return cls(label=f"policy:{name}")


def describe_actor(label: str) -> str:
    """Return a label as people read it: a person's name, or "key ci" and "policy quickstart"."""
    kind, colon, name = label.partition(":")
    return name if kind == "user" else f"{kind} {name}" if colon and kind in ("key", "policy") else label


def name_actor(by: Actor | None) -> None:
    """Tell the database who acts, for the audit entries that its triggers write, until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('erl.actor', %s, true)", [by.label if by else ""])
