"""Options that several commands have: the project, whole numbers, times, the output file."""

import logging
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TextIO

from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import pluralize
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from memory.database_clock import database_now
from memory.projects.models import Project
from memory.transfer.export import open_private
from memory.transfer.tables import FAMILIES

MAX_NAMED = 20


def add_project_argument(parser: ArgumentParser) -> None:
    parser.add_argument("--project", metavar="SLUG", help="the project; may be left out where there is only one")


def add_family_argument(parser: ArgumentParser, *, verb: str) -> None:
    parser.add_argument(
        "--family",
        action="append",
        choices=tuple(FAMILIES),
        dest="families",
        default=[],
        help=f"of a project: {verb} only these rows and what they cannot do without; may be given several times",
    )


def show_progress(command: BaseCommand) -> Callable[[str, int], None]:
    """Return what says on a terminal how many rows of which table are done."""

    def show(table: str, rows: int) -> None:
        if command.stderr.isatty():
            command.stderr.write(f"\r{table}: {rows:,}".ljust(60), ending="")

    return show


def get_project(slug: str | None) -> Project:
    """Return the named project, or the only one; raise CommandError with the known ones."""
    slugs = ", ".join(Project.objects.values_list("slug", flat=True)[:MAX_NAMED])
    if slug:
        project = Project.objects.filter(slug=slug).first()
        if project is None:
            raise CommandError(f"There is no project {slug!r} (known: {slugs or 'none yet'}).")
        return project
    # Two are enough to know that there are several.
    projects = list(Project.objects.all()[:2])
    if not projects:
        raise CommandError("There is no project yet. Run manage.py quickstart, or create_api_key --create-project.")
    if len(projects) > 1:
        raise CommandError(f"Name the project with --project SLUG (known: {slugs}).")
    return projects[0]


@contextmanager
def quiet_logs(*, verbosity: int) -> Iterator[None]:
    """Keep log lines below warnings out of what a command says, except with --verbosity 2."""
    root = logging.getLogger()
    before = root.level
    if verbosity < 2:
        # `max`, so that an installation that logs errors alone stays as quiet as it was.
        root.setLevel(max(before, logging.WARNING))
    try:
        yield
    finally:
        root.setLevel(before)


def number_up_to(most: int, *, least: int = 0) -> Callable[[str], int]:
    """Return a reader of whole numbers, as `type` of an argparse argument."""

    def read(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            # Out of range, so that one sentence answers both mistakes.
            number = least - 1
        if not least <= number <= most:
            raise ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most:,}")
        return number

    return read


def read_time(text: str) -> datetime:
    """Read the value of --since: an ISO day or time, or an age such as 24h.

    Raises:
        CommandError: it is neither of them.
    """
    units = {"m": "minutes", "h": "hours", "d": "days"}
    if text[:-1].isdigit() and text[-1:] in units:
        # By the clock that dated the rows, which may differ from this machine's.
        try:
            return database_now() - timedelta(**{units[text[-1]]: int(text[:-1])})
        except (OverflowError, ValueError):  # before the first year, or thousands of digits
            raise CommandError(f"--since {text[:20]!r} is longer ago than any run. Leave it out.") from None
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None:
        raise CommandError(
            f"--since {text!r} is not a time. Give one such as 2026-05-01T12:00Z, or an age such as 90m, 24h or 7d."
        )
    return moment if timezone.is_aware(moment) else timezone.make_aware(moment)


@contextmanager
def open_output(path: Path) -> Iterator[TextIO]:
    """Open a file that only its owner may read, since it holds texts of runs and names of people.

    Raises:
        CommandError: the file cannot be written; what was written of it is removed.
    """
    is_new = not path.exists()
    try:
        with open(path, "w", encoding="utf-8", opener=open_private) as file:
            yield file
    except OSError as error:
        if is_new:  # half a file may look like a whole one
            path.unlink(missing_ok=True)
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from error


def write_file(path: Path, text: str) -> None:
    """Write a text to a file, or raise CommandError where that cannot be done."""
    with open_output(path) as file:
        file.write(text)


def write_lines(command: BaseCommand, lines: Iterable[str], *, output: Path | None, noun: str) -> None:
    """Write lines to the file, and say how many, or to the command's output.

    Args:
        noun: what a line holds, in the singular.

    Raises:
        CommandError: the file cannot be written.
    """
    if output is None:
        for line in lines:
            command.stdout.write(line)
        return
    count = 0
    with open_output(output) as file:
        for line in lines:
            file.write(f"{line}\n")
            count += 1
    command.stderr.write(f"{count:,} {noun}{pluralize(count)} written to {output}.")
