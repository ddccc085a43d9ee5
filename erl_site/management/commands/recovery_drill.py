"""Show that the database can be recovered to a point in time."""

import json
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from erl_site.programs import DrillError
from erl_site.recovery import run_recovery
from memory.management.commands.erase import read_ledger
from memory.management.commands.verify_audit import read_head


class Command(BaseCommand):
    help = (
        "Recover a base backup and the archived log to a point in time, in a server of its own beside the one in use; "
        "erase again what was erased since; check rows, audit and files. Exits 1 and names what is wrong."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("base", type=Path, metavar="BASE", help="folder that pg_basebackup made")
        parser.add_argument("archive", type=Path, metavar="ARCHIVE", help="folder that archive_command writes to")
        parser.add_argument(
            "--until", type=_read_time, metavar="TIME", help="such as 2026-11-22T10:00:00Z; else to the archive's end"
        )
        parser.add_argument("--erasures", type=Path, metavar="FILE", help="the newest ledger that erase --export wrote")
        parser.add_argument(
            "--head", action="append", default=[], metavar="PROJECT:NUMBER:SHA256", help="an end of the audit, noted"
        )
        parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the recovered data here")
        parser.add_argument("--json", action="store_true", help="print one JSON object, for scripts")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["erasures"] is not None:
            if not options["erasures"].is_file():
                raise CommandError(f"There is no file {options['erasures']}. Give a ledger that erase --export wrote.")
            read_ledger(options["erasures"])
        for head in options["head"]:
            read_head(head)
        ended = signal.signal(signal.SIGTERM, lambda *_: sys.exit("Ended."))
        try:
            recovery = run_recovery(
                base=options["base"],
                archive=options["archive"],
                until=options["until"],
                erasures=options["erasures"],
                heads=options["head"],
                keep=options["keep"],
                tell=self._tell,
            )
        except DrillError as error:
            raise CommandError(str(error)) from error
        except KeyboardInterrupt:
            raise CommandError("Stopped. Nothing was left behind but what --keep asks for.", returncode=130) from None
        finally:
            signal.signal(signal.SIGTERM, ended)
        if options["json"]:
            self.stdout.write(json.dumps(asdict(recovery)))
        else:
            for fault in recovery.faults:
                self.stdout.write(fault)
            self.stdout.write(
                f"Recovered {recovery.rows} rows of {recovery.tables} tables in {recovery.recover_seconds:.1f} s, "
                f"up to {recovery.last_change_at or 'the base backup: the log held no change'}; "
                f"{recovery.erasures_replayed} erasures replayed, {len(recovery.faults)} faults, checked in "
                f"{recovery.check_seconds:.1f} s."
            )
        if options["keep"]:
            self._tell(
                f"The data are in {options['keep']}/data, with the erasures replayed and PostgreSQL's defaults, open "
                "to whoever reaches the server's socket."
            )
        if recovery.faults:
            raise CommandError("What was recovered is not whole. Do not rely on this backup.", returncode=1)

    def _tell(self, line: str) -> None:
        """Say what is going on, which is no error, where the result does not go."""
        self.stderr.write(line, style_func=str)


def _read_time(text: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no time. Write it like 2026-11-22T10:00:00Z.") from None
    if time.tzinfo is None:
        raise ArgumentTypeError(f"{text!r} has no time zone. Write it like 2026-11-22T10:00:00Z.")
    if time > timezone.now():
        raise ArgumentTypeError(f"{text} lies in the future.")
    return time
