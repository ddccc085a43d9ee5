"""Give large projects an index and measure what it costs in recall."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error

from memory.counting import say_count
from memory.errors import EmbedderError
from memory.management.numbers import number_up_to
from memory.projects.models import Project
from memory.retrieval.index_tuning import measure_recall, tune_search
from memory.retrieval.models import SearchIndex


class Command(BaseCommand):
    help = (
        "Build an index for every project that serves more texts than the threshold, drop those that are "
        "not worth it any more, and compare searches by index with a comparison of everything on the tasks asked last. "
        "Searches go on meanwhile. The task of the same name does so every hour, with the threshold of the "
        "settings: an index that was built with a smaller one goes then."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--project", metavar="SLUG", help="Only this project.")
        parser.add_argument(
            "--tasks", type=number_up_to(10_000), default=50, help="Logged tasks to compare on, or 0. Default: 50."
        )
        parser.add_argument("--threshold", type=number_up_to(10**9), help="Served texts from which on to build one.")

    def handle(self, *args: Any, **options: Any) -> None:
        projects = Project.objects.order_by("slug")
        if options["project"]:
            projects = projects.filter(slug=options["project"])
            if not projects:
                raise CommandError(f"There is no project {options['project']!r}.")
        for project in projects:
            try:
                index = tune_search(project, threshold=options["threshold"])
                self.stdout.write(f"{project.slug}: {self._describe(index, tasks=options['tasks'])}")
            except (Error, EmbedderError) as error:
                raise CommandError(f"{project.slug}: {error} Searches go on as before; run this again.") from error

    def _describe(self, index: SearchIndex | None, *, tasks: int) -> str:
        if index is None:
            return "everything is compared."
        text = f"index of {index.texts:,} texts, built in {index.build_seconds:.0f} s"
        recall = measure_recall(index, tasks=tasks) if tasks else None
        if recall is None:
            return f"{text}; recall not measured, no task was logged."
        return (
            f"{text}; on {say_count(recall.tasks, 'task')} it finds {recall.mean:.3f} of the 20 likest lessons in the "
            "mean and "
            f"{recall.least:.2f} at least (breadth {index.breadth})."
        )
