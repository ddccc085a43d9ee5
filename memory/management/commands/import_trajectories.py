"""Record runs from files."""

import json
from argparse import ArgumentParser, ArgumentTypeError
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from tqdm import tqdm

from memory.errors import MemoryAppError, UnknownParent
from memory.intake.files import ARCHIVE_SUFFIX, FORMATS, PROTOBUF_SUFFIXES, FileEntry, count_entries, read_entries
from memory.intake.harbor import without_reports
from memory.intake.recording import find_parent, find_tasks, record_trajectory
from memory.management.options import add_project_argument, get_project
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.runs.models import Trajectory

MAX_SHOWN_ERRORS = 50
PROJECT_RUNS = f"{Trajectory._meta.db_table}.jsonl"  # of export_memory --format project
CODING_AGENTS = ("claude-code", "codex", "cursor", "gemini-cli", "opencode", "qwen-code")  # those that have hooks
SUFFIXES = frozenset({".json", ".jsonl", ".ndjson", ".traj", ".log", ARCHIVE_SUFFIX, *PROTOBUF_SUFFIXES})


@dataclass(kw_only=True, slots=True)
class ImportResult:
    """What became of the runs of all files."""

    counts: dict[str, int] = field(default_factory=lambda: {"imported": 0, "unchanged": 0, "failed": 0, "skipped": 0})
    failures: list[dict[str, str]] = field(default_factory=list)
    taken: dict[str, str] = field(default_factory=dict)
    waiting: list[tuple[str, FileEntry]] = field(default_factory=list)


def _files_in(folder: Path) -> list[Path]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix.lower() in SUFFIXES)
    return without_reports(files)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is not a date; write 2025-06-01 or 2025-06-01T12:00:00+00:00.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _is_before(run: dict[str, Any], since: datetime | None) -> bool:
    """Tell whether a run began too early; one that does not say when is taken."""
    began = run.get("started_at") or run.get("ended_at")
    return bool(since and began and began < since)


def _summarise(taken: dict[str, int]) -> str:
    """Say what the logs of a file were taken for: the summary of a whole file, or the runs of each format."""
    if len(taken) == 1 and (only := next(iter(taken.items())))[1] == 1:
        return only[0]
    runs: dict[str, int] = {}
    for summary, entries in taken.items():
        name, _, counted = summary.partition(": ")
        if not counted.endswith("1 run") or "," in counted:
            return summary  # one log of several runs
        runs[name] = runs.get(name, 0) + entries
    return "; ".join(f"{name}: {count} run{'' if count == 1 else 's'}" for name, count in runs.items())


class Command(BaseCommand):
    help = (
        "Record the runs of a file, or of every file in a folder. Reads messages (OpenAI chat and Responses, "
        "Anthropic, Gemini, LangChain, pydantic-ai), traces (OpenTelemetry as JSON, protobuf or console output, "
        "OpenInference, Langfuse, LangSmith, OpenAI Agents SDK), sessions (Claude Code, Codex, Cursor, Gemini "
        "CLI, OpenCode and ten more), benchmark logs (ATIF with Harbor's job folders, Inspect, SWE-agent, "
        "tau-bench, tau2-bench, AgentDojo) and the form of POST /api/v1/trajectories; "
        "docs/integrations.md says what is taken from each. Prints what each file was taken for. A run's id "
        "becomes its external_id, so importing a file again changes nothing. What cannot be read is reported with "
        "its place and the reason; the rest is kept. Exits with 1 if anything failed."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", type=Path, metavar="PATH", help="a file, or a folder with files")
        add_project_argument(parser)
        parser.add_argument(
            "--format",
            choices=FORMATS,
            default="auto",
            dest="file_format",
            help="jsonl: one value per line; json: one document; auto: detect it by name and content (default)",
        )
        parser.add_argument(
            "--since", type=_moment, metavar="DATE", help="only runs that began then or later, such as 2025-06-01"
        )
        parser.add_argument(
            "--outcome-from",
            default="",
            metavar="KEY",
            help="where the logs say how a run ended, such as metadata.reward or scores.0.value",
        )
        parser.add_argument("--agent", metavar="NAME", help="which agent ran, for runs that do not say so")
        parser.add_argument(
            "--family", "--task-id", dest="task_id", metavar="FAMILY", help="task family, for runs that do not name one"
        )
        parser.add_argument(
            "--outcome-source",
            choices=Trajectory.OutcomeSource.values,
            help="who judged the outcomes, for runs that do not say so (default: the agent itself)",
        )
        parser.add_argument("--no-reflect", action="store_true", help="record the runs without queueing reflections")
        parser.add_argument("--dry-run", action="store_true", help="do everything, and take it back: record nothing")
        parser.add_argument("--json", action="store_true", help="print one JSON object, for scripts")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["path"]
        if not path.exists():
            raise CommandError(f"There is no file {path}.")
        # Its runs would be recorded again, under other ids and without all that refers to them.
        if parts := [path] if path.name == PROJECT_RUNS else sorted(path.rglob(PROJECT_RUNS)):
            raise CommandError(
                f"{parts[0]} is part of a whole project. Import all of {parts[0].parent} with manage.py import_memory."
            )
        files = _files_in(path) if path.is_dir() else [path]
        if not files:
            raise CommandError(f"There is no log in {path}: no file ends in {', '.join(sorted(SUFFIXES))}.")
        defaults = {name: options[name] for name in ("agent", "task_id", "outcome_source") if options[name] is not None}
        result = ImportResult()
        # A dry run takes the very same way, in a transaction that is rolled back.
        with transaction.atomic() if options["dry_run"] else nullcontext():
            if options["dry_run"] and not options["project"] and not Project.objects.exists():
                # Rolled back with the rest: logs can be tried before there is a project.
                project = Project.objects.create(slug="dry-run", name="dry run")
            else:
                project = get_project(options["project"])
            for file in files:
                relative_path = "" if file == path else str(file.relative_to(path))
                self._import(file, result, options, defaults=defaults, project=project, place=relative_path)
            self._resolve_parents(result, project, options)
            if options["dry_run"]:
                transaction.set_rollback(True)
        self._report(path, result, options)
        # The rest was recorded, so this is no CommandError, but a script has to notice.
        if result.failures:
            raise SystemExit(1)

    def _import(
        self,
        file: Path,
        result: "ImportResult",
        options: dict[str, Any],
        *,
        defaults: dict[str, Any],
        project: Project,
        place: str,
    ) -> None:
        """Record the runs of one file, and say what it was taken for. `place` is the file's, in a folder."""
        total = count_entries(file, file_format=options["file_format"]) or None
        entries = read_entries(
            file, file_format=options["file_format"], defaults=defaults, outcome_from=options["outcome_from"]
        )
        taken: dict[str, int] = {}
        try:
            # None lets tqdm decide: no bar where the output is no terminal.
            for entry in tqdm(entries, total=total, unit="run", disable=True if options["json"] else None, leave=False):
                if entry.format:
                    taken[entry.format] = taken.get(entry.format, 0) + 1
                if entry.data is not None and _is_before(entry.data, options["since"]):
                    result.counts["skipped"] += 1
                    continue
                where = f"{place}, {entry.place}" if place else entry.place
                if entry.data and entry.data.get("parent_id"):
                    result.waiting.append((where, entry))  # its parent may come later
                    continue
                self._count(where, self._record(entry, project=project, reflect=not options["no_reflect"]), result)
        except MemoryAppError as error:
            if not place:
                raise CommandError(str(error)) from error
            result.counts["failed"] += 1
            result.failures.append({"place": place, "reason": str(error)})
        if taken:
            result.taken[place or file.name] = _summarise(taken)

    def _resolve_parents(self, result: "ImportResult", project: Project, options: dict[str, Any]) -> None:
        """Record the runs that name a parent, now that all others are there; parents before their children."""
        waiting = result.waiting
        while waiting:
            here = {entry.data["external_id"] for _, entry in waiting if entry.data}
            # Where all wait for each other, as in a circle, all are recorded; an unknown parent is kept as metadata.
            ready = [pair for pair in waiting if pair[1].data and pair[1].data["parent_id"] not in here] or waiting
            for where, entry in ready:
                self._count(where, self._record(entry, project=project, reflect=not options["no_reflect"]), result)
            waiting = [pair for pair in waiting if pair not in ready]

    def _count(self, place: str, recorded: tuple[str, str], result: "ImportResult") -> None:
        state, reason = recorded
        result.counts[state] += 1
        if reason:
            result.failures.append({"place": place, "reason": reason})

    def _record(self, entry: FileEntry, *, project: Project, reflect: bool) -> tuple[str, str]:
        """Record one run; return the result and, for a failure, the reason."""
        if entry.data is None:
            return "failed", entry.error
        data = entry.data
        is_session = data.get("metadata", {}).get("format") in CODING_AGENTS
        if is_session and find_tasks(project, data["external_id"]).exists():
            return "unchanged", ""  # hooks recorded its tasks: the same work is not read twice
        try:
            find_parent(project, data.get("parent_id", ""), started_at=data.get("started_at"))
        except UnknownParent:  # it was not logged; which one it was is kept
            metadata = {**data.get("metadata", {}), "parent_id": data["parent_id"]}
            data = {name: value for name, value in data.items() if name != "parent_id"} | {"metadata": metadata}
        try:
            recorded = record_trajectory(
                project,
                data=data,
                by=Actor(label="command:import_trajectories"),
                reflect=None if reflect else False,
            )
        except MemoryAppError as error:
            return "failed", str(error)
        return ("imported" if recorded.created else "unchanged"), ""

    def _report(self, path: Path, result: "ImportResult", options: dict[str, Any]) -> None:
        counts, failures = result.counts, result.failures
        if options["json"]:
            report = {"file": str(path), "dry_run": options["dry_run"], **counts, "taken_for": result.taken}
            self.stdout.write(json.dumps({**report, "errors": failures}))
            return
        for failure in failures[:MAX_SHOWN_ERRORS]:
            self.stderr.write(f"{failure['place']}: {failure['reason']}")
        if len(failures) > MAX_SHOWN_ERRORS:
            self.stderr.write(f"… and {len(failures) - MAX_SHOWN_ERRORS} more; --json lists them all.")
        for name, taken in result.taken.items():
            self.stdout.write(f"{name}: {taken}")
        done = "would be imported" if options["dry_run"] else "imported"
        self.stdout.write(
            f"{counts['imported']} {done}, {counts['unchanged']} unchanged, {counts['failed']} failed"
            f"{f', {skipped} before --since' if (skipped := counts['skipped']) else ''} ({path.name})."
        )
        if counts["imported"] and not options["dry_run"] and not options["no_reflect"]:
            self.stdout.write(
                "Reflections are queued if the project's settings say so: a worker, or manage.py run_jobs, "
                "turns them into proposals."
            )
