"""Where commands that export write to."""

from argparse import ArgumentParser
from collections.abc import Iterable
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError


def add_output_argument(parser: ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, metavar="FILE", help="write to FILE instead of standard output")


def write_lines(command: BaseCommand, lines: Iterable[str], *, output: Path | None, noun: str) -> None:
    """Write lines to the file, and say how many, or to the command's output.

    Args:
        noun: what a line is, in the singular.

    Raises:
        CommandError: the file cannot be written.
    """
    if output is None:
        for line in lines:
            command.stdout.write(line)
        return
    count = 0
    try:
        with output.open("w", encoding="utf-8") as file:
            for line in lines:
                file.write(f"{line}\n")
                count += 1
    except OSError as error:
        raise CommandError(f"{output} cannot be written: {error.strerror}.") from error
    command.stderr.write(f"{count} {noun}{'s' if count != 1 else ''} written to {output}.")
