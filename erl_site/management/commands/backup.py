"""Write a backup of the database, and check that it can be read back."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from erl_site.backup import BackupError, run_drill, write_backup
from memory.database_owner import as_owner, explain_missing_owner


class Command(BaseCommand):
    help = (
        "Write the whole database into one file, which manage.py restore reads, and read it back to check it. With "
        "--drill it is restored into a second database and compared row by row, which shows that the backup can be "
        "relied on and takes about three times as long. Exits with 1, and leaves no file, if anything is wrong."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="where to write it, for example erl.dump")
        parser.add_argument("--drill", action="store_true", help="restore it into a second database and compare")
        parser.add_argument("--replace", action="store_true", help="replace the file if it exists")

    def handle(self, *args: Any, **options: Any) -> None:
        file: Path = options["file"]
        if file.exists() and not options["replace"]:
            raise CommandError(f"{file} exists. Choose another name, or add --replace.")
        try:
            if missing := explain_missing_owner():
                raise CommandError(missing)
            with as_owner():
                written = write_backup(file, check=run_drill if options["drill"] else None)
        except BackupError as error:
            raise CommandError(str(error)) from error
        compared = ", restored and compared" if options["drill"] else ", read back"
        self.stdout.write(
            f"{file}: {written.rows:,} rows of {written.tables} tables, {written.bytes / 1e6:.1f} MB{compared}."
        )
