"""Write an agent with its tools as a Python file."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from memory.management.options import add_output_argument, add_project_argument, get_project, write_file
from runtime.definitions.loading import export_agent
from runtime.models.agents import Agent


class Command(BaseCommand):
    help = "Write an agent, its tools and its memory as a Python file that load_agents reads."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="name of the agent")
        add_project_argument(parser)
        add_output_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        project = get_project(options["project"])
        agent = Agent.objects.filter(project=project, name=options["name"]).select_related("current", "project").first()
        if agent is None:
            names = ", ".join(Agent.objects.filter(project=project).values_list("name", flat=True)[:20])
            raise CommandError(f"There is no agent {options['name']!r} (known: {names or 'none yet'}).")
        text = export_agent(agent)
        if options["output"] is None:
            self.stdout.write(text, ending="")
        else:
            write_file(options["output"], text)
