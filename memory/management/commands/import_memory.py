"""Import an agent's own memory file, lessons that were exported, or a whole project."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from memory.curation.lesson_files import import_lessons, is_lesson, read_decisions
from memory.episodes.import_file import import_memory
from memory.errors import MemoryAppError
from memory.limits import FILE_JSON
from memory.management.options import add_family_argument, get_project, quiet_logs, show_progress
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.strict_json import InvalidJson, parse_json
from memory.transfer.load import ImportOptions, import_project
from memory.transfer.rows import RowsRefused


class Command(BaseCommand):
    help = (
        "Import an agent_memory.json (episodes become runs, mistakes cards, rules proposals) or the lessons that "
        "export_memory wrote as JSON Lines, which become proposals. Safe to repeat. Or import the folder of a whole "
        "project, in one transaction, with what was decided in it. Take such a folder only from an installation that "
        "you trust as much as this one."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="The file, or the folder of a project.")
        parser.add_argument(
            "--project",
            metavar="SLUG",
            help="the project; may be left out where there is only one. A folder is imported into the project of this "
            "name, or of its own, which is made if there is none.",
        )
        parser.add_argument(
            "--decisions",
            type=Path,
            metavar="FILE",
            help="The decisions on the lessons, one on each line, as GET /reviews returns them. Lessons are then "
            "approved, rejected or retired as they were in the other installation.",
        )
        parser.add_argument("--agent", default="", help="The agent whose memory it is, for episodes that name none.")
        add_family_argument(parser, verb="import")
        parser.add_argument(
            "--dry-run", action="store_true", help="of a project: do all of it, say what does not fit, and take it back"
        )
        parser.add_argument(
            "--same-people",
            action="store_true",
            help="of a project: accounts here have the names of those there. Otherwise decisions of user:ana become "
            "those of import:user:ana.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        if path.is_dir():
            self._import_project(path, options)
            return
        data = _read(path)
        project = get_project(options["project"])
        # By content, since neither kind of file has a fixed name.
        if _holds_lessons(data):
            self._import_lessons(project, path, data, decisions_file=options["decisions"])
            return
        if options["decisions"]:
            raise CommandError(f"{path} is not a file of lessons, so --decisions does not apply to it.")
        try:
            document = parse_json(data, limits=FILE_JSON)
        except InvalidJson as error:
            raise CommandError(f"{path} cannot be read as JSON: {error}") from None
        try:
            done = import_memory(
                project, document=document, by=Actor(label="command:import_memory"), agent=options["agent"]
            )
        except MemoryAppError as refusal:
            raise CommandError(str(refusal)) from None
        if done.already_imported:
            self.stdout.write("This file was imported before. Nothing was changed.")
            return
        self.stdout.write(
            f"Imported {done.episodes} episodes, {done.scores} scores without an episode, {done.rules} rules and "
            f"{done.cards} mistake cards. The rules and the cards wait for review in the admin."
        )

    def _import_project(self, folder: Path, options: dict[str, Any]) -> None:
        how = ImportOptions(
            slug=options["project"] or "",
            families=tuple(options["families"]),
            same_people=options["same_people"],
        )
        try:
            with quiet_logs(verbosity=options["verbosity"]):
                done = import_project(
                    folder,
                    by=Actor(label="command:import_memory"),
                    options=how,
                    dry_run=options["dry_run"],
                    progress=show_progress(self),
                )
        except RowsRefused as refusal:
            more = (
                f"\n… and {refusal.count - len(refusal.faults):,} more" if refusal.count > len(refusal.faults) else ""
            )
            raise CommandError(f"Nothing was imported.\n{refusal}{more}") from None
        except MemoryAppError as refusal:
            raise CommandError(f"Nothing was imported. {refusal}") from None
        rows = f"{sum(done.rows.values()):,} rows of {len(done.rows)} tables"
        if options["dry_run"]:
            self.stdout.write(f"{rows} would be imported into the project {done.project.slug}. Nothing was changed.")
            return
        self.stdout.write(f"{rows} are imported into the project {done.project.slug}.")
        self.stdout.write("Searches find its lessons and passages once the workers have embedded them.")

    def _import_lessons(self, project: Project, path: Path, data: bytes, *, decisions_file: Path | None) -> None:
        decisions = None
        if decisions_file is not None:
            try:
                decisions = read_decisions(_lines(_read(decisions_file)))
            except MemoryAppError as refusal:
                raise CommandError(f"{decisions_file}: {refusal}") from None
        done = import_lessons(project, _lines(data), by=Actor(label="command:import_memory"), decisions=decisions)
        for number, reason in done.failures:
            self.stdout.write(f"{path}, line {number}: {reason}")
        counts = [f"{done.proposed - done.decided} lessons wait for review in the admin"]
        if decisions is not None:
            counts.append(f"{done.decided} took over their decision")
            counts.append(f"{done.left_out} were left out because they had been merged or quarantined")
        counts += [f"{done.unchanged} were already there", f"{len(done.failures)} failed"]
        self.stdout.write(", ".join(counts) + ".")
        # The rest was imported, so this is no CommandError, but a script has to notice.
        if done.failures:
            raise SystemExit(1)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from None


def _lines(data: bytes) -> list[str]:
    # Not `splitlines`, which also splits at U+2028 and others that JSON allows within a text.
    return data.decode("utf-8", "replace").split("\n")


def _holds_lessons(data: bytes) -> bool:
    """Tell lessons, one a line, from a memory file, which is one object."""
    first = next((line for line in data.splitlines() if line.strip()), b"")
    try:
        return is_lesson(json.loads(first))
    except (ValueError, RecursionError):
        return False
