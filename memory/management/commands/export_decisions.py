"""Write the reviewers' decisions to a file or to standard output."""

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

from django.core.management.base import BaseCommand, CommandError
from django.core.serializers.json import DjangoJSONEncoder
from django.db.models import QuerySet
from django.utils.dateparse import parse_date, parse_datetime

from memory.api.serializers.heuristic import ReviewSerializer
from memory.api.serializers.reuse import represent
from memory.management.projects import add_project_argument, get_project
from memory.models import Review


class Command(BaseCommand):
    help = "Export a project's review decisions, oldest first, as JSON Lines: one a line, as GET /reviews has it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        add_project_argument(parser)
        parser.add_argument("--decision", choices=Review.Decision.values, help="only decisions of this kind")
        parser.add_argument("--since", type=_read_time, metavar="TIME", help="from this day or time on, ISO 8601, UTC")
        parser.add_argument("--output", type=Path, metavar="FILE", help="write to FILE instead of standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        records = Review.objects.filter(project=get_project(options["project"])).select_related("revision")
        if options["decision"]:
            records = records.filter(decision=options["decision"])
        if options["since"]:
            records = records.filter(created_at__gte=options["since"])
        lines = _write_lines(records.order_by("created_at", "id"))
        output: Path | None = options["output"]
        if output is None:
            _write(lines, self.stdout)
            return
        try:
            with output.open("w", encoding="utf-8") as file:
                count = _write(lines, file)
        except OSError as error:
            raise CommandError(f"{output} cannot be written: {error.strerror}.") from error
        self.stderr.write(f"{count} decision{'s' if count != 1 else ''} written to {output}.")


def _write_lines(records: QuerySet[Review]) -> Iterator[str]:
    for review in records.iterator(chunk_size=500):
        yield json.dumps(represent(ReviewSerializer, review), ensure_ascii=False, cls=DjangoJSONEncoder)


def _write(lines: Iterator[str], file: TextIO | Any) -> int:
    count = 0
    for line in lines:
        file.write(f"{line}\n")
        count += 1
    return count


def _read_time(text: str) -> datetime:
    day = parse_date(text)
    at = datetime(day.year, day.month, day.day, tzinfo=UTC) if day else parse_datetime(text)
    if at is None:
        raise ValueError
    return at if at.tzinfo else at.replace(tzinfo=UTC)
