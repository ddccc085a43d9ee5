"""Look at a deployment and say what to do."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from erl_site.doctor.database import Status
from erl_site.doctor.diagnosis import diagnose


class Command(BaseCommand):
    help = (
        "Look at the settings, the database, the queue, the workers, the keys and the disk, and say what to do. Exits "
        "1 where something fails, with --strict also where something is only doubtful."
    )
    requires_system_checks: list[str] = []  # it makes them itself

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object, for scripts")
        parser.add_argument("--strict", action="store_true", help="take warnings for failures")

    def handle(self, *args: Any, **options: Any) -> None:
        findings = diagnose()
        wrong = [each for each in findings if each.status == Status.FAILURE]
        doubtful = [each for each in findings if each.status == Status.WARNING]
        if options["json"]:
            self.stdout.write(json.dumps({"findings": [asdict(each) for each in findings]}))
        else:
            for each in findings:
                self.stdout.write(f"{each.status.value:<8} {each.name}: {each.message}")
                if each.todo:
                    self.stdout.write(f"         → {each.todo}")
            self.stdout.write(f"{len(wrong)} failures, {len(doubtful)} warnings.")
        if wrong or (options["strict"] and doubtful):
            raise CommandError("Something needs to be done; it is said above.", returncode=1)
