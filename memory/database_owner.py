"""Work on the tables themselves, which the application's role may not change (DATABASE_OWNER_URL)."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.conf import settings
from django.db import connection


@contextmanager
def as_owner() -> Iterator[str]:
    """Connect this thread as the owner of the tables for the block; yield the name of the application's role.

    Where no owner is set the block runs as usual: then the application's role owns the tables, or is refused.
    """
    usual = connection.settings_dict
    if not settings.ERL_DATABASE_OWNER:
        yield str(usual["USER"])
        return
    connection.close()
    # Django opens the next connection of this thread by these settings.
    connection.settings_dict = {**usual, **settings.ERL_DATABASE_OWNER}
    try:
        yield str(usual["USER"])
    finally:
        connection.close()
        connection.settings_dict = usual


def explain_missing_owner() -> str:
    """Return why the tables cannot be worked on, as a sentence; "" where they can, or where there are none yet."""
    with as_owner(), connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_get_userbyid(relowner), current_user FROM pg_class"
            " WHERE oid = to_regclass('public.memory_project') AND NOT pg_has_role(relowner, 'USAGE')"
        )
        refused = cursor.fetchone()
    if refused is None:
        return ""
    owner, role = refused
    return f"The tables belong to {owner}, not to {role}. Set DATABASE_OWNER_URL to the same database as {owner}."
