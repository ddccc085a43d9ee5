"""Put the review queue into order now, instead of waiting for the periodic work."""

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.template.defaultfilters import pluralize

from memory.curation.priority import BATCH, prioritise_heuristics, prioritise_queue
from memory.heuristics.models import Heuristic
from memory.index.recent_tasks import find_projects_to_remember, remember_tasks


class Command(BaseCommand):
    help = "Rank the waiting proposals now, by how much a decision on them matters; workers do so within seconds."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--all", action="store_true", help="including those ranked less than an hour ago")

    def handle(self, *args: Any, **options: Any) -> None:
        for project_id in find_projects_to_remember(limit=1_000_000):
            while remember_tasks(project_id):
                pass
        done = 0
        if options["all"]:
            ids = list(Heuristic.objects.proposed().values_list("pk", flat=True))
            done = sum(prioritise_heuristics(ids[at : at + BATCH]) for at in range(0, len(ids), BATCH))
        while more := prioritise_queue():
            done += more
        self.stdout.write(f"{done:,} proposal{pluralize(done)} sorted.")
