"""Check a deployment and say how to fix it."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import pluralize

from erl_site.doctor.database import Status
from erl_site.doctor.diagnosis import diagnose


class Command(BaseCommand):
    help = (
        "Check the settings, the database, the queue, the workers, the API keys and the disk, and say how to fix "
        "problems. Exits with 1 if a check fails, with --strict also if one gives a warning."
    )
    requires_system_checks: list[str] = []  # this command runs them itself

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object, for scripts")
        parser.add_argument("--strict", action="store_true", help="treat warnings as failures")

    def handle(self, *args: Any, **options: Any) -> None:
        results = diagnose()
        failures = [each for each in results if each.status == Status.FAILURE]
        warnings = [each for each in results if each.status == Status.WARNING]
        if options["json"]:
            self.stdout.write(json.dumps({"findings": [asdict(each) for each in results]}))
        else:
            for each in results:
                self.stdout.write(f"{each.status.value:<8} {each.name}: {each.message}")
                if each.todo:
                    self.stdout.write(f"         → {each.todo}")
            bad, odd = len(failures), len(warnings)
            self.stdout.write(f"{bad} failure{pluralize(bad)}, {odd} warning{pluralize(odd)}.")
        if failures or (options["strict"] and warnings):
            raise CommandError("Some checks did not pass; see above how to fix them.", returncode=1)
