"""Write what a project has learnt to a file, as an agent's memory or its lessons alone; or all of it to a folder."""

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db.models import F
from django.utils.duration import duration_iso_string

from memory.episodes.export_file import export_memory
from memory.errors import MemoryAppError
from memory.heuristics.models import Heuristic, HeuristicRevision
from memory.management.options import (
    add_family_argument,
    add_project_argument,
    get_project,
    show_progress,
    write_lines,
)
from memory.projects.models import Project
from memory.transfer.export import export_project
from memory.transfer.tables import FAMILIES

STATUSES = (*Heuristic.Status.values, "all")


class Command(BaseCommand):
    help = (
        "Export a project as agent_memory.json, or its lessons, oldest first, as JSON Lines (one lesson a line) or "
        "Markdown (for people). Approved lessons are exported with the wording that is served now; others with their "
        "newest wording. With --format project the whole project is written into a folder of JSON Lines, without "
        "secrets. import_memory reads all of them but Markdown."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "output",
            type=Path,
            nargs="?",
            metavar="FILE",
            help="Default: standard output. Of a project: a folder that does not exist.",
        )
        add_project_argument(parser)
        parser.add_argument(
            "--format",
            choices=("memory", "lessons", "markdown", "project"),
            default="memory",
            dest="file_format",
            help="agent_memory.json (default), lessons as JSON Lines or Markdown, or the whole project as a folder",
        )
        parser.add_argument(
            "--status",
            choices=STATUSES,
            default="approved",
            help="of lessons: approved, what agents are given now (default); or another state; or all",
        )
        add_family_argument(parser, verb="export")

    def handle(self, *args: Any, **options: Any) -> None:
        project = get_project(options["project"])
        match options["file_format"]:
            case "memory":
                # A memory file is one object; only lessons can be written line by line.
                lines = iter([json.dumps(export_memory(project), ensure_ascii=False, indent=2)])
            case "lessons":
                lines = _jsonl(_revisions(project, options["status"]))
            case "project":
                self._export_project(project, options["output"], options["families"] or list(FAMILIES))
                return
            case _:
                lines = _markdown(project, _revisions(project, options["status"]))
        write_lines(self, lines, output=options["output"], noun="line")

    def _export_project(self, project: Project, folder: Path | None, families: list[str]) -> None:
        if folder is None:
            raise CommandError("Name the folder that the project is to be written into.")
        try:
            manifest = export_project(project, folder, families=families, progress=show_progress(self))
        except MemoryAppError as refusal:
            raise CommandError(str(refusal)) from None
        size = sum(file.bytes for file in manifest.files)
        self.stderr.write(
            f"{folder}: {manifest.count_rows():,} rows of {len(manifest.files)} tables, {size / 1e6:.1f} MB."
        )


def _revisions(project: Project, status: str) -> Iterator[HeuristicRevision]:
    """Yield one wording a lesson: the served one where agents are given it, else the newest."""
    rows = HeuristicRevision.objects.for_project(project).select_related("heuristic")
    rows = rows.order_by("heuristic__created_at", "heuristic_id")
    if status == Heuristic.Status.APPROVED:
        # Streamed, since all lessons of a large project need not fit into memory.
        yield from rows.served().iterator(chunk_size=500)
        return
    newest = rows.filter(heuristic__current_revision=F("pk"))
    yield from (newest if status == "all" else newest.filter(heuristic__status=status)).iterator(chunk_size=500)


def _jsonl(revisions: Iterator[HeuristicRevision]) -> Iterator[str]:
    for revision in revisions:
        heuristic = revision.heuristic
        yield json.dumps(
            {
                "id": str(heuristic.pk),
                "status": heuristic.status,
                "revision": revision.number,
                "content_sha256": revision.content_sha256,
                "trigger": revision.trigger,
                "guideline": revision.guideline,
                "avoid": revision.avoid,
                "not_when": revision.not_when,
                "rationale": revision.rationale,
                "polarity": revision.polarity,
                "scope": revision.scope,
                "task_id": revision.task_id,
                "tags": revision.tags,
                "source_task": revision.source_task,
                "valid_until": revision.valid_until.isoformat() if revision.valid_until else None,
                "expires_after": duration_iso_string(revision.expires_after) if revision.expires_after else None,
                "support": heuristic.support,
                "confidence": heuristic.confidence,
                "reflector": heuristic.reflector,
                "created_at": heuristic.created_at.isoformat(),
                "approved_by": revision.approved_by,
                "approved_at": revision.approved_at.isoformat() if revision.approved_at else None,
            },
            ensure_ascii=False,
        )


def _markdown(project: Project, revisions: Iterator[HeuristicRevision]) -> Iterator[str]:
    yield f"# Lessons of {project.name}"
    for revision in revisions:
        yield ""
        yield f"## {_flat(revision.trigger)}"
        yield ""
        yield f"- Do: {_flat(revision.guideline)}"
        for label, text in (("Avoid", revision.avoid), ("Not when", revision.not_when), ("Why", revision.rationale)):
            if text:
                yield f"- {label}: {_flat(text)}"
        heuristic = revision.heuristic
        runs = "run" if heuristic.support == 1 else "runs"
        yield f"- {heuristic.status}, seen in {heuristic.support} {runs}, id {heuristic.pk}"


def _flat(text: str) -> str:
    """Write a lesson on one line, so that its line breaks make no headings or lists."""
    return " ".join(text.split())
