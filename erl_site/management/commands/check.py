"""Check settings and, with --database, the database, whose faults are named before Django's checks fail on them."""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import check

from erl_site.preflight import find_faults


class Command(check.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        for alias in options["databases"] or ():
            if faults := find_faults(alias):
                raise CommandError(" ".join(faults))
        super().handle(*args, **options)
