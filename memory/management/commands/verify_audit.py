"""Check that no recorded decision was changed, and that every row obeys the rules."""

import json
from argparse import ArgumentParser
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError
from django.template.defaultfilters import pluralize

from memory.trust.audit import Head, verify_audit
from memory.trust.invariants import all_invariants, find_violations


class Command(BaseCommand):
    help = (
        "Read the audit chain of every project from its beginning, compare it with the rows, and check the rules that "
        "must hold for all rows, even after a crash. Exits 1 and names the place where something differs. Keep the "
        "heads it prints elsewhere: given back with --head, they prove that the chain was not cut off or rewritten."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--head", action="append", default=[], metavar="PROJECT:NUMBER:SHA256", help="a head printed earlier"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object, for scripts")

    def handle(self, *args: Any, **options: Any) -> None:
        report = verify_audit(heads=[read_head(text) for text in options["head"]])
        broken, checked = list(find_violations()), len(all_invariants())
        if options["json"]:
            faults = [
                {"project": str(fault.project_id), "number": fault.number, "message": fault.message}
                for fault in report.faults
            ]
            heads = [str(head) for head in report.heads]
            rules = [
                {
                    "name": violation.invariant.name,
                    "says": violation.invariant.says,
                    "count": violation.count,
                    "rows": violation.rows,
                }
                for violation in broken
            ]
            audit = {"entries": report.entries, "heads": heads, "faults": faults}
            self.stdout.write(json.dumps({**audit, "rules": checked, "broken_rules": rules}))
        else:
            for fault in report.faults:
                entry = f"entry {fault.number}" if fault.number else "no entry"
                self.stdout.write(f"project {fault.project_id}, {entry}: {fault.message}")
            entries, chains, fault_count = report.entries, len(report.heads), len(report.faults)
            self.stdout.write(
                f"{entries:,} {'entry' if entries == 1 else 'entries'} in {chains:,} chain{pluralize(chains)}, "
                f"{fault_count:,} fault{pluralize(fault_count)}."
            )
            for head in report.heads:
                self.stdout.write(f"head {head}")
            for violation in broken:
                self.stdout.write(
                    f"{violation.invariant.name}: {violation.invariant.says} Broken {violation.count} times:"
                )
                for row in violation.rows:
                    self.stdout.write(f"  {row}")
            self.stdout.write(f"{checked} rules checked, {len(broken)} broken.")
        if report.faults:
            raise CommandError(
                "The audit is damaged. Stop deciding, leave this database as it is, and compare it with a backup.",
                returncode=1,
            )
        if broken:
            raise CommandError("Rules are broken. Leave the database as it is and look into these rows.", returncode=1)


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
