"""Store the tools and agents that a Python file defines."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from memory.management.options import add_project_argument, get_project
from memory.projects.actors import Actor
from runtime.definitions.loading import load_file
from runtime.errors import InvalidDefinition
from runtime.sandbox import SandboxError

BY = Actor(label="command:load_agents")


class Command(BaseCommand):
    help = "Store the tools and agents of a Python file, which is read and never run. Repeating it changes nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the Python file")
        add_project_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        project = get_project(options["project"])
        try:
            text = options["file"].read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
        except OSError as error:
            raise CommandError(f"{options['file']} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise CommandError(f"{options['file']} is no text in UTF-8. Name a Python file.") from error
        try:
            loaded = load_file(project, text, by=BY)
        except InvalidDefinition as error:
            said = "\n".join(f"{options['file']}{', ' if fault.line else ': '}{fault}" for fault in error.faults)
            raise CommandError(f"Nothing was stored.\n{said}") from error
        except SandboxError as error:
            raise CommandError(str(error)) from error
        if not loaded.tools and not loaded.agents:
            raise CommandError(
                f"{options['file']} defines no tool and no agent. Write functions with @tool and calls of agent(…), "
                "both imported from runtime.definitions."
            )
        for noun, changes in (("tool", loaded.tools), ("agent", loaded.agents)):
            for name, is_new in changes.items():
                self.stdout.write(f"{noun} {name}: {'new revision' if is_new else 'unchanged'}")
