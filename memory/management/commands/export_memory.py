"""Export a project as an agent's own memory file."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from memory.episodes.export_file import export_memory
from memory.management.options import add_project_argument, get_project, write_file


class Command(BaseCommand):
    help = "Export a project as agent_memory.json, as import_memory reads it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, nargs="?", help="Where to write. Default: standard output.")
        add_project_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        text = json.dumps(export_memory(get_project(options["project"])), ensure_ascii=False, indent=2)
        if options["file"] is None:
            self.stdout.write(text)
        else:
            write_file(options["file"], text + "\n")
            self.stdout.write(f"Written to {options['file']}.")
