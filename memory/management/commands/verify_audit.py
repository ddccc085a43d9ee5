"""Check that no recorded decision was changed."""

import json
from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import pluralize

from memory.trust.audit import Head, verify_audit


class Command(BaseCommand):
    help = (
        "Read the audit chain of every project from its beginning and compare it with the rows. Exits 1 and names the "
        "place where something differs. Keep the heads it prints somewhere else: given back with "
        "--head, they prove that the chain was not cut off or rewritten."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--head", action="append", default=[], metavar="PROJECT:NUMBER:SHA256", help="a head printed earlier"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object, for scripts")

    def handle(self, *args: Any, **options: Any) -> None:
        report = verify_audit(heads=[read_head(text) for text in options["head"]])
        if options["json"]:
            faults = [
                {"project": str(fault.project_id), "number": fault.number, "message": fault.message}
                for fault in report.faults
            ]
            heads = [str(head) for head in report.heads]
            self.stdout.write(json.dumps({"entries": report.entries, "heads": heads, "faults": faults}))
        else:
            for fault in report.faults:
                place = f"entry {fault.number}" if fault.number else "no entry"
                self.stdout.write(f"project {fault.project_id}, {place}: {fault.message}")
            entries, chains, found = report.entries, len(report.heads), len(report.faults)
            self.stdout.write(
                f"{entries:,} {'entry' if entries == 1 else 'entries'} in {chains:,} chain{pluralize(chains)}, "
                f"{found:,} fault{pluralize(found)}."
            )
            for head in report.heads:
                self.stdout.write(f"head {head}")
        if report.faults:
            raise CommandError(
                "The audit is damaged. Stop deciding, leave this database as it is, and compare it with a backup.",
                returncode=1,
            )


def read_head(text: str) -> Head:
    """Read a head as the command prints it.

    Raises:
        CommandError: it is not one.
    """
    try:
        project, number, sha256 = text.split(":")
        return Head(project_id=UUID(project), number=int(number), sha256=sha256)
    except ValueError:
        raise CommandError(f"{text!r} is not a head. Give it as verify_audit printed it.") from None
