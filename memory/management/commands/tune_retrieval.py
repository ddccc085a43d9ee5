"""Build search indexes for large projects, and measure their recall."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import Error
from django.template.defaultfilters import pluralize

from memory.errors import EmbedderError
from memory.index.tuning import measure_recall, tune_search
from memory.management.options import number_up_to
from memory.passages.index import tune_passages
from memory.projects.models import Project
from memory.retrieval.models import SearchIndex


class Command(BaseCommand):
    help = (
        "Build an index for every project that serves more texts than the threshold, and another for more passages of "
        "agents than that; drop indexes "
        "that are no longer needed, and compare searches by index with exact searches on the latest tasks. Searches "
        "continue meanwhile. The periodic task of the same name does the same every hour with the default threshold, "
        "and drops an index that was built with a smaller one."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--project", metavar="SLUG", help="Only this project.")
        parser.add_argument(
            "--tasks", type=number_up_to(10_000), default=50, help="Logged tasks to compare on, or 0. Default: 50."
        )
        parser.add_argument(
            "--threshold", type=number_up_to(10**9), help="Served texts or passages from which on to build one."
        )

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
                if tune_passages(project, threshold=options["threshold"]):
                    self.stdout.write(f"{project.slug}: passages of agents have an index, too.")
            except (Error, EmbedderError) as error:
                raise CommandError(f"{project.slug}: {error} Searches work as before; run this again.") from error

    def _describe(self, index: SearchIndex | None, *, tasks: int) -> str:
        if index is None:
            return "everything is compared."
        text = f"index of {index.texts:,} texts, built in {index.build_seconds:.0f} s"
        recall = measure_recall(index, tasks=tasks) if tasks else None
        if recall is None:
            return f"{text}; recall not measured, no task was logged."
        return (
            f"{text}; on {recall.tasks:,} task{pluralize(recall.tasks)} it finds {recall.mean:.3f} of the 20 nearest "
            f"lessons on average, and never less than {recall.least:.2f} (breadth {index.breadth})."
        )
