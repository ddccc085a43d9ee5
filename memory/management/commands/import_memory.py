"""Import an agent's own memory file, or lessons that were exported."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from memory.curation.lesson_files import import_lessons, is_lesson, read_decisions
from memory.episodes.import_file import import_memory
from memory.errors import MemoryAppError
from memory.limits import FILE_JSON
from memory.management.options import add_project_argument, get_project
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.strict_json import InvalidJson, parse_json


class Command(BaseCommand):
    help = (
        "Import an agent_memory.json (episodes become runs, mistakes cards, rules proposals) or the lessons that "
        "export_memory wrote as JSON Lines, which become proposals. Safe to repeat."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="The file.")
        add_project_argument(parser)
        parser.add_argument(
            "--decisions",
            type=Path,
            metavar="FILE",
            help="The decisions on the lessons, one on each line, as GET /reviews returns them. Lessons are then "
            "approved, rejected or retired as they were in the other installation.",
        )
        parser.add_argument("--agent", default="", help="The agent whose memory it is, for episodes that name none.")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
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
