"""Tell the database who acts, for the audit entries that its triggers write."""

from django.db import connection

from memory.projects.actors import Actor


def name_actor(by: Actor | None) -> None:
    """Name the actor until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('erl.actor', %s, true)", [by.label if by else ""])
