"""Let a benchmark do to its own database what the application may not: make databases, analyse, prewarm."""

from django.conf import settings
from django.db import connection

from erl_site.embedded.roles import ADMINISTRATOR


def become_administrator() -> None:
    """Connect this process as the administrator from now on. What it starts connects as the application does."""
    connection.close()
    settings.DATABASES["default"]["USER"] = connection.settings_dict["USER"] = ADMINISTRATOR
    settings.ERL_DATABASE_OWNER = {}
