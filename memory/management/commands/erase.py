"""Erase runs, and what was learnt from them alone."""

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.db import connection
from django.db.models import QuerySet
from django.template.defaultfilters import pluralize

from memory.database_owner import as_owner, explain_missing_owner
from memory.management.options import write_file
from memory.projects.actors import Actor
from memory.projects.models import Project
from memory.runs.models import Trajectory
from memory.stored_text import find_stored_text
from memory.trust.erasure import erase_trajectory
from memory.trust.models import Erasure
from memory.trust.periods import erase_due, find_due

BY = Actor(label="command:erase")
# ANALYZE leaves the statistics of a table without rows as they were.
_CLEAR_STATISTICS = """
WITH cleared AS (
    SELECT unnest(%(tables)s::text[]) AS name
    UNION SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent::regclass::text = ANY(%(tables)s)
)
SELECT count(pg_clear_attribute_stats(schemaname, tablename, attname, inherited)) FROM pg_stats
WHERE tablename IN (SELECT name FROM cleared)
    OR tablename IN (SELECT indexname FROM pg_indexes WHERE tablename IN (SELECT name FROM cleared))
"""


class Command(BaseCommand):
    help = (
        "Erase runs: their reflections, evidence, model calls, stored answers, and the lessons that rest on them "
        "alone. After a backup is restored, --replay erases again whatever was erased since it was made. --due erases "
        "what projects keep no longer."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("trajectories", nargs="*", type=UUID, metavar="ID", help="ids of the runs to erase")
        parser.add_argument(
            "--replay",
            nargs="?",
            const="",
            metavar="FILE",
            help="erase again what the ledger of erasures names; FILE is one that --export wrote, or -",
        )
        parser.add_argument(
            "--export", metavar="FILE", help="write the ledger, to be kept apart from the backups; -: print it"
        )
        parser.add_argument("--due", action="store_true", help="erase what each project keeps no longer")
        parser.add_argument("--dry-run", action="store_true", help="with --due: only say what would go")
        parser.add_argument(
            "--vacuum", action="store_true", help="afterwards also remove what is left of it in the database's files"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        ids: list[UUID] = options["trajectories"]
        if options["vacuum"] and (missing := explain_missing_owner()):
            raise CommandError(f"Nothing was erased. {missing}")
        if options["due"]:
            self._apply_periods(dry_run=options["dry_run"])
            if options["vacuum"] and not options["dry_run"]:
                self._vacuum()
            return
        if options["export"]:
            self._export(options["export"])
            if not ids:
                return
        if options["replay"] is not None:
            ledger = options["replay"]
            recorded = read_ledger(Path(ledger)) if ledger else _of_runs().values_list("trajectory_id", flat=True)
            ids = [*ids, *recorded]
        elif not ids:
            raise CommandError("Name the runs to erase by their ids, or use --replay.")
        # Not those of the ledger: a restored backup may lack runs that were recorded and erased after it.
        _check_ids(options["trajectories"])
        runs = deleted = kept = reworded = 0
        # Each erasure is a transaction of its own: a stop in the middle keeps those that are done.
        for trajectory in Trajectory.objects.filter(pk__in=ids):
            erased = erase_trajectory(trajectory, by=BY)
            runs += 1
            deleted += erased.heuristics_deleted
            kept += erased.heuristics_kept
            reworded += erased.heuristics_reworded
        self.stdout.write(
            f"Erased {runs:,} run{pluralize(runs)} and {deleted:,} lesson{pluralize(deleted)}. "
            f"Of {len(set(ids)) - runs} other runs nothing was left. {kept:,} lesson{pluralize(kept)} with other "
            f"evidence stay{pluralize(kept, 's,')}, {reworded} of them without the wording that quoted a run."
        )
        if options["vacuum"]:
            self._vacuum()

    def _vacuum(self) -> None:
        vacuum_stored_text()
        self.stdout.write("Removed what was left of them from the database's files.")

    def _apply_periods(self, *, dry_run: bool) -> None:
        """Erase what is due, or show the table of periods with what is."""
        for project in Project.objects.all():
            for row in find_due(project) if dry_run else ():
                kept = f"{row.days:,} days from {row.period.since}" if row.days else "for ever"
                self.stdout.write(f"{project.slug}: {row.period.label}, kept {kept}: {row.count:,} due")
            erased = {} if dry_run else erase_due(project)
            for label, count in erased.items():
                self.stdout.write(f"{project.slug}: {count:,} {label}")

    def _export(self, place: str) -> None:
        rows = _of_runs().order_by("erased_at", "pk").values_list("trajectory_id", "erased_at")
        text = "".join(f"{id} {erased_at.isoformat()}\n" for id, erased_at in rows)
        if place == "-":
            self.stdout.write(text, ending="")
            return
        write_file(Path(place), text)
        self.stdout.write(f"Wrote {len(rows):,} erasure{pluralize(len(rows))} to {place}.")


def vacuum_stored_text() -> None:
    """Free the space of deleted rows, and renew the planner's statistics, which quote values of rows."""
    tables = sorted({table for table, _, _ in find_stored_text()})
    with as_owner(), connection.cursor() as cursor:
        cursor.execute(_CLEAR_STATISTICS, {"tables": tables})
        # Behind the clearing, so that tables that still have rows get their statistics again.
        cursor.execute(f"VACUUM (ANALYZE) {', '.join(tables)}")


def _of_runs() -> QuerySet[Erasure]:
    """Return the erasures of runs. The receipt of a person has no rows of its own to erase again."""
    return Erasure.objects.filter(receipt__isnull=True)


def _check_ids(ids: list[UUID]) -> None:
    """Refuse an id that no run ever had: a typing error must not look like an erasure."""
    existing = {*Trajectory.objects.filter(pk__in=ids).values_list("pk", flat=True)}
    existing |= {*Erasure.objects.filter(trajectory_id__in=ids).values_list("trajectory_id", flat=True)}
    if unknown := ", ".join(str(id) for id in ids if id not in existing):
        raise CommandError(f"No run has or had the id {unknown}. Nothing was erased.")


def read_ledger(path: Path) -> list[UUID]:
    """Return the ids of the runs in a ledger; `-` means standard input.

    Raises:
        CommandError: it is not a ledger.
    """
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text(encoding="utf-8")
        return [UUID(line.split()[0]) for line in text.splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise CommandError(f"{path} is not a ledger of erasures: {error}. Give a file that --export wrote.") from error
