"""Migrate as the owner of the tables, install what differs from the `.sql` files, and let the application use all."""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from erl_site.definitions import is_newer, reinstall
from erl_site.preflight import find_faults
from memory.database_owner import as_owner, explain_missing_owner


class Command(migrate.Command):
    def check(self, *args: Any, **options: Any) -> None:
        """Say in a sentence why the database cannot be used, before Django's checks and migrations use it."""
        with as_owner():
            if faults := find_faults():
                raise CommandError("Nothing was changed. " + " ".join(faults))
        if missing := explain_missing_owner():
            raise CommandError(f"Nothing was changed. {missing}")
        with as_owner():
            super().check(*args, **options)

    def handle(self, *args: Any, **options: Any) -> None:
        with as_owner() as application:
            super().handle(*args, **options)
            # Only a part of the migrations may have been asked for.
            if is_newer():
                self.stdout.write("The database is of a later version of ERL, so its functions stay as they are.")
            elif is_migrated():
                for name in reinstall():
                    self.stdout.write(f"{name} differed from its .sql file, and was installed again.")
            with connection.cursor() as cursor:
                cursor.execute("SELECT to_regproc('memory_grant_application') IS NOT NULL")
                if cursor.fetchone()[0]:
                    cursor.execute("SELECT memory_grant_application(%s)", [application])


def is_migrated() -> bool:
    """Tell whether every migration is applied."""
    executor = MigrationExecutor(connection)
    return not executor.migration_plan(executor.loader.graph.leaf_nodes())
