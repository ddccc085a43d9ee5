"""Record runs from a file."""

import json
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from tqdm import tqdm

from memory.errors import MemoryAppError
from memory.intake.files import FORMATS, FileEntry, count_entries, read_entries
from memory.intake.recording import record_trajectory
from memory.management.options import add_project_argument, get_project
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.runs.models import Trajectory

MAX_SHOWN_ERRORS = 50


class Command(BaseCommand):
    help = (
        "Record the runs of a file. Reads JSON Lines (one run a line), JSON (a run or a list of runs), OpenAI "
        "chat logs (messages with tool calls) and tau-bench result files. A run has at least a task and "
        "steps; the other fields are those of POST /api/v1/trajectories. Its id becomes external_id, so "
        "importing a file again changes nothing. Bad entries are reported with their number and the reason; "
        "the good ones are kept. Exits with 1 if any entry failed."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="the file to read")
        add_project_argument(parser)
        parser.add_argument(
            "--format",
            choices=FORMATS,
            default="auto",
            dest="file_format",
            help="jsonl: one run a line; json: one document; auto: detect it by name and content (default)",
        )
        parser.add_argument("--agent", metavar="NAME", help="which agent ran, for runs that do not say so")
        parser.add_argument("--task-id", metavar="FAMILY", help="task family, for runs that do not name one")
        parser.add_argument(
            "--outcome-source",
            choices=Trajectory.OutcomeSource.values,
            help="who knows the outcomes, for runs that do not say so (default: the agent itself)",
        )
        parser.add_argument("--no-reflect", action="store_true", help="record the runs and queue no reflections")
        parser.add_argument("--dry-run", action="store_true", help="check the file and record nothing")
        parser.add_argument("--json", action="store_true", help="print one JSON object, for scripts")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        if not path.is_file():
            raise CommandError(f"There is no file {path}.")
        defaults = {name: options[name] for name in ("agent", "task_id", "outcome_source") if options[name] is not None}
        project = None if options["dry_run"] else get_project(options["project"])
        counts = {"imported": 0, "unchanged": 0, "failed": 0}
        failures: list[dict[str, str]] = []
        total = count_entries(path, file_format=options["file_format"]) or None
        entries = read_entries(path, file_format=options["file_format"], defaults=defaults)
        bar = tqdm(entries, total=total, unit="run", disable=True if options["json"] else None, leave=False)
        try:
            for entry in bar:
                state, reason = self._record(entry, project=project, reflect=not options["no_reflect"])
                counts[state] += 1
                if reason:
                    failures.append({"place": entry.place, "reason": reason})
        except MemoryAppError as error:
            raise CommandError(str(error)) from error
        self._report(path, counts, failures, options)
        if failures:
            raise SystemExit(1)

    def _record(self, entry: FileEntry, *, project: Project | None, reflect: bool) -> tuple[str, str]:
        """Record one run; return the result and, for a failure, the reason."""
        if entry.data is None:
            return "failed", entry.error
        if project is None:
            return "imported", ""
        try:
            recorded = record_trajectory(
                project,
                data=entry.data,
                by=Actor(label="command:import_trajectories"),
                reflect=None if reflect else False,
            )
        except MemoryAppError as error:
            return "failed", str(error)
        return ("imported" if recorded.created else "unchanged"), ""

    def _report(
        self, path: Path, counts: dict[str, int], failures: list[dict[str, str]], options: dict[str, Any]
    ) -> None:
        if options["json"]:
            self.stdout.write(
                json.dumps({"file": str(path), "dry_run": options["dry_run"], **counts, "errors": failures})
            )
            return
        for failure in failures[:MAX_SHOWN_ERRORS]:
            self.stderr.write(f"{failure['place']}: {failure['reason']}")
        if len(failures) > MAX_SHOWN_ERRORS:
            self.stderr.write(f"… and {len(failures) - MAX_SHOWN_ERRORS} more; --json lists them all.")
        done = "would be imported" if options["dry_run"] else "imported"
        self.stdout.write(
            f"{counts['imported']} {done}, {counts['unchanged']} unchanged, {counts['failed']} failed ({path.name})."
        )
        if counts["imported"] and not options["dry_run"] and not options["no_reflect"]:
            self.stdout.write(
                "Reflections are queued where the project wants them: a worker, or manage.py run_reflections, "
                "turns them into proposals."
            )
