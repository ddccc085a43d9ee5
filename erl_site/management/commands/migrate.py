"""Migrate as the owner of the tables, then let the application use them."""

from typing import Any

from django.core.management.commands import migrate
from django.db import connection

from memory.database_owner import as_owner


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        with as_owner() as application:
            super().handle(*args, **options)
            with connection.cursor() as cursor:
                cursor.execute("SELECT to_regproc('memory_grant_application') IS NOT NULL")
                if cursor.fetchone()[0]:  # part of the migrations may have been asked for
                    cursor.execute("SELECT memory_grant_application(%s)", [application])
