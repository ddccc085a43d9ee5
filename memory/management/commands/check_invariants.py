"""Check the rules that must hold for all rows."""

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from memory.trust.invariants import all_invariants, find_violations


class Command(BaseCommand):
    help = "Check the rules that must hold for all rows, even after a crash. Exits 1 and names the rows that break one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object, for scripts")

    def handle(self, *args: Any, **options: Any) -> None:
        violations = list(find_violations())
        checked = len(all_invariants())
        if options["json"]:
            found = [
                {"name": each.invariant.name, "says": each.invariant.says, "count": each.count, "rows": each.rows}
                for each in violations
            ]
            self.stdout.write(json.dumps({"checked": checked, "violations": found}))
        else:
            for each in violations:
                self.stdout.write(f"{each.invariant.name}: {each.invariant.says} Broken {each.count} times:")
                for row in each.rows:
                    self.stdout.write(f"  {row}")
            self.stdout.write(f"{checked} rules checked, {len(violations)} broken.")
        if violations:
            raise CommandError("Rules are broken. Leave the database as it is and look into these rows.", returncode=1)
