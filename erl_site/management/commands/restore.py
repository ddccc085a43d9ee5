"""Put the database back as a backup has it."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError

from erl_site.backup import BackupError, holds_projects, restore_backup
from erl_site.preflight import find_faults
from memory.database_owner import as_owner, explain_missing_owner


class Command(BaseCommand):
    help = (
        "Replace the whole database by a file that manage.py backup wrote, in one transaction: all of it or nothing. "
        "Stop the web server and the workers first. Afterwards migrations, the invariants and the audit trail are "
        "checked. Erasures after the backup have to be replayed (docs/operating.md)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="the backup")
        parser.add_argument("--replace", action="store_true", help="discard what the database holds now")

    def handle(self, *args: Any, **options: Any) -> None:
        file: Path = options["file"]
        if not file.is_file():
            raise CommandError(f"{file} does not exist.")
        try:
            if missing := explain_missing_owner():
                raise CommandError(f"Nothing was changed. {missing}")
            with as_owner():
                if faults := find_faults():
                    raise CommandError("Nothing was changed. " + " ".join(faults))
                if not options["replace"] and holds_projects():
                    raise CommandError(
                        "The database holds projects, which restoring would replace. Add --replace if you want that; "
                        "manage.py backup keeps what is there now."
                    )
                restored = restore_backup(file)
        except BackupError as error:
            raise CommandError(f"Nothing was changed. {error}") from error
        # The backup may be of an earlier version.
        call_command("migrate", verbosity=0)
        self.stdout.write(f"{restored.rows:,} rows of {restored.tables} tables are restored.")
        call_command("verify_audit", stdout=self.stdout)
