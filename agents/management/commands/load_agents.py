"""Store the tools and agents that a Python file defines."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents.definitions.loading import load_file
from agents.errors import InvalidDefinition
from agents.sandbox import SandboxError
from memory.management.options import add_project_argument, get_project
from memory.projects.actors import Actor

BY = Actor(label="command:load_agents")


class Command(BaseCommand):
    help = "Store the tools and agents of a Python file, which is read and never run. Repeating it changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the Python file")
        add_project_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        project = get_project(options["project"])
        try:
            text = options["file"].read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{options['file']} cannot be read: {error}.") from error
        try:
            loaded = load_file(project, text, by=BY)
        except InvalidDefinition as error:
            said = "\n".join(f"{options['file']}, {fault}" for fault in error.faults)
            raise CommandError(f"Nothing was stored.\n{said}") from error
        except SandboxError as error:
            raise CommandError(str(error)) from error
        for noun, changes in (("tool", loaded.tools), ("agent", loaded.agents)):
            for name, is_new in changes.items():
                self.stdout.write(f"{noun} {name}: {'new revision' if is_new else 'unchanged'}")
