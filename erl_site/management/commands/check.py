"""Check settings, the database and, with --running, all that runs, and say what to do about faults."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import check
from django.template.defaultfilters import pluralize
from django.urls import get_resolver

from erl_site.diagnosis.database import DatabaseStatus
from erl_site.diagnosis.running import diagnose
from erl_site.preflight import find_faults


class Command(check.Command):
    help = (
        "Checks the settings; with --database default, also the database. With --running, checks all that runs: "
        "database, queue, workers, API keys, webhooks, disk, sandbox. Says what to do about each fault."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)  # type: ignore[arg-type]  # the stubs want the class that Django passes
        parser.add_argument("--running", action="store_true", help="check the running installation too")
        parser.add_argument("--json", action="store_true", help="with --running: print one JSON object, for scripts")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["running"]:
            self._check_running(as_json=options["json"], strict=options["fail_level"] not in ("ERROR", "CRITICAL"))
            return
        for alias in options["databases"] or ():
            # Named before Django's checks fail on them
            if faults := find_faults(alias):
                raise CommandError(" ".join(faults))
        get_resolver().url_patterns  # noqa: B018 - pages register with the admin, which else has nothing to check
        super().handle(*args, **options)

    def _check_running(self, *, as_json: bool, strict: bool) -> None:
        results = diagnose()
        failures = sum(result.status == DatabaseStatus.FAILURE for result in results)
        warnings = sum(result.status == DatabaseStatus.WARNING for result in results)
        if as_json:
            self.stdout.write(json.dumps({"findings": [asdict(result) for result in results]}))
        else:
            for result in results:
                self.stdout.write(f"{result.status.value:<8} {result.name}: {result.message}")
                if result.todo:
                    self.stdout.write(f"         → {result.todo}")
            self.stdout.write(f"{failures} failure{pluralize(failures)}, {warnings} warning{pluralize(warnings)}.")
        if failures or (strict and warnings):
            raise CommandError("Some checks did not pass; see above how to fix them.", returncode=1)
