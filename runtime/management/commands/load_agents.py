"""Store the tools and agents that a Python file defines, or write the file of an agent."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from memory.management.options import add_project_argument, get_project, write_file
from memory.projects.actors import Actor
from memory.projects.models import Project
from runtime.definitions.loading import export_agent, load_file
from runtime.errors import InvalidDefinition
from runtime.models.agents import Agent
from runtime.sandbox import SandboxError

BY = Actor(label="command:load_agents")


class Command(BaseCommand):
    help = (
        "Store the tools and agents of a Python file, which is read and never run. Repeating it changes nothing. With "
        "--export, write an agent, its tools and its memory into such a file instead."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="the Python file")
        parser.add_argument("--export", metavar="NAME", help="write this agent to the file; - is standard output")
        add_project_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        project = get_project(options["project"])
        if options["export"]:
            self._export(project, options["export"], options["file"])
            return
        try:
            text = options["file"].read_text(encoding="utf-8-sig")  # some editors begin a file with a mark
        except OSError as error:
            raise CommandError(f"{options['file']} cannot be read: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise CommandError(f"{options['file']} is no text in UTF-8. Name a Python file.") from error
        try:
            loaded = load_file(project, text, by=BY)
        except InvalidDefinition as error:
            report = "\n".join(f"{options['file']}{', ' if fault.line else ': '}{fault}" for fault in error.faults)
            raise CommandError(f"Nothing was stored.\n{report}") from error
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

    def _export(self, project: Project, name: str, file: Path) -> None:
        agent = Agent.objects.filter(project=project, name=name).select_related("current", "project").first()
        if agent is None:
            names = ", ".join(Agent.objects.filter(project=project).values_list("name", flat=True)[:20])
            raise CommandError(f"There is no agent {name!r} (known: {names or 'none yet'}).")
        if str(file) == "-":
            self.stdout.write(export_agent(agent), ending="")
        else:
            write_file(file, export_agent(agent))
