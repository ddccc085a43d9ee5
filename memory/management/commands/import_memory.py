"""Import an agent's own memory file."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from memory.episodes.import_file import import_memory
from memory.errors import MemoryAppError
from memory.limits import FILE_JSON
from memory.management.options import add_project_argument, get_project
from memory.projects.actors import Actor
from memory.strict_json import InvalidJson, parse_json


class Command(BaseCommand):
    help = "Import an agent_memory.json: episodes become runs, mistakes cards, rules proposals. Safe to repeat."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="The file, one JSON object.")
        add_project_argument(parser)
        parser.add_argument("--agent", default="", help="The agent whose memory it is, for episodes that name none.")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        try:
            document = parse_json(path.read_bytes(), limits=FILE_JSON)
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}.") from None
        except InvalidJson as error:
            raise CommandError(f"{path} cannot be read as JSON: {error}") from None
        project = get_project(options["project"])
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
