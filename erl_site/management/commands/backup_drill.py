"""Test that a backup of this database can be restored."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from erl_site.backup import DrillError, run_drill
from memory.database_owner import as_owner


class Command(BaseCommand):
    help = (
        "Dump the database, restore the dump into a second database, compare every table, replay the erasures on "
        "the copy, check the invariants and audit trail of both, and drop the copy. Exits with 1 if anything differs."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--keep", type=Path, metavar="FILE", help="keep the dump in this file")
        parser.add_argument("--json", action="store_true", help="print one JSON object, for scripts")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with as_owner():
                drill = run_drill(keep=options["keep"])
        except DrillError as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(asdict(drill)))
        else:
            for fault in drill.faults:
                self.stdout.write(fault)
            self.stdout.write(
                f"{drill.rows} rows of {drill.tables} tables: dumped in {drill.dump_seconds:.1f} s "
                f"({drill.dump_bytes / 1e6:.1f} MB), restored in {drill.restore_seconds:.1f} s, "
                f"{drill.erasures_replayed} erasures replayed, {len(drill.faults)} faults."
            )
        if drill.faults:
            raise CommandError("The restored copy differs from the database. Do not rely on this backup.", returncode=1)
