"""Write the reviewers' decisions to a file or to standard output."""

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import QuerySet

from memory.api.base import represent
from memory.curation.serializers import ReviewSerializer
from memory.heuristics.models import Review
from memory.management.options import add_output_argument, add_project_argument, get_project, read_time, write_lines


class Command(BaseCommand):
    help = "Export a project's review decisions, oldest first, as JSON Lines: one a line, as GET /reviews has it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_project_argument(parser)
        parser.add_argument("--decision", choices=Review.Decision.values, help="only decisions of this kind")
        parser.add_argument("--since", metavar="TIME", help="from then on: an ISO 8601 time, or an age such as 7d")
        add_output_argument(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        records = Review.objects.of_lessons().filter(project=get_project(options["project"])).select_related("revision")
        if options["decision"]:
            records = records.filter(decision=options["decision"])
        if options["since"]:
            records = records.filter(created_at__gte=read_time(options["since"]))
        lines = _represent(records.order_by("created_at", "id"))
        write_lines(self, lines, output=options["output"], noun="decision")


def _represent(records: QuerySet[Review]) -> Iterator[str]:
    for review in records.iterator(chunk_size=500):
        yield json.dumps(represent(ReviewSerializer, review), ensure_ascii=False, cls=DjangoJSONEncoder)
